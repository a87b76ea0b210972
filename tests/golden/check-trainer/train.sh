#!/bin/bash
MODEL=Qwen/Qwen2.5-7B-Instruct
NUM_GPUS=${NUM_GPUS:-8}
deepspeed --num_gpus=$NUM_GPUS train.py \
    --model_name_or_path $MODEL \
    --data_path data.json \
    --bf16 True \
    --output_dir out \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 8 \
    --model_max_length 2048 \
    --gradient_checkpointing True \
    --learning_rate 2e-5 \
    --deepspeed ds.json
