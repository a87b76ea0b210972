cat <<A <<-"B" x
a
A
	b$c
	B
echo "unclosed