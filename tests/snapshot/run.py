#!/usr/bin/env python3
"""Checks the file of --memory-snapshot, as TAP: run.py TP_PLAN

The viewer (pytorch.org/memory_viz) reads a pickle with a small set of opcodes, shows the segments with their blocks, and
walks the history backwards from them. So does this test.
"""
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

# Opcodes that the viewer's own reader knows and that a snapshot needs.
KNOWN = {"PROTO", "EMPTY_DICT", "MARK", "SETITEMS", "EMPTY_LIST", "APPENDS", "BINUNICODE", "BINPUT", "BINGET", "BININT",
         "BININT1", "LONG1", "NEWTRUE", "NEWFALSE", "STOP"}
ACTIONS = {"segment_alloc", "segment_free", "segment_map", "segment_unmap", "alloc", "free_requested", "free_completed",
           "oom"}
JOB = ["--model=llama2-7b", "--cluster=dgx-a100-80g", "--nodes=1", "--seq-length=8192", "--global-batch-size=32",
       "--framework=megatron-deepspeed", "--replay-steps=5"]
# The viewer passes the values of one APPENDS as arguments of one call, which stops at some 120 000; Python writes 1000.
MAX_BATCH = 1000
CASES = {
    "fixed lengths": ["--strategy=tp=4,mbs=1,zero=1,sp=1"],
    "drawn lengths and two streams": ["--strategy=mbs=1,zero=3,recompute=full", "--seq-distribution=uniform:2k-8k"],
    "expandable segments": ["--strategy=mbs=1,zero=3,recompute=full", "--seq-distribution=uniform:2k-8k",
                            "--alloc-conf=expandable_segments:True"],
    "out of memory": ["--strategy=mbs=4,zero=3", "--seq-distribution=uniform:2k-8k"],
}


def largest_batch(data):
    """Values that one APPENDS takes from the stack, at most: those that stand between it and its MARK."""
    marks, depth, largest = [], 0, 0
    for operation, _, _ in pickletools.genops(data):
        if operation.name == "MARK":
            marks.append(depth)
        elif operation.name in ("APPENDS", "SETITEMS"):
            start = marks.pop()
            largest = max(largest, depth - start) if operation.name == "APPENDS" else largest
            depth = start
        elif operation.name not in ("PROTO", "BINPUT", "STOP"):
            depth += 1
    return largest


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise ValueError(f"names {module}.{name}: a snapshot has plain values only")


def check(condition, message):
    if not condition:
        raise ValueError(message)


def check_segment(segment):
    address, active, allocated = segment["address"], 0, 0
    for block in segment["blocks"]:
        check(block["address"] == address, "blocks of a segment follow each other")
        check(block["state"] in ("active_allocated", "active_pending_free", "inactive"), block["state"])
        check(0 < block["requested_size"] <= block["size"], "a block is at least what was asked for")
        check(block["state"] == "inactive" or len(block["frames"]) == 2, "a block in use has the tensor's name")
        address += block["size"]
        active += block["size"] if block["state"] != "inactive" else 0
        allocated += block["size"] if block["state"] == "active_allocated" else 0
    check(address == segment["address"] + segment["total_size"], "blocks fill their segment")
    check((active, allocated) == (segment["active_size"], segment["allocated_size"]), "sizes of a segment add up")
    check(segment["segment_type"] in ("small", "large") and segment["device"] == 0, "kind of a segment")


def walk_back(events, blocks, segments):
    """Undoes the history; what an event says must be there when its turn comes."""
    for event in reversed(events):
        action, address, size = event["action"], event.get("addr"), event["size"]
        check(action in ACTIONS, action)
        if action == "alloc":
            check(blocks.pop(address, None) == (size, False), "an allocation made a block in use")
        elif action == "free_requested":
            check(blocks.get(address) == (size, True), "a freed block waits")
            blocks[address] = (size, False)
        elif action == "free_completed":
            check(address not in blocks, "a freed block is gone")
            blocks[address] = (size, True)
        elif action in ("segment_alloc", "segment_map"):
            check(all(piece in segments for piece in pieces(address, size)), "a new segment is there")
            segments.difference_update(pieces(address, size))
        elif action in ("segment_free", "segment_unmap"):
            check(not any(piece in segments for piece in pieces(address, size)), "a freed segment is not there")
            segments.update(pieces(address, size))


def pieces(address, size):
    """Segments as units of 2 MiB, so that mapped parts may touch."""
    return range(address, address + size, 1 << 21)


def check_snapshot(path, options):
    with open(path, "rb") as file:
        data = file.read()
    used = {operation.name for operation, _, _ in pickletools.genops(data)}
    check(used <= KNOWN, f"opcodes that the viewer may not know: {used - KNOWN}")
    check(1 < largest_batch(data) <= MAX_BATCH, f"{largest_batch(data)} values appended at once")
    with open(path, "rb") as file:
        snapshot = Plain(file).load()
    events, = snapshot["device_traces"]
    blocks, segments = {}, set()
    for segment in snapshot["segments"]:
        check_segment(segment)
        segments.update(pieces(segment["address"], segment["total_size"]))
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                blocks[block["address"]] = (block["requested_size"], block["state"] == "active_pending_free")
    check(len(events) > 100, "a step has a history")
    walk_back(events, blocks, segments)
    is_full = "--strategy=mbs=4,zero=3" in options
    check((events[-1]["action"] == "oom") == is_full, "the history ends where memory ran out")


def main():
    program = sys.argv[1]
    print(f"1..{len(CASES)}")
    failed = False
    for number, (name, options) in enumerate(CASES.items(), 1):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            done = subprocess.run([program, "predict", *JOB, *options, f"--memory-snapshot={path}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            try:
                check(done.returncode in (0, 1), done.stdout)
                check_snapshot(path, options)
                print(f"ok {number} - {name}")
            except (ValueError, KeyError, OSError, pickle.UnpicklingError) as error:
                failed = True
                print(f"not ok {number} - {name}\n# {error}")
    return failed


sys.exit(main())
