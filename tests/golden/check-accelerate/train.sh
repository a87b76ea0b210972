#!/bin/bash
# The file says 2 machines of 8 and version 1; the options of the launcher win.
accelerate launch --config_file fsdp1.yaml --fsdp_version 2 --fsdp_reshard_after_forward false train.py \
    --model_name_or_path meta-llama/Llama-3.1-8B \
    --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 4 \
    --max_length 4096 \
    --gradient_checkpointing true \
    --bf16 true
