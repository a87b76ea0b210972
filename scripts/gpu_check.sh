#!/usr/bin/env bash
# gpu_check.sh [--prepare] - measures one GPU in at most ten minutes: builds the measuring programs, runs those of one GPU,
# fits a profile to their samples, and times a real transformer layer in PyTorch against the prediction of that profile.
#
# A step that fails is reported and the next one goes on; the exit status is 1 when one did. Results are left in the
# folder $OUT, or in gpu-check/: samples.jsonl, the profile, fit.txt, layers.txt and layers.jsonl, log.txt, summary.txt.
# On a machine without Meson, cJSON or GSL, bring gpu-check-build/, which `gpu_check.sh --prepare` makes elsewhere.
# Settings: BASE (profile that the fit starts from), NAME (of the new one), BUDGET_SCALE (1; 0.1 for a quick try).
set -uo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 1

base=${BASE:-dgx-h200}
name=${NAME:-h200-measured}
scale=${BUDGET_SCALE:-1}
prepared=gpu-check-build
programs=(memory gemm attention)
total=570 # seconds: ten minutes, less what starting and copying the results take
begin=$SECONDS

# The libraries that the programs need and a machine for GPUs may lack.
prepare() {
    local library
    build_folder build-gpu || return 1
    rm -rf "$prepared"
    mkdir -p "$prepared/lib" || return 1
    cp build-gpu/tp-plan build-gpu/calibrate/bench/tp-calibrate-* "$prepared/" 2>/dev/null
    rm -rf "$prepared"/*.p
    ldd "$prepared/tp-plan" | awk '/libcjson|libgsl/ {print $3}' | while read -r library; do
        cp -L "$library" "$prepared/lib/"
    done
    du -sh "$prepared"
}

# build_folder FOLDER: configures and builds what is needed; nvcc may be outside the PATH.
build_folder() {
    PATH=$PATH:/usr/local/cuda/bin
    [ -f "$1/build.ninja" ] || meson setup "$1" -Dcalibrate=enabled -Dtests=false -Dmpi=disabled || return 1
    ninja -C "$1" tp-plan calibrate/bench/tp-calibrate-{gemm,memory,attention,collectives,overlap}
}

if [ "${1-}" = --prepare ]; then
    prepare
    exit
fi
out=${OUT:-gpu-check}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
log=$out/log.txt
summary=$out/summary.txt
: >"$log"
: >"$out/samples.jsonl"
rm -f "$out/layers.txt" "$out/layers.jsonl" # they are appended to
: >"$summary"
num_failed=0

# step LIMIT NAME COMMAND...: runs a command with a time limit (a function of this script limits itself); its output goes
# to the log, how it ended to the summary.
step() {
    local limit=$1 title=$2 from=$SECONDS status=0 left=$((total - SECONDS + begin))
    shift 2
    if [ "$left" -lt 5 ]; then
        num_failed=$((num_failed + 1))
        printf 'FAILED          %s: the ten minutes are over\n' "$title" | tee -a "$summary"
        return 1
    fi
    limit=$((limit < left ? limit : left))
    printf '\n== %s\n' "$title" | tee -a "$log"
    if [ "$(type -t "$1")" = function ]; then
        "$@" >"$work/step" 2>&1 || status=$?
    else
        timeout -k 10 "$limit" "$@" >"$work/step" 2>&1 || status=$?
    fi
    cat "$work/step" >>"$log"
    if [ "$status" -eq 0 ]; then
        printf 'ok      %4d s  %s\n' $((SECONDS - from)) "$title" | tee -a "$summary"
        return 0
    fi
    num_failed=$((num_failed + 1))
    printf 'FAILED  %4d s  %s (status %d)\n' $((SECONDS - from)) "$title" "$status" | tee -a "$summary"
    tail -n 12 "$work/step"
    return 1
}

skip() {
    printf 'skipped         %s: %s\n' "$1" "$2" | tee -a "$summary"
}

# budget SECONDS: scaled, at least one.
budget() {
    awk -v seconds="$1" -v scale="$scale" 'BEGIN {b = seconds * scale; printf "%d", b < 1 ? 1 : b}'
}

# Folders with CUDA libraries: the toolkit's, and those of PyTorch's packages.
library_folders() {
    local folder
    for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib; do
        [ -d "$folder" ] && printf '%s:' "$folder"
    done
    python3 - <<'PYTHON' 2>/dev/null
import glob, os, sysconfig
root = os.path.join(sysconfig.get_paths()["purelib"], "nvidia")
print(":".join(sorted(glob.glob(os.path.join(root, "*", "lib")))), end="")
PYTHON
}

# Sets `bin` and `plan` to the folders of the programs.
find_programs() {
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(library_folders):$PWD/$prepared/lib
    export LD_LIBRARY_PATH
    if [ -x "$prepared/tp-plan" ] && "$prepared/tp-plan" --version && "$prepared/tp-calibrate-gemm" --help >/dev/null; then
        plan=$prepared/tp-plan
        bin=$prepared
        return 0
    fi
    timeout -k 10 200 bash -c "$(declare -f build_folder); build_folder build-gpu" || return 1
    plan=build-gpu/tp-plan
    bin=build-gpu/calibrate/bench
}

# keep FILE: adds samples to those of all programs at once, so that nothing is lost when the machine is. A program that
# its time limit stopped has left whole lines but perhaps the last.
keep() {
    if [ -s "$work/$1" ]; then
        sed -e '$ {/[^}]$/d}' -e '$a\' "$work/$1" >>"$out/samples.jsonl"
    fi
}

# fit: the profile, and what the fit says of itself.
fit() {
    local status=0
    timeout -k 10 60 "$plan" calibrate fit --base "$base" --name "$name" --date "$(date -u +%F)" -o "$out/$name.json" \
        "$out/samples.jsonl" >"$out/fit.txt" 2>&1 || status=$?
    cat "$out/fit.txt"
    return "$status"
}

plan='' bin=''
step 20 "what the machine is" bash -c 'nvidia-smi; uname -a; command -v nvcc && nvcc --version; python3 -c "import torch; print(torch.__version__, torch.version.cuda)"; true'
step 240 "the programs are built" find_programs

if [ -n "$bin" ]; then
    step 90 "tp-calibrate-memory" "$bin/tp-calibrate-memory" --output "$work/memory.jsonl" --budget "$(budget 40)" \
        --timeout 30
    keep memory.jsonl
    step 200 "tp-calibrate-gemm" "$bin/tp-calibrate-gemm" --output "$work/gemm.jsonl" --budget "$(budget 120)" \
        --sustain "$(budget 3)" --timeout 30
    keep gemm.jsonl
    if ldd "$bin/tp-calibrate-attention" 2>/dev/null | grep -q 'libcudnn.* => /'; then
        step 160 "tp-calibrate-attention" "$bin/tp-calibrate-attention" --output "$work/attention.jsonl" \
            --budget "$(budget 90)" --timeout 30
        keep attention.jsonl
    else
        skip "tp-calibrate-attention" "built without cuDNN, or its library is not here"
    fi
else
    skip "the measuring programs (${programs[*]})" "there are none"
fi

if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    step 40 "launch cost of a PyTorch operation" python3 scripts/gpu_check_layer.py host --output "$work/host.jsonl"
    keep host.jsonl
    has_torch=yes
else
    skip "PyTorch" "not installed, or it sees no GPU"
    has_torch=''
fi

if [ -s "$out/samples.jsonl" ] && [ -n "$plan" ]; then
    step 20 "tp-plan reads the samples" "$plan" calibrate import "$out/samples.jsonl"
    step 60 "tp-plan calibrate fit" fit
fi

if [ -n "$has_torch" ] && [ -n "$plan" ]; then
    for profile in "$base" "$out/$name.json"; do
        case $profile in
            *.json) [ -s "$profile" ] || { skip "layers against $name" "it was not fitted"; continue; } ;;
        esac
        step 90 "a transformer layer against $(basename "$profile" .json)" python3 scripts/gpu_check_layer.py layers \
            --plan "$plan" --cluster "$profile" --output "$out/layers.jsonl" --table "$out/layers.txt"
    done
    [ ! -s "$out/layers.txt" ] || cat "$out/layers.txt"
fi

# Last: nothing else depends on it, and some machines do not let it at the GPU.
if [ -n "$bin" ] && command -v compute-sanitizer >/dev/null && [ $((SECONDS - begin)) -lt $((total - 60)) ]; then
    if timeout -k 5 20 compute-sanitizer "$bin/tp-calibrate-memory" --no-libraries --repeats 1 --budget 1 --rows 1 \
        --output "$work/sanitizer.try" 2>&1 | grep -q 'not supported'; then
        skip "compute-sanitizer" "it does not support this machine"
    else
        step 45 "no kernel of ours reads or writes outside its buffers" compute-sanitizer --error-exitcode 9 \
            "$bin/tp-calibrate-memory" --no-libraries --repeats 3 --budget 5 --output "$work/sanitizer.dropped"
    fi
else
    skip "compute-sanitizer" "not installed, or no time left for it"
fi

printf '\n%d s in all\n' $((SECONDS - begin)) | tee -a "$summary"
printf '\n'
cat "$summary"
[ "$num_failed" -eq 0 ]
