if :; then { ( case $x in (a|b) ;; esac ) ; } fi && ! [[ a =~ ^(b|c)+$ && ( -n x || y < z ) ]] || time p | q |& r; until w; do break; done; select s in 1; do :; done
