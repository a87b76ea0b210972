#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:8
export CUDA_LAUNCH_BLOCKING=1
OPTIONS=" \
    --tensor-model-parallel-size 3 \
    --pipeline-model-parallel-size 2 \
    --sequence-parallel \
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 1024 \
    --micro-batch-size 4 --global-batch-size $BATCH_SIZE \
    --train-iters 100 --lr-warmup-samples 10 --lr 1e-4 \
    --bf16 true \
    --fp16 \
    --swiglue \
    --checkpoint-activations \
    --lr-decay-style wave"
srun bash -c "torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES --node_rank \$SLURM_PROCID \
    pretrain_gpt.py $OPTIONS --data-path $DATA 2>&1 | tee log"
