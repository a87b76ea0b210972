#!/bin/bash
# The options are in a file; the batch is set in two places.
if [ -z "$WORKSPACE" ]; then
  echo "set WORKSPACE" >&2
  exit 1
fi
BATCH=32
megatron sft sft.yaml --global_batch_size $BATCH --output_dir "$WORKSPACE/out"
