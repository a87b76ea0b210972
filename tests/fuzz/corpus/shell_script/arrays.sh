#!/bin/bash
#SBATCH --nodes=4 --gres=gpu:8
#SBATCH <ACCOUNT> --ntasks-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS=8 # change for multinode
NODES=${SLURM_NNODES:-1}
WORLD=$(($GPUS*NODES))
OUT=$1 #<Specify path>
DIST=(
    --nproc_per_node $GPUS # all of them
    --nnodes $NODES
    # --max_restarts 3
    --rdzv_endpoint ${MASTER_ADDR:?set it}:29500
)
MODEL=(--num-layers 32 --hidden-size 4096 --num-attention-heads=32
	--seq-length 4096 --max-position-embeddings 4096)
EXTRA=()
if [[ "${FP8:-0}" == 1 || -z "$X" ]]; then
    EXTRA+=("--fp8-format hybrid" "--split '99,1,0'")
elif [ -f "$OUT/x" ]; then EXTRA+=(--swiglu)
else EXTRA=( "${EXTRA[@]}" --bf16 ); fi
case ${SIZE:-8b} in 7*|8b) TP=2;; *) TP=8; shift 2>/dev/null;; esac
torchrun ${DIST[@]} pretrain_gpt.py "${MODEL[@]}" ${EXTRA[@]} \
    --tensor-model-parallel-size $TP --micro-batch-size 1 --global-batch-size $((WORLD * 4)) \
    --train-samples 220_000_000 --lr 3e-4 --data-path $DATA --save "$OUT" 2>&1 | tee "${OUT}/log" &> /dev/null
