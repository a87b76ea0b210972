#!/bin/bash
SIZE=${SIZE:-small}
if [ "$SIZE" == small ]; then
    TP=2 LAYERS=24 HIDDEN=2048 HEADS=16 NODES=2
else
    TP=8 LAYERS=48 HIDDEN=8192 HEADS=64 NODES=16
fi
. `pwd`/options.sh
. $PWD/submit.sh
exit 0
