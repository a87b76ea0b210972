torchrun --nproc_per_node=8 --nnodes=1 scripts/training/run_recipe.py \
  --recipe llama31_8b_pretrain_2gpu_h100_bf16_config \
  -tp 2 -pp 2 -gb 64 \
  model.virtual_pipeline_model_parallel_size=5 \
  model.sequence_paralel=true model.context_parallel_size=1 train.micro_batch_size=1 \
  '++model.recompute_granularity="full"' dataset.seq_length=8192 \
  logger.wandb_project='x y' dataset.blend=[[/data/x],null]
