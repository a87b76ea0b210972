PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True" \
NPROC_PER_NODE=8 NNODES=$N \
megatron sft \
    --model Qwen/Qwen2.5-7B-Instruct \
    --dataset "a#1" b --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*3|(tt|)*6L" \
    --decoder_last_pipeline_num_layers 13 --sequence_parallel true --train_type lora \
    --max_length 8192 --recompute_granularity selective --attention_backend flash_3 --packing
