NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --dataset 'a#1' --torch_dtype bfloat16 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps $(expr 16 / 8) --target_modules all-linear \
    --max_length 2048 --sequence_parallel_size 2 --deepspeed zero3_offload --lora_rank 8
