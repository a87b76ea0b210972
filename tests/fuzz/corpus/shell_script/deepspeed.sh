#!/bin/bash
MBS=4 GBS=64 ZERO=2
CONFIG=ds_config.json
cat <<EOT > $CONFIG
{ "train_batch_size": $GBS, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "zero_optimization": { "stage": $ZERO, "reduce_bucket_size": 5e8, "offload_optimizer": {"device": "cpu"} },
  "fp16": {"enabled": true, "loss_scale": 0}, "bf16": {"enabled": "auto"} }
EOT
MBS=4 GBS=64 ZERO=2
ds_args=" --deepspeed ${ds_args}"
ds_args=" --deepspeed_config=$CONFIG --zero-stage=$ZERO --no-pipeline-parallel ${ds_args}"
deepspeed --num_nodes=1 --num_gpus 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --fp16 \
    --checkpoint-activations --num-experts 4 8 --moe-expert-parallel-size 4 --topk 2 --rampup-batch-size 32 32 100 \
    --ds-sequence-parallel-size 2 --num-key-value-heads 4 --train-iters 10 --lr 1e-4 $ds_args | tee log
