#!/bin/bash
cat > fsdp.yaml <<'EOF'
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_activation_checkpointing: true
  fsdp_cpu_ram_efficient_loading: true
parallelism_config:
  parallelism_config_dp_shard_size: 2
  parallelism_config_tp_size: 2
  parallelism_config_cp_size: 2
EOF
accelerate launch --config_file fsdp.yaml --fsdp_version=2 --num_machines 1 --parallelism_config_dp_replicate_size 1 \
    --use_fsdp train.py --model_name_or_path "$MODEL" --per_device_train_batch_size 1 --bf16 True \
    --gradient_accumulation_steps 4 --max_length 8192 --use_peft --lora_r 16 --lora_target_modules all-linear
