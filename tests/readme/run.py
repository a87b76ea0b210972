#!/usr/bin/env python3
"""run.py TP_PLAN SOURCE_ROOT: runs the commands of README.md and its studies in docs and compares their output; TAP on standard output.

A console block holds lines "$ COMMAND", each followed by its output, in which a line "..." stands for any number of lines.
Times of the search itself differ between machines and are compared as such. Commands of shell blocks install and build;
they must name a script that exists (the continuous integration runs them).
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

DOCUMENTS = ("README.md", "docs/buckets.md", "docs/fragmentation.md")
CLOCK = re.compile(r"\([0-9.]+ (?:s|ms|us), [0-9]+ threads?\)")


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def split_console(block):
    """[(command, [output line, ...]), ...]"""
    parts = []
    for line in block.splitlines():
        if line.startswith("$ "):
            parts.append((line[2:], []))
        else:
            parts[-1][1].append(line)
    return parts


def run(command, program, root, folder):
    words = shlex.split(command)
    if words[0] == "build/tp-plan":
        words[0] = program
    words = [str(root / word) if (root / word).is_file() and word.endswith(".jsonl") else word for word in words]
    environment = dict(os.environ, COLUMNS="118", LC_ALL="C.UTF-8", NO_COLOR="1")
    result = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout.splitlines()


def matches(expected, found):
    """True when `found` is `expected` with every "..." standing for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(CLOCK.sub("(CLOCK)", line)) + "\n"
                      for line in expected)
    return re.fullmatch(pattern, "".join(CLOCK.sub("(CLOCK)", line) + "\n" for line in found)) is not None


def main():
    program, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    text = "\n".join((root / document).read_text() for document in DOCUMENTS)
    number, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks(text, "console"):
            for command, expected in split_console(block):
                status, found = run(command, program, root, folder)
                number += 1
                good = status == 0 and matches(expected, found)
                failed += not good
                print(f"{'ok' if good else 'not ok'} {number} - {command}")
                if not good:
                    print(f"# exit status {status}; found:")
                    print("\n".join("# " + line for line in found[:200]))
    for block in blocks(text, "sh"):
        for command in block.splitlines():
            number += 1
            good = os.access(root / command.split()[0], os.X_OK)
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {command} is there to run")
    print(f"1..{number}")
    return 1 if failed or number < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
