: "${DATA:?set DATA to the prefix of the data}"
export OPTIONS=" --tensor-model-parallel-size ${TP} --num-layers ${LAYERS} --hidden-size ${HIDDEN} \
    --num-attention-heads ${HEADS} --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 \
    --global-batch-size 256 --train-iters 500 --lr 1e-4 --bf16 --data-path ${DATA} --vocab-size 50257"
