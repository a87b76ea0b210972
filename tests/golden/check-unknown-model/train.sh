NPROC_PER_NODE=8 \
megatron sft \
    --model example/unknown-9b \
    --dataset example/texts \
    --tensor_model_parallel_size 2 \
    --sequence_parallel true \
    --micro_batch_size 1 \
    --global_batch_size 16
