set -ex
DIR=`pwd`
host="${HOSTNAME%%.*}"
current_time=$(date "+%Y.%m.%d-%H.%M.%S")
NAME=<name of the run>
cat <<EOT > ds_$NAME.json
{ "train_batch_size" : $GBS, "path": "\$x `whoami`" }
EOT
options=" \
    --num-layers 24 \
    --hidden-size 1024 \
    --pp-partition-method 'type:transformer|embedding' \
    "
if [ "${CKPT}" = "true" ]; then
options="${options} \
    --recompute-activations"
fi
for i in {0..3} a b; do options+=" --x$i"; done
while [ $# -gt 0 ]; do case "$1" in --a) A="$2"; shift 2;; *) exit 1;; esac; done
function run() { local n=$1; shift; srun -N "$n" --ntasks-per-node=8 bash -c "$*"; }
CMD="python -u -m torch.distributed.run --nnodes $N --node_rank \$SLURM_PROCID pretrain_gpt.py ${options}"
run 4 "$CMD"
eval ${CMD} &> ${DIR}/log_${current_time}
NPROC_PER_NODE=8 \
CUDA_VISIBLE_DEVICES=0,1 \
megatron sft --model Qwen/Q --lr 1e-5
