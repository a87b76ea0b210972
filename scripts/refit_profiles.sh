#!/bin/sh
# refit_profiles.sh TP_PLAN OUTPUT_FOLDER [DATA_FOLDER] - writes the shipped GPUs that kernels were measured on: from
# hwprofiles/base (what is known without these tables), by `tp-plan calibrate fit`, byte for byte hwprofiles/gpus.
#
# DATA_FOLDER has kernels/, tables of published times; without it hwprofiles/measurements is taken (what scripts/
# thin_tables.py keeps of them: the same result). OUTPUT_FOLDER gets NAME.json, and NAME.txt: what moved, with its error,
# and how good it is on samples that were held out.
set -eu
if [ $# -ne 2 ] && [ $# -ne 3 ]; then
    echo "usage: refit_profiles.sh TP_PLAN OUTPUT_FOLDER [DATA_FOLDER]" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
tp_plan=$1
output=$2
kernels=${3:-$root/hwprofiles/measurements}/kernels
mkdir -p "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fit GPU CLUSTER DEVICE FILE...: only samples whose device has DEVICE in its name ("" = all). The base's GPU stands in a
# cluster that has it.
fit() {
    gpu=$1
    cluster=$2
    device=$3
    shift 3
    {
        printf '{"schema_version": 1, "name": "%s", "base": "%s", "gpu":\n' "$cluster" "$cluster"
        cat "$root/hwprofiles/base/$gpu.json"
        printf '}\n'
    } > "$work/$gpu.json"
    for file in "$@"; do
        shift
        set -- "$@" "$kernels/$file"
    done
    "$tp_plan" calibrate fit "--base=$work/$gpu.json" ${device:+"--device=$device"} "--gpu-output=$output/$gpu.json" \
        "$@" > "$work/$gpu.txt"
    sed '/^written: /d' "$work/$gpu.txt" > "$output/$gpu.txt"
}

fit a100-sxm4-80g dgx-a100-80g "" gemm_a100-sxm4-80g_bf16.csv attnfwd_a100-sxm4-80g_d128.csv \
    elementwise_a100-80g_fp16.csv
fit h100-sxm5-80g dgx-h100 "" gemm_h100-sxm_bf16.csv elementwise_h100-80g_fp16.csv
fit h200-sxm-141g dgx-h200 H200 gemm_h200-sxm_bf16.csv attnfwd_h200-sxm_d128.csv \
    attntrain_a100pcie_h200_gb200_cudnnfe.csv
fit b200-sxm dgx-b200 "" gemm_b200-sxm_bf16.csv gemmtrain_b200_bf16.csv
fit gb200 gb200-nvl72 GB200 gemm_gb200_bf16.csv attnfwd_gb200_d128.csv attntrain_a100pcie_h200_gb200_cudnnfe.csv
fit gb300 gb300-nvl72 "" gemm_gb300_bf16.csv
fit l40s l40s-pcie "" gemm_l40s_bf16.csv
