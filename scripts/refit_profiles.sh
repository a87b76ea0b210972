#!/bin/sh
# refit_profiles.sh TP_PLAN DATA_FOLDER OUTPUT_FOLDER - fits the shipped profiles to published measurements.
#
# DATA_FOLDER has kernels/ and collectives/, tables of published times (each names its source in its first lines).
# OUTPUT_FOLDER gets, for each profile, NAME.json (the fitted profile: the same bytes for the same program and tables),
# NAME.txt (what moved, by how much, and the errors on samples that were held out) and summary.txt. Nothing is shipped
# by this: fitted rates are those of kernels run back to back; what a training step sees of them is lower, and the
# shipped values say so in their sources.
set -eu
if [ $# -ne 3 ]; then
    echo "usage: refit_profiles.sh TP_PLAN DATA_FOLDER OUTPUT_FOLDER" >&2
    exit 2
fi
tp_plan=$1
kernels=$2/kernels
collectives=$2/collectives
output=$3
mkdir -p "$output"
: > "$output/summary.txt"

# fit PROFILE DEVICE FILE...: only samples whose device has DEVICE in its name ("" = all).
fit() {
    profile=$1
    device=$2
    shift 2
    if [ -n "$device" ]; then
        set -- "--device=$device" "$@"
    fi
    "$tp_plan" calibrate fit "--base=$profile" "--name=$profile" -o "$output/$profile.json" "$@" \
        > "$output/$profile.txt.new"
    sed '/^written: /d' "$output/$profile.txt.new" > "$output/$profile.txt"
    rm "$output/$profile.txt.new"
    {
        echo "== $profile"
        grep -v -e '^[a-z_]*, [0-9]* ranks' "$output/$profile.txt" | grep -e '^[a-z]' -e 'held out' |
            sed 's/ (.*//' | awk '/held out/ { if (name != "") print name ":" $0; name = ""; next } { name = $0 }'
    } >> "$output/summary.txt"
}

fit dgx-a100-80g "" "$kernels/gemm_a100-sxm4-80g_bf16.csv" "$kernels/attnfwd_a100-sxm4-80g_d128.csv" \
    "$kernels/elementwise_a100-80g_fp16.csv" "$collectives/nccl_a100-sxm4-80g.csv"
fit a100-80g-pcie "A100-PCIe" "$kernels/gemmtrain_a100-pcie_bf16.csv" \
    "$kernels/attntrain_a100pcie_h200_gb200_cudnnfe.csv" "$kernels/attntrain_a100-pcie_bf16.csv"
fit dgx-h100 "" "$kernels/gemm_h100-sxm_bf16.csv" "$kernels/gemm_h100-sxm_bf16_sglang.csv" \
    "$kernels/gemm_h100-sxm_fp8.csv" "$kernels/attnfwd_h100-sxm_d128.csv" "$kernels/attnfwd_h100-sxm_d64.csv" \
    "$kernels/elementwise_h100-80g_fp16.csv" "$collectives/nccl_h100-sxm.csv"
fit dgx-h200 "H200" "$kernels/gemm_h200-sxm_bf16.csv" "$kernels/gemm_h200-sxm_fp8.csv" \
    "$kernels/attnfwd_h200-sxm_d128.csv" "$kernels/attntrain_a100pcie_h200_gb200_cudnnfe.csv" \
    "$collectives/nccl_h200-sxm.csv"
fit dgx-b200 "" "$kernels/gemm_b200-sxm_bf16.csv" "$kernels/gemmtrain_b200_bf16.csv" \
    "$kernels/gemm_b200-sxm_fp8.csv" "$kernels/attnfwd_b200-sxm_d128.csv" "$kernels/attntrain_b200_bf16.csv" \
    "$collectives/nccl_b200-sxm.csv"
fit gb200-nvl72 "GB200" "$kernels/gemm_gb200_bf16.csv" "$kernels/gemm_gb200_fp8.csv" \
    "$kernels/attnfwd_gb200_d128.csv" "$kernels/attntrain_a100pcie_h200_gb200_cudnnfe.csv" \
    "$collectives/nccl_gb200.csv"
fit gb300-nvl72 "" "$kernels/gemm_gb300_bf16.csv" "$collectives/nccl_gb300.csv"
fit l40s-pcie "" "$kernels/gemm_l40s_bf16.csv" "$kernels/gemm_l40s_fp8.csv" "$kernels/attnfwd_l40s_d128.csv" \
    "$collectives/nccl_l40s.csv"
cat "$output/summary.txt"
