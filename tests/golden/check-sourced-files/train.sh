#!/bin/bash
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/sizes.sh" small
source ../../../../etc/hostname
. /etc/hostname
deepspeed --num_gpus 8 pretrain_gpt.py --num-layers $LAYERS --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --tensor-model-parallel-size $TP \
    --micro-batch-size 2 --global-batch-size 64 --train-iters 10 --lr 1e-4 --bf16 --vocab-size 50257 \
    --deepspeed --deepspeed_config $HERE/ds.json --zero-stage 2 --no-pipeline-parallel
