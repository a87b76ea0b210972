#!/usr/bin/env python3
"""Runs scripts/gpu_allocator_check.py against a stand-in for torch, as TAP: allocator_check.py SCRIPT BUILD_DIR

The stand-in answers with the replica's own figures, so that what is tested is the script: what it asks of torch, that it
compares every event, and how it ends when a figure differs, a process stops, or there is no GPU to use.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

STAND_IN = '''
import contextlib, os, subprocess, sys

uint8 = "uint8"
settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
counts = {"fraction": None, "tensors": 0, "recorded": 0, "slept": 0}

def empty(size, dtype, device):
    assert size > 0 and dtype == uint8 and device == "cuda"
    counts["tensors"] += 1
    return Tensor()

class Tensor:
    def record_stream(self, stream):
        counts["recorded"] += 1

class Stream:
    def synchronize(self):
        pass

class Properties:
    total_memory = 24 << 30

class cuda:
    class OutOfMemoryError(RuntimeError):
        pass

    Stream = Stream
    figures, event = None, 0

    def init():
        pass

    def mem_get_info():
        if os.environ["STAND_IN"] == "no GPU":
            raise RuntimeError("No CUDA GPUs are available")
        return ((8 if os.environ["STAND_IN"] == "full" else 23) << 30, 24 << 30)

    def get_device_properties(device):
        return Properties

    def set_per_process_memory_fraction(fraction):
        counts["fraction"] = fraction

    def current_stream():
        return Stream()

    def stream(stream):
        return contextlib.nullcontext()

    def empty_cache():
        pass

    def _sleep(cycles):
        counts["slept"] += 1

    def memory_stats():
        if cuda.figures is None:
            cuda.figures = subprocess.run([os.environ["SEQUENCE"], "replay", sys.argv[2], str(24 << 30)], check=True,
                                          stdout=subprocess.PIPE, text=True).stdout.splitlines()
        figures = [int(number) for number in cuda.figures[cuda.event].split()]
        cuda.event += 1
        if os.environ["STAND_IN"] == "differs" and cuda.event == 1234:
            figures[1] += 2 << 20
        if os.environ["STAND_IN"] == "stops" and cuda.event == 1234:
            sys.exit(1)
        if cuda.event == len(cuda.figures):
            with open(os.environ["LOG"], "a") as log:
                log.write(f"{settings}|{counts['fraction']}|{counts['tensors'] > 0}|{counts['recorded'] > 0}|{counts['slept'] > 0}\\n")
        return dict(zip(("allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current",
                         "num_alloc_retries", "num_ooms"), figures))
'''


def run(script, build, folder, kind):
    """Exit status, what it printed, and what each of the processes asked of torch."""
    log = os.path.join(folder, kind)
    environment = dict(os.environ, PYTHONPATH=folder, STAND_IN=kind, LOG=log, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64",
                       SEQUENCE=os.path.join(build, "tests", "support", "allocator_sequence"))
    done = subprocess.run([sys.executable, script, build], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr, pathlib.Path(log).read_text() if os.path.exists(log) else ""


def check(condition, message):
    if not condition:
        raise ValueError(message)


def alike(status, out, err, log):
    check(status == 0 and len(out.splitlines()) == 3 and out.count("events alike") == 3, f"three sequences alike: {out}{err}")
    static, variable, expandable = log.splitlines()
    # The caller's settings do not reach a sequence; 7.5 GiB and 1 MiB of 24 GiB are 0.312540690.
    check(static.startswith("|None|True|"), static)
    check(variable == "|0.31254069|True|True|True", variable)
    check(expandable == "expandable_segments:True|None|True|True|True", expandable)


def differs(status, out, err, log):
    first = out.splitlines()[0]
    check(status == 1 and "differs after event 1234" in first, out + err)
    reserved = first.split("reserved ")[1].split(")")[0].split(" (replica ")
    check(int(reserved[0]) - int(reserved[1]) == 2 << 20, first)


def stops(status, out, err, log):
    check(status == 1 and out.count("did not end well: status 1") == 3 and err == "", out + err)


def no_gpu(status, out, err, log):
    check(status == 4 and "No CUDA GPUs are available" in err and out == "", out + err)


def full(status, out, err, log):
    check(status == 4 and "8.0 GiB of the GPU are free, the sequences need 20" in err and out == "", out + err)


CASES = {"alike": alike, "differs": differs, "stops": stops, "no GPU": no_gpu, "full": full}


def main():
    script, build = sys.argv[1:]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "torch.py").write_text(STAND_IN)
        for number, (kind, judge) in enumerate(CASES.items(), 1):
            try:
                judge(*run(script, build, folder, kind))
                print(f"ok {number} - {kind}")
            except ValueError as error:
                failed = True
                print(f"not ok {number} - {kind}\n# {error}")
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


sys.exit(main())
