GPUS_PER_NODE=8
# Change for multinode config
NNODES=1
CHECKPOINT_PATH=<Specify path>
python -m torch.distributed.launch --nproc_per_node $GPUS_PER_NODE --nnodes=$NNODES pretrain_gpt.py \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --sequence-parallel \
    --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --train-iters 10 --lr 1e-4 \
    --vocab-size 50257 --data-path $1 --save $CHECKPOINT_PATH
