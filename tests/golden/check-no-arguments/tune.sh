#!/bin/bash
# Without an argument, trains; "import" and "export" convert a checkpoint.
TP=2
task="deepspeed finetune_llama.py --load llama-TP${TP}"
if [ "$1" = "import" ]; then
    task="deepspeed tools/convert.py --load-mode auto"
elif [ "$1" = "export" ]; then
    task="deepspeed tools/convert.py --to-hf-ckpt"
fi
options="--tensor-model-parallel-size $TP \
--pipeline-model-parallel-size 2 \
--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 \
--seq-length 512 --max-position-embeddings 512 --vocab-size 32000 \
--micro-batch-size 16 --global-batch-size 256 --train-iters 3500 \
--swiglu --normalization rmsnorm --bf16 --zero-stage 0 --deepspeed --deepspeed_config ds.json"
eval "$task $options"
