#!/usr/bin/env python3
"""run.py TP_PLAN SOURCE_ROOT: runs the check steps of examples/ci in a repository of launch scripts; TAP on standard output.

The script is taken from the YAML as text: the literal block behind the `run: |` or `- |` that calls `tp-plan check`. Of the
SARIF reports, what SARIF 2.1.0 requires (section 3) and code-scanning services read is checked.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GOOD = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --sequence-parallel --num-layers 32 \\
  --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --mock-data --train-iters 10 --use-distributed-optimizer
"""
SLOWER = GOOD.replace("--bf16", "--bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
BROKEN = GOOD.replace("--num-attention-heads 32", "--num-attention-heads 31")
LEVELS = {"none", "note", "warning", "error"}


def check_script(path):
    """The lines of the literal block that calls `tp-plan check`, without its indentation."""
    lines = path.read_text().splitlines()
    for start, line in enumerate(lines):
        if not re.fullmatch(r"\s*(- \||run: \|)", line):
            continue
        indent = len(lines[start + 1]) - len(lines[start + 1].lstrip())
        block = []
        for text in lines[start + 1:]:
            if text.strip() and len(text) - len(text.lstrip()) < indent:
                break
            block.append(text[indent:])
        if any("tp-plan check" in text for text in block):
            return "\n".join(block) + "\n"
    raise ValueError(f"{path}: no step calls tp-plan check")


def cluster(path):
    return re.search(r"^\s*CLUSTER: (\S+)$", path.read_text(), re.MULTILINE).group(1)


def write_scripts(folder, scripts):
    folder.mkdir(parents=True)
    for name, text in scripts.items():
        (folder / name).write_text(text)


def sarif_faults(path):
    """What is missing of SARIF 2.1.0 (3.13, 3.14, 3.19, 3.27 to 3.30)."""
    report = json.loads(path.read_text())
    run = report["runs"][0]
    faults = []
    if report["version"] != "2.1.0" or not report["$schema"].endswith("sarif-2.1.0.json") or len(report["runs"]) != 1:
        faults.append("version")
    if not run["tool"]["driver"]["name"]:
        faults.append("driver")
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        uri = place["artifactLocation"]["uri"]
        if result["level"] not in LEVELS or not result["message"]["text"] or not result["ruleId"]:
            faults.append(f"result {result}")
        if not uri.startswith("launch/") or place["region"]["startLine"] < 1:
            faults.append(f"location {place}")
    return faults


def run(example, program, repository):
    environment = dict(os.environ, CLUSTER=cluster(example), LC_ALL="C.UTF-8", NO_COLOR="1",
                       PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"])
    return subprocess.run(["bash", "-e", "-c", check_script(example)], cwd=repository, env=environment,
                          capture_output=True, text=True, timeout=300)


def baseline(example, program, repository, name):
    """As README.md of examples/ci says: the JSON of a check of the old script."""
    folder = repository / "launch" / "baseline"
    folder.mkdir(exist_ok=True)
    old = repository / "old.sh"
    old.write_text(GOOD)
    result = subprocess.run([program, "check", "old.sh", f"--cluster={cluster(example)}", "--json"], cwd=repository,
                            capture_output=True, text=True, timeout=300)
    (folder / f"{name}.json").write_text(result.stdout)


def cases(root, program, folder):
    """(name, is right, why not)"""
    for example in (root / "examples/ci/github-actions.yml", root / "examples/ci/gitlab-ci.yml"):
        for name, text, status, word in (("good", GOOD, 0, "ok"), ("broken", BROKEN, 1, "ML-4"),
                                         ("slower", SLOWER, 1, "slower")):
            repository = pathlib.Path(folder) / f"{example.stem}-{name}"
            write_scripts(repository / "launch", {"train.sh": text})
            write_scripts(repository / "base" / "launch", {"train.sh": GOOD})
            baseline(example, program, repository, "train")
            result = run(example, program, repository)
            faults = [] if result.returncode == status else [f"exit {result.returncode}: {result.stderr}"]
            if word not in result.stdout:
                faults.append(f"no {word} in: {result.stdout[:400]}")
            reports = sorted(repository.glob("reports/**/*.sarif"))
            if len(reports) != 1:
                faults.append(f"{len(reports)} SARIF reports")
            for report in reports:
                faults += sarif_faults(report)
            yield f"{example.name}: {name} script", faults


def main():
    program, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    number, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, faults in cases(root, program, folder):
            number += 1
            failed += bool(faults)
            print(f"{'not ok' if faults else 'ok'} {number} - {name}")
            for fault in faults:
                print("# " + fault.replace("\n", "\n# "))
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
