#!/bin/bash
# Llama 3.1 8B on one node.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
TP=${TP:-2}
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000
    --swiglu --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 128256
    --attention-dropout 0 --hidden-dropout 0
)
TRAINING_ARGS=(
    --micro-batch-size 1 # a GPU
    --global-batch-size $((GPUS_PER_NODE * 8))
    --train-iters 1000 --lr 3e-4 --bf16
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
if [ "$TP" -gt 1 ]; then
    TRAINING_ARGS+=(--sequence-parallel)
fi
torchrun --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" \
    --tensor-model-parallel-size "$TP" --mock-data --tokenizer-type NullTokenizer
