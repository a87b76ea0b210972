#!/usr/bin/env bash
# run.sh PROGRAMS FAKES TP-PLAN - the measuring programs as TAP: PROGRAMS is the folder of the real ones, FAKES of those that
# run on a GPU made of host memory.
set -u
programs=$1 fakes=$2 plan=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export TPP_FAKE_FOLDER=$work
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TPP_BOOTSTRAP_PORT SLURM_PROCID
num_tests=0

# result NAME: reports the status of the command before.
result() {
    local status=$?
    num_tests=$((num_tests + 1))
    if [ "$status" -eq 0 ]; then
        echo "ok $num_tests - $1"
    else
        sed 's/^/# /' "$work/out" "$work/err" 2>/dev/null | tail -n 12
        echo "not ok $num_tests - $1"
    fi
}

# run EXPECTED-STATUS COMMAND...: the outputs are in $work/out and $work/err.
run() {
    local expected=$1 status=0
    shift
    timeout 60 "$@" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" -eq "$expected" ] || { echo "status $status, not $expected" >>"$work/err"; return 1; }
}

# rows PATTERN: how many lines of the samples file have it.
rows() {
    grep -c -- "$1" "$work/samples.jsonl"
}

for name in gemm attention memory collectives overlap; do
    program=$programs/tp-calibrate-$name
    run 0 "$program" --help && grep -q -- "--budget" "$work/out" && grep -q "exit codes" "$work/out"
    result "tp-calibrate-$name --help needs no GPU"
    if [ ! -e /dev/nvidiactl ]; then
        run 4 "$program" && grep -q "no GPU\|without cuDNN" "$work/err"
        result "tp-calibrate-$name without a GPU says so and ends with 4"
    fi
    run 2 "$program" --budgte 3 && grep -q -- "--budget" "$work/err"
    result "tp-calibrate-$name knows the option that was meant"
done

# Products that 12 MiB of operands and results can hold, on a "GPU" of 4 SMs.
run 0 "$fakes/fake-gemm" --output "$work/samples.jsonl" --memory 12MiB --max-points 4 --repeats 3 --sustain 0 --types bf16,fp8 &&
    [ "$(rows '"kind":"run"')" -eq 1 ] && [ "$(rows '"kind":"gemm"')" -ge 6 ] && [ "$(rows '"wrong":0')" -ge 6 ] &&
    [ "$(rows '"dtype":"fp8"')" -ge 3 ]
result "gemm measures and finds its results right"
run 0 "$plan" calibrate import "$work/samples.jsonl" && grep -q "gemm" "$work/out" && ! grep -q "skipped" "$work/out"
result "tp-plan reads the samples of gemm"
TPP_FAKE_WRONG=1 run 1 "$fakes/fake-gemm" --output "$work/samples.jsonl" --memory 12MiB --max-points 2 --types bf16 --repeats 3 --sustain 0 &&
    grep -q "were wrong" "$work/err" && [ "$(rows '"wrong":0')" -eq 0 ]
result "gemm notices wrong results"

begin=$SECONDS
TPP_FAKE_STUCK=1 run 5 "$fakes/fake-gemm" --output "$work/samples.jsonl" --memory 12MiB --max-points 1 --types bf16 --repeats 3 --timeout 1 &&
    grep -q "the GPU was not done within 1 s" "$work/err" && [ $((SECONDS - begin)) -lt 30 ]
result "gemm ends with the reason when the GPU hangs, although freeing its memory does not return"

run 0 "$fakes/fake-memory" --output "$work/samples.jsonl" --rows 3 --width 64 --repeats 3 &&
    [ "$(rows '"kind":"memory_bound"')" -eq 10 ] && [ "$(rows '"wrong":0')" -eq 10 ] && [ "$(rows 'gpu.kernel_gap_seconds')" -eq 1 ] &&
    [ "$(rows 'gpu.memory_bytes')" -eq 1 ] && run 0 "$plan" calibrate import "$work/samples.jsonl"
result "memory measures, and tp-plan reads its samples"
TPP_FAKE_WRONG=1 run 1 "$fakes/fake-memory" --output "$work/samples.jsonl" --rows 3 --width 64 --repeats 3
result "memory notices wrong results"

run 0 "$fakes/fake-attention" --output "$work/samples.jsonl" --max-points 2 --max-length 512 --head-dim 64 --repeats 3 &&
    [ "$(rows '"pass":"forward"')" -eq 2 ] && [ "$(rows '"pass":"backward"')" -eq 2 ] && [ "$(rows '"wrong":0')" -eq 4 ] &&
    run 0 "$plan" calibrate import "$work/samples.jsonl" && grep -q "attention" "$work/out"
result "attention measures, and tp-plan reads its samples"
TPP_FAKE_WRONG=1 run 1 "$fakes/fake-attention" --output "$work/samples.jsonl" --max-points 1 --max-length 512 --head-dim 64 --repeats 3
result "attention notices wrong results"

