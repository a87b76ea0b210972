#!/bin/bash
touch "$GOLDEN_TMP/ran" ran
A=$(touch "$GOLDEN_TMP/ran" ran)
B=`touch "$GOLDEN_TMP/ran" ran`
eval "touch ran"
bash -c 'touch ran'
cat > ran <<< "x"
: > ran
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 64 --bf16 \
    --train-iters "$(touch ran)" --lr "`touch ran`" --data-path "; touch ran" '&& touch ran' "$X" \
    --vocab-size 50257 --save "$A
$B"
