#!/usr/bin/env python3
"""Puts the shipped profiles into the program: writes a C file that holds each JSON file as bytes.

usage: embed.py OUTPUT ROOT FILE...   (files under hwprofiles/gpus and hwprofiles/profiles)
"""
import os
import sys


def byte_lines(data):
    for start in range(0, len(data), 24):
        yield "    " + ",".join(str(byte) for byte in data[start:start + 24]) + ","


def table(out, kind, entries):
    for name, _, data in entries:
        symbol = f"{kind}_{name.replace('-', '_')}"
        out.append(f"static const unsigned char {symbol}[] = {{")
        out.extend(byte_lines(data))
        out.append("};")
    out.append(f"const struct tpp_hardware_document tpp_hardware_{kind}_documents[] = {{")
    for name, path, _ in entries:
        symbol = f"{kind}_{name.replace('-', '_')}"
        out.append(f'    {{"{name}", "{path}", {symbol}, sizeof {symbol}}},')
    out.append("};")
    out.append(f"const char *const tpp_hardware_{kind}_document_names[] = {{")
    out.extend(f'    "{name}",' for name, _, _ in entries)
    out.append("    0,\n};")
    out.append(f"const size_t tpp_hardware_{kind}_document_count = {len(entries)};")


def main():
    output, root, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    kinds = {"gpu": [], "profile": []}
    for file in files:
        path = os.path.relpath(file, root).replace(os.sep, "/")
        name = os.path.splitext(os.path.basename(file))[0]
        with open(file, "rb") as stream:
            kinds["gpu" if "/gpus/" in path else "profile"].append((name, path, stream.read()))
    out = ['#include "hwprofiles/internal.h"']
    for kind, entries in kinds.items():
        table(out, kind, sorted(entries))
    with open(output, "w", encoding="ascii") as stream:
        stream.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
