#!/bin/sh
# run.sh TP_PLAN SOURCE_ROOT - the shipped GPUs that kernels were measured on are what the tool makes of the measurements,
# byte for byte; and what a step sustains of their rates is what the published runs say, within twice its error.
set -eu
tp_plan=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gpus="a100-sxm4-80g h100-sxm5-80g h200-sxm-141g b200-sxm gb200 gb300 l40s"
steps="bigscience efficient-layouts fms-acceleration internevo llm-foundry lucie megatron-lm nemo nvidia-dgxc other
    vocabulary-parallel vtrain-multi"
echo 1..9
number=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    number=$((number + 1))
    if "$@" > "$work/why" 2>&1; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' "$work/why"
    fi
}

is_sustained() {
    set -- "$1" "$2"
    options=
    for run in $steps; do
        options="$options --steps=$root/tests/reference/runs/$run.jsonl"
    done
    # shellcheck disable=SC2086
    "$tp_plan" calibrate fit "--base=$1" --json $options > "$work/steps.json"
    python3 - "$work/steps.json" "$2" <<'PYTHON'
import json, sys
group = json.load(open(sys.argv[1]))["groups"][-1]
value = group["values"][0]
print(group["name"], group["samples"], value)
sys.exit(not (group["samples"] >= float(sys.argv[2]) and value["state"] == "fitted"
              and abs(value["value"] - value["base"]) <= 2 * value["standard_error"] + 0.005))
PYTHON
}

"$root/scripts/refit_profiles.sh" "$tp_plan" "$work/refit"
for gpu in $gpus; do
    check "$gpu is fitted to its measurements" cmp "$work/refit/$gpu.json" "$root/hwprofiles/gpus/$gpu.json"
done
check "a step on A100 sustains 0.9 of the burst rate" is_sustained dgx-a100-80g 50
check "a step on H100 sustains 0.82 of the burst rate" is_sustained dgx-h100 10
