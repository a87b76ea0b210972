#!/bin/bash
printf '%s' '{"train_batch_size": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
 "offload_param": {"device": "cpu"}, "overlap_comm": true}, "bf16": {"enabled": "auto"}}' > unread.json
cat > ds.json <<EOF
{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
 "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7, "offload_optimizer": {"device": "cpu"}}}
EOF
deepspeed --num_gpus=8 train.py --deepspeed ds.json --model_name_or_path a/b --per_device_train_batch_size 2 \
    --gradient_accumulation_steps 2 --bf16 --gradient_checkpointing --max_length 4096
