# Read by train.sh.
TP=${TP:-8}
if [ "$1" = small ]; then
    LAYERS=24
fi
touch executed
