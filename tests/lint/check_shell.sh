#!/bin/sh
# Usage: check_shell.sh SOURCE_DIR TP_PLAN - ShellCheck over the scripts of the repository and over what tp-plan launch writes for
# every framework, with and without Slurm; TAP on standard output. Skipped where ShellCheck is not installed.
set -u

if [ $# -ne 2 ]; then
    echo "usage: check_shell.sh SOURCE_DIR TP_PLAN" >&2
    exit 2
fi
if ! command -v shellcheck > /dev/null; then
    echo "1..0 # SKIP shellcheck is not installed"
    exit 0
fi
source_dir=$1
tp_plan=$2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
count=0

# check NAME FILE [OPTION...]
check() {
    name_of_check=$1
    file=$2
    shift 2
    count=$((count + 1))
    if shellcheck "$@" "$file" > "$scratch/complaints" 2>&1; then
        echo "ok $count - $name_of_check"
    else
        echo "not ok $count - $name_of_check"
        sed 's/^/# /' "$scratch/complaints"
    fi
}

# check_launch NAME OPTION...: the script for one or two nodes, alone and for Slurm, with its files and in one piece.
check_launch() {
    name=$1
    shift
    for nodes in 1 2; do
        for slurm in '' --slurm; do
            for debug in '' --debug; do
                # shellcheck disable=SC2086 # an empty one is no word
                "$tp_plan" launch --model=llama3.1-8b --cluster=dgx-h100 --seq-length=4096 --global-batch-size=64 \
                    --nodes=$nodes "$@" $slurm $debug > "$scratch/train.sh" || : > "$scratch/train.sh"
                check "$name $nodes $slurm $debug" "$scratch/train.sh"
            done
        done
    done
    "$tp_plan" launch --model=llama3.1-8b --cluster=dgx-h100 --seq-length=4096 --global-batch-size=64 --nodes=1 "$@" \
        --output="$scratch" > /dev/null
    check "$name with its files" "$scratch/train.sh"
}

for script in "$source_dir"/scripts/*.sh "$source_dir"/tests/golden/run.sh "$source_dir"/tests/golden/regenerate.sh \
    "$source_dir"/tests/lint/*.sh "$source_dir"/tests/calibrate/*.sh "$source_dir"/tests/refit/*.sh \
    "$source_dir"/examples/*/*.sh; do
    [ -e "$script" ] || continue
    check "${script#"$source_dir"/}" "$script" --severity=warning
done
check_launch megatron-lm
check_launch megatron-lm-sft --task=sft --framework-version=0.12
check_launch megatron-deepspeed --framework=megatron-deepspeed
check_launch megatron-deepspeed-pipeline --framework=megatron-deepspeed --engine=deepspeed-pipeline --pipeline-parallel=4
check_launch megatron-bridge --framework=megatron-bridge
check_launch megatron-bridge-lora --framework=megatron-bridge --task=lora --micro-batch-size=1
check_launch megatron-bridge-fsdp --framework=megatron-bridge --engine=fsdp2 --precision=fp8 --fp8-scaling=current \
    --cuda-graphs --tensor-parallel=1 --zero-stage=3
check_launch ms-swift-fp8 --framework=ms-swift --precision=fp8-block --fp8-param-gather=on
check_launch ms-swift --framework=ms-swift --task=lora
check_launch swift-sft --framework=ms-swift --engine=deepspeed --task=lora
check_launch hf-trainer --framework=hf-trainer --engine=deepspeed --task=qlora
echo "1..$count"
