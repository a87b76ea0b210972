#!/bin/bash
# The stage of the configuration and the batch contradict the options, and the pipeline engine has no stage 2.
GPUS=8
MICRO_BATCH=4
GLOBAL_BATCH=$(( GPUS * MICRO_BATCH ))
DS_CONFIG=ds_config.json
cat <<EOT > $DS_CONFIG
{
  "train_batch_size": $GLOBAL_BATCH,
  "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": { "stage": 2, "reduce_bucket_size": 5e8 },
  "fp16": { "enabled": true }
}
EOT
ds_args=" --deepspeed --deepspeed_config $DS_CONFIG"
ds_args=" --zero-stage=1 ${ds_args}"
run_cmd="deepspeed --num_gpus $GPUS pretrain_gpt.py \
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 \
    --micro-batch-size $MICRO_BATCH --global-batch-size $GLOBAL_BATCH \
    --train-iters 1000 --lr 1e-4 --fp16 --checkpoint-activations ${ds_args} &> train.log"
eval ${run_cmd}
