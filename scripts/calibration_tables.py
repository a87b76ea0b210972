#!/usr/bin/env python3
"""calibration_tables.py TP_PLAN DATA_FOLDER [TP_PLAN_BEFORE] - the tables of docs/calibration.md, as Markdown.

DATA_FOLDER has nccl-logs/, kernels/ and collectives/: what is published of them, each file with its source in it. Errors
are those of `tp-plan calibrate fit` on the 30 % of the shapes that it held out: before (hwprofiles/base) and after.

TP_PLAN_BEFORE is for the errors of published steps, those of DATA_FOLDER/runs: a tp-plan built from a copy of this
repository in which `calibration_tables.py --unfit` has put the constants of the specification into hwprofiles/gpus.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# GPU, cluster, device filter, tables under kernels/, table under collectives/, logs between nodes under nccl-logs/.
FITS = [
    ("a100-sxm4-80g", "dgx-a100-80g", "", ["gemm_a100-sxm4-80g_bf16", "attnfwd_a100-sxm4-80g_d128"],
     "nccl_a100-sxm4-80g", "a100-40g-sxm4_2n16g_all_*_hdr_dgx.txt"),
    ("h100-sxm5-80g", "dgx-h100", "", ["gemm_h100-sxm_bf16", "gemm_h100-sxm_fp8", "attnfwd_h100-sxm_d128",
                                       "attnfwd_h100-sxm_d64"], "nccl_h100-sxm", "h100-sxm_10n*.txt"),
    ("h200-sxm-141g", "dgx-h200", "H200", ["gemm_h200-sxm_bf16", "gemm_h200-sxm_fp8", "attnfwd_h200-sxm_d128",
                                           "attntrain_a100pcie_h200_gb200_cudnnfe"], "nccl_h200-sxm", ""),
    ("b200-sxm", "dgx-b200", "", ["gemm_b200-sxm_bf16", "gemmtrain_b200_bf16", "gemm_b200-sxm_fp8",
                                  "attnfwd_b200-sxm_d128", "attntrain_b200_bf16"], "nccl_b200-sxm", ""),
    ("gb200", "gb200-nvl72", "GB200", ["gemm_gb200_bf16", "gemm_gb200_fp8", "attnfwd_gb200_d128",
                                       "attntrain_a100pcie_h200_gb200_cudnnfe"], "nccl_gb200", ""),
    ("gb300", "gb300-nvl72", "", ["gemm_gb300_bf16"], "nccl_gb300", ""),
    ("l40s", "l40s-pcie", "", ["gemm_l40s_bf16", "gemm_l40s_fp8", "attnfwd_l40s_d128"], "nccl_l40s", ""),
]
GROUPS = ["gemm", "gemm, weight gradient", "gemm fp8", "attention", "collectives inside a node",
          "collectives between nodes", "messages between nodes"]


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def printed_bus_bandwidth(line, microseconds):
    """The busbw column, GB/s, and half a unit of its last digit: the second figure after the time of the row."""
    words = line.replace(",", " ").split()
    for i in range(len(words) - 2):
        try:
            if abs(float(words[i]) - microseconds) <= 1e-6 * microseconds:
                digits = len(words[i + 2].partition(".")[2])
                return float(words[i + 1]), float(words[i + 2]), 0.5 * 10**-digits
        except ValueError:
            continue
    return None


def check_log(plan, path):
    """Rows, figures beyond the rounding of both columns, greatest deviation; None for a log without a table."""
    status, answer = run(plan, "calibrate", "import", "--json", path)
    if status:
        return None
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().split("\n")
    beyond, worst = 0, 0.0
    for row in answer["rows"]:
        found = printed_bus_bandwidth(lines[row["line"] - 1], row["seconds"] * 1e6)
        if not found:
            beyond += 1
            continue
        _, busbw, half = found
        deviation = abs(row["bus_bandwidth_bytes_per_second"] / 1e9 - busbw)
        # Four digits of the time are printed: busbw follows from it to that precision.
        allowed = half * 1.001 + busbw * 0.5e-3
        beyond += deviation > allowed
        worst = max(worst, deviation / busbw if busbw > 1 else 0)
    return len(answer["rows"]), beyond, worst


def logs(plan, data):
    paths = sorted(glob.glob(os.path.join(data, "nccl-logs", "*.txt")))
    results = {os.path.basename(path): check_log(plan, path) for path in paths}
    tables = {name: result for name, result in results.items() if result}
    print(f"{len(paths)} logs: {len(tables)} give tables with {sum(r[0] for r in tables.values())} rows in all; "
          f"{len(paths) - len(tables)} have none and are refused with the reason.\n")
    print("| logs whose busbw is not that of the row's size and time | rows | beyond rounding | greatest deviation |")
    print("| --- | ---: | ---: | ---: |")
    for name, (rows, beyond, worst) in tables.items():
        if beyond:
            print(f"| {name} | {rows} | {beyond} | {100 * worst:.1f} % |")
    clean = [result for result in tables.values() if not result[1]]
    print(f"| {len(clean)} others | {sum(r[0] for r in clean)} | 0 | {100 * max(r[2] for r in clean):.1f} % |")


def base_profile(gpu, cluster, folder):
    with open(os.path.join(ROOT, "hwprofiles", "base", gpu + ".json"), encoding="utf-8") as stream:
        profile = {"schema_version": 1, "name": cluster, "base": cluster, "gpu": json.load(stream)}
    path = os.path.join(folder, gpu + ".json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(profile, stream)
    return path


def fits(plan, data):
    print("| GPU | samples | held out | median | nine in ten within | nine tenths of the time within | bias |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for gpu, cluster, device, kernels, collectives, between_nodes in FITS:
            files = [os.path.join(data, "kernels", name + ".csv") for name in kernels]
            files.append(os.path.join(data, "collectives", collectives + ".csv"))
            if between_nodes:
                files += sorted(glob.glob(os.path.join(data, "nccl-logs", between_nodes)))
            options = [f"--device={device}"] if device else []
            _, answer = run(plan, "calibrate", "fit", "--json", "--base=" + base_profile(gpu, cluster, folder), *options,
                            *files)
            for group in answer["groups"]:
                before, after = group["held_out_before"], group["held_out_after"]
                if group["name"] in GROUPS and after["n"]:
                    cells = " | ".join(f"{100 * before[key]:.1f} → {100 * after[key]:.1f} %"
                                       for key in ("median_abs", "p90_abs", "time_p90_abs", "bias"))
                    print(f"| {gpu} | {group['name']} | {after['n']} | {cells} |")


def step_errors(plan, paths):
    """Errors of the runs that are predicted, by source; and of those that are dense and in 16 bits."""
    status, answer = run(plan, "validate", "--json", *paths)
    if status:
        sys.exit(f"{plan} validate: {answer['error']['message']}")
    is_plain = {}
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                is_plain[row["id"]] = not row["model"].get("moe") and row.get("precision") in ("bf16", "fp16")
    errors = {}
    for row in answer["rows"]:
        if row["error_fraction"] is not None:
            kinds = errors.setdefault(row["group"], {"plain": [], "all": []})
            kinds["all"].append(abs(row["error_fraction"]))
            if is_plain[row["id"]]:
                kinds["plain"].append(abs(row["error_fraction"]))
    return errors, answer["summary"]["step"]["interval_coverage"]


def steps(plan, data, plan_before):
    """vtrain-single is left out: small models, bound by their host, of one simulator's paper."""
    paths = [path for path in sorted(glob.glob(os.path.join(data, "runs", "*.jsonl"))) if "vtrain-single" not in path]
    (before, coverage_before), (after, coverage_after) = step_errors(plan_before, paths), step_errors(plan, paths)
    print("| source | runs | dense, 16 bits | all |")
    print("| --- | ---: | ---: | ---: |")
    means = {"plain": ([], []), "all": ([], [])}
    for group in sorted(after):
        cells = []
        for kind, (old, new) in means.items():
            pair = [sum(errors) / len(errors) if errors else None
                    for errors in (before[group][kind], after[group][kind])]
            if pair[1] is None:
                cells.append("–")
                continue
            old.append(pair[0])
            new.append(pair[1])
            cells.append(f"{100 * pair[0]:.1f} → {100 * pair[1]:.1f} %")
        print(f"| {group} | {len(after[group]['all'])} | {' | '.join(cells)} |")
    cells = [f"**{100 * sum(old) / len(old):.1f} → {100 * sum(new) / len(new):.1f} %**" for old, new in means.values()]
    print(f"| **mean over sources** | | {' | '.join(cells)} |")
    print(f"\nMeasured times inside the 90 % interval: {100 * coverage_before:.0f} → {100 * coverage_after:.0f} %")


def unfit():
    """Before the fit a GEMM rate was that of steps, so that a step sustained all of it."""
    for path in glob.glob(os.path.join(ROOT, "hwprofiles", "base", "*.json")):
        with open(path, encoding="utf-8") as stream:
            profile = json.load(stream)
        profile["gemm_sustained_fraction"]["value"] = 1
        with open(os.path.join(ROOT, "hwprofiles", "gpus", os.path.basename(path)), "w", encoding="utf-8") as stream:
            json.dump(profile, stream, indent=1)


def main():
    if sys.argv[1:] == ["--unfit"]:
        unfit()
        return
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.splitlines()[0])
    plan, data = sys.argv[1:3]
    logs(plan, data)
    print()
    fits(plan, data)
    if len(sys.argv) == 4:
        print()
        steps(plan, data, sys.argv[3])


if __name__ == "__main__":
    main()
