#!/usr/bin/env python3
"""thin_tables.py DATA_FOLDER OUTPUT_FOLDER - keeps of published tables what the shipped profiles are fitted to.

DATA_FOLDER has kernels/. Rows are copied as they stand; left out are columns that follow from others, and rows that the
fits leave out anyway (products below 128 or 5e8 FLOP, attention below 1e9 FLOP, other GPUs): so a fit to the output
gives the same bytes as one to the whole tables.
"""
import csv
import os
import sys

GEMM = ["a100-sxm4-80g", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "gb300", "l40s"]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as stream:
        lines = stream.readlines()
    comments = [line for line in lines if line.startswith("#")]
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def thin(source, target, columns, keep):
    comments, rows = rows_of(source)
    columns = columns or list(rows[0])
    with open(target, "w", encoding="utf-8", newline="") as stream:
        stream.writelines(comments)
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if keep(row))


def is_product(row):
    m, n, k = (float(row[key]) for key in "mnk")
    return min(m, n, k) >= 128 and 2 * m * n * k >= 5e8


def main():
    data, output = sys.argv[1:3]
    kernels = os.path.join(data, "kernels")
    target = os.path.join(output, "kernels")
    os.makedirs(target, exist_ok=True)

    def write(name, columns, keep):
        thin(os.path.join(kernels, name), os.path.join(target, name), columns, keep)

    for gpu in GEMM:
        write(f"gemm_{gpu}_bf16.csv", ["m", "n", "k", "time_us"], is_product)
    write("gemmtrain_b200_bf16.csv", None, lambda row: True)
    for gpu in ("a100-sxm4-80g", "h200-sxm", "gb200"):
        write(f"attnfwd_{gpu}_d128.csv", None, lambda row: True)
    write("attntrain_a100pcie_h200_gb200_cudnnfe.csv", None, lambda row: row["gpu"] in ("H200", "GB200"))
    write("elementwise_a100-80g_fp16.csv", None, lambda row: True)
    write("elementwise_h100-80g_fp16.csv", None, lambda row: True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main()
