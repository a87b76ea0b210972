#!/usr/bin/env python3
"""Runs recorded sequences of allocations through real PyTorch and compares with the replica, after every event, exactly.

    scripts/gpu_allocator_check.py [BUILD_DIR]       (default: build; needs a GPU with 20 GiB free and torch 2.1 or later)
    scripts/gpu_allocator_check.py --self-test [BUILD_DIR]   (no GPU: records and replays only)

Three sequences, each in a process of its own, since the allocator reads its settings once: static shapes, variable lengths
on two streams under a memory fraction that makes it retry, and the same with expandable segments. Prints one line a
sequence and exits 1 when one differs, 4 when there is no GPU to run on; takes about three minutes.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NAMES = ("static", "variable", "expandable")
# Of the sequence with a memory fraction: less than it would reserve, more than it allocates. In the middle of a granule of
# 2 MiB, so that it counts for nothing whether a release takes the fraction of cudaMemGetInfo's total or of the card's.
LIMIT_BYTES = 7.5 * 2**30 + 2**20
FREE_BYTES = 20 * 2**30  # the sequences reserve 4 to 16 GiB
SLEEP_CYCLES = 200_000_000  # about 0.1 s: longer than the host needs from a free to the stream's next "s"
FIELDS = ("allocated", "reserved", "active", "retries", "out of memory")


def read_sequence(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return lines[0].removeprefix("settings "), [line.split() for line in lines[1:]]


def driver_settings(settings):
    """The memory fraction is set by a call: older releases know no such option."""
    parts = [part for part in settings.split(",") if part and not part.startswith("per_process_memory_fraction:")]
    fraction = [part.split(":")[1] for part in settings.split(",") if part.startswith("per_process_memory_fraction:")]
    return ",".join(parts), float(fraction[0]) if fraction else None


def run_on_gpu(path, out_path):
    """In a child process with the settings in its environment: one line of figures for each event."""
    import torch

    settings, events = read_sequence(path)
    _, fraction = driver_settings(settings)
    torch.cuda.init()
    if fraction is not None:
        torch.cuda.set_per_process_memory_fraction(fraction)
    streams = {0: torch.cuda.current_stream()}
    tensors, used_on, busy = {}, {}, set()  # used_on: streams that a tensor was recorded on; busy: those that sleep
    retries = 0
    with open(out_path, "w") as out:
        out.write(f"{torch.cuda.get_device_properties(0).total_memory}\n")
        for event in events:
            kind, numbers = event[0], [int(number) for number in event[1:]]
            if kind in "ars" and numbers[-1] not in streams:
                streams[numbers[-1]] = torch.cuda.Stream()
            if kind == "a":
                try:
                    with torch.cuda.stream(streams[numbers[2]]):
                        tensors[numbers[0]] = torch.empty(numbers[1], dtype=torch.uint8, device="cuda")
                except torch.cuda.OutOfMemoryError:
                    tensors[numbers[0]] = None
            elif kind == "r" and tensors[numbers[0]] is not None:
                tensors[numbers[0]].record_stream(streams[numbers[1]])
                used_on.setdefault(numbers[0], set()).add(numbers[1])
            elif kind == "f":
                # The free records an event on each of these streams. It must stay open up to the stream's next "s".
                for stream in used_on.pop(numbers[0], set()) - busy:
                    with torch.cuda.stream(streams[stream]):
                        torch.cuda._sleep(SLEEP_CYCLES)
                    busy.add(stream)
                del tensors[numbers[0]]
            elif kind == "s":
                streams[numbers[0]].synchronize()
                busy.discard(numbers[0])
            elif kind == "e":
                torch.cuda.empty_cache()
            stats = torch.cuda.memory_stats()
            if kind == "e" or stats.get("num_alloc_retries", 0) > retries:
                busy.clear()  # both wait for all that is under way
                retries = stats.get("num_alloc_retries", 0)
            out.write(" ".join(str(stats.get(key, 0)) for key in (
                "allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current",
                "num_alloc_retries", "num_ooms")) + "\n")


def set_limit(path, total):
    """Writes the memory fraction that is LIMIT_BYTES of this card into a sequence that has one."""
    text = pathlib.Path(path).read_text()
    fraction = f"per_process_memory_fraction:{min(1.0, LIMIT_BYTES / total):.9f}"
    pathlib.Path(path).write_text(re.sub(r"per_process_memory_fraction:[0-9.]+", fraction, text, count=1))


def card_bytes():
    """Total memory of the card, or None with a word about why there is none to use."""
    query = ("import torch; free, total = torch.cuda.mem_get_info(); "
             "print(free, torch.cuda.get_device_properties(0).total_memory)")
    done = subprocess.run([sys.executable, "-c", query], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"gpu_allocator_check.py: no GPU to run on: {reason}\n  fix: install torch with CUDA, or use --self-test",
              file=sys.stderr)
        return None
    free, total = map(int, done.stdout.split())
    if free < FREE_BYTES:
        print(f"gpu_allocator_check.py: {free / 2**30:.1f} GiB of the GPU are free, the sequences need {FREE_BYTES / 2**30:.0f}",
              file=sys.stderr)
        return None
    return total


def describe(error):
    return "180 seconds were not enough" if isinstance(error, subprocess.TimeoutExpired) else f"status {error.returncode}"


def compare(name, path, folder, program, card):
    set_limit(path, card)
    settings, events = read_sequence(path)
    out_path = os.path.join(folder, "measured")
    others = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    if driver_settings(settings)[0]:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = driver_settings(settings)[0]
    try:
        subprocess.run([sys.executable, __file__, "--child", path, out_path], env=environment, check=True, timeout=180)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{name}: the process with PyTorch did not end well: {describe(error)}")
        return False
    total, *measured = pathlib.Path(out_path).read_text().splitlines()
    replayed = subprocess.run([program, "replay", path, total], check=True, stdout=subprocess.PIPE,
                              text=True).stdout.splitlines()
    for index, (real, ours) in enumerate(zip(measured, replayed)):
        if real != ours:
            pairs = ", ".join(f"{field} {a} (replica {b})" for field, a, b in zip(FIELDS, real.split(), ours.split()))
            print(f"{name}: differs after event {index + 1} of {len(events)} ({' '.join(events[index])}): {pairs}")
            return False
    last = measured[-1].split()
    print(f"{name}: {len(events)} events alike; retries {last[3]}, settings '{settings}'")
    is_whole = len(measured) == len(replayed) == len(events)
    if not is_whole:
        print(f"{name}: {len(measured)} events measured and {len(replayed)} replayed of {len(events)}")
    return is_whole


def self_test(name, path, program):
    """Without a GPU: the sequence is read back, and everything is free at its end but what lives for good."""
    total = 80 << 30
    set_limit(path, total)
    _, events = read_sequence(path)
    figures = subprocess.run([program, "replay", path, str(total)], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.splitlines()
    peak = max(int(line.split()[1]) for line in figures)
    print(f"{name}: {len(events)} events, {peak / 2**30:.2f} GiB reserved at the peak")
    retries, failures = figures[-1].split()[3:]
    is_limited = "per_process_memory_fraction" in read_sequence(path)[0]
    return (len(figures) == len(events) and 1 << 30 < peak < 20 << 30 and failures == "0" and
            (int(retries) > 0) == is_limited)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", metavar="BUILD_DIR", help="Meson build folder")
    parser.add_argument("--self-test", action="store_true", help="no GPU: record and replay only")
    parser.add_argument("--child", nargs=2, metavar=("SEQUENCE", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return run_on_gpu(*arguments.child)
    program = pathlib.Path(arguments.build) / "tests" / "support" / "allocator_sequence"
    if not program.is_file():
        parser.error(f"{program} is not there: build first, with meson and ninja, or name the build folder")
    card = None if arguments.self_test else card_bytes()
    if card is None and not arguments.self_test:
        return 4
    alike = True
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                subprocess.run([program, "record", name], check=True, stdout=file)
            good = self_test(name, path, program) if arguments.self_test else compare(name, path, folder, program, card)
            alike = alike and good
    return 0 if alike else 1


sys.exit(main())