few=(--min-bytes 1KiB --max-bytes 40KiB --factor 40 --repeats 3 --timeout 20)
run 0 "$fakes/fake-collectives" --spawn 4 --output "$work/samples.jsonl" "${few[@]}" &&
    [ "$(rows '"wrong":0')" -eq "$(rows '"kind":"collective"')" ] && [ "$(rows '"group":"node"')" -ge 16 ] &&
    [ "$(rows '"group":"node-2-strided"')" -ge 16 ] && [ "$(rows '"concurrent_groups":2')" -ge 16 ] &&
    [ "$(rows '"in_place":true')" -ge 16 ] && [ "$(rows 'mean_of_ranks')" -eq "$(rows '"kind":"collective"')" ]
result "collectives measures on four ranks and finds its results right"
run 0 "$plan" calibrate import "$work/samples.jsonl" && grep -q "all_to_all" "$work/out" && ! grep -q "skipped" "$work/out"
result "tp-plan reads the samples of collectives"
TPP_FAKE_WRONG=1 run 1 "$fakes/fake-collectives" --spawn 2 --output "$work/samples.jsonl" --collectives all_reduce "${few[@]}"
result "collectives notices wrong results"
run 2 "$fakes/fake-collectives" --spawn 2 --groups across-1 --output "$work/samples.jsonl" "${few[@]}" &&
    grep -q "none of these groups" "$work/err"
result "groups that do not exist are refused"
TPP_FAKE_GPUS=2 run 4 "$fakes/fake-collectives" --spawn 3 --output "$work/samples.jsonl" "${few[@]}" &&
    [ "$(grep -c "rank 2: there is no GPU 2" "$work/err")" -eq 2 ]
result "a rank without a GPU of its own is told"

# The samples that were written before a rank was lost stay.
begin=$SECONDS
TPP_FAKE_KILL=2:40 run 137 "$fakes/fake-collectives" --spawn 4 --output "$work/samples.jsonl" "${few[@]}" &&
    [ "$(grep -c "rank 2 ended" "$work/err")" -ge 3 ] && [ $((SECONDS - begin)) -lt 15 ] && [ "$(rows '"kind":"collective"')" -ge 1 ]
result "a rank that dies in a collective is named by all others at once"
begin=$SECONDS
TPP_FAKE_STOP=3:40 run 5 "$fakes/fake-collectives" --spawn 4 --output "$work/samples.jsonl" "${few[@]}" --timeout 6 &&
    [ "$(grep -c "rank 3 " "$work/err")" -ge 3 ] && ! grep -q "error (rank 3)" "$work/err" && [ $((SECONDS - begin)) -lt 50 ]
result "a rank that stands still in a collective is named by all others"

run 0 "$fakes/fake-overlap" --spawn 2 --output "$work/samples.jsonl" --bytes 8KiB --tokens 128 --hidden 256 --repeats 3 --timeout 20 &&
    [ "$(rows 'gpu.overlap_slowdown_fraction')" -ge 4 ] && [ "$(rows '"kind":"contention"')" -ge 4 ] &&
    run 0 "$plan" calibrate import "$work/samples.jsonl"
result "overlap measures on two ranks"
# Ranks from MPI, where it was found at the build and can start them here.
skip_mpi() {
    num_tests=$((num_tests + 1))
    echo "ok $num_tests - $1 # SKIP built without MPI, or mpirun does not run here"
}
mpirun=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_hwloc_base_binding_policy=none mpirun -n 4)
small=(--collectives all_reduce --min-bytes 1KiB --max-bytes 4KiB --factor 4 --repeats 3 --timeout 20)
if ldd "$fakes/fake-collectives" 2>/dev/null | grep -q 'libmpi' && command -v mpirun >/dev/null &&
    timeout 30 "${mpirun[@]}" true >/dev/null 2>&1; then
    run 0 "${mpirun[@]}" "$fakes/fake-collectives" --output "$work/samples.jsonl" "${small[@]}" &&
        [ "$(rows '"launcher":"mpi"')" -eq 1 ] && [ "$(rows '"ranks":4,"ranks_per_node":4')" -eq 1 ] &&
        [ "$(rows '"wrong":0')" -eq "$(rows '"kind":"collective"')" ] && [ "$(rows '"group":"node"')" -ge 2 ] &&
        run 0 "$plan" calibrate import "$work/samples.jsonl"
    result "collectives measures on four ranks that mpirun started"
    begin=$SECONDS
    ! TPP_FAKE_KILL=2:20 timeout 50 "${mpirun[@]}" "$fakes/fake-collectives" --output "$work/samples.jsonl" "${small[@]}" \
        >"$work/out" 2>"$work/err" && [ $((SECONDS - begin)) -lt 30 ]
    result "a rank of mpirun that dies ends the run"
else
    skip_mpi "collectives measures on four ranks that mpirun started"
    skip_mpi "a rank of mpirun that dies ends the run"
fi
echo "1..$num_tests"
