#!/usr/bin/env python3
"""Rules about the source itself, as TAP: lint.py SOURCE_ROOT COMPILER [ARGUMENT...]

A header compiles alone; includes point one way; nothing below cli/ prints, exits or reads the environment; GSL stays in
calibrate/fit; no file names a machine's own paths.
"""
import os
import re
import subprocess
import sys

ROOMS = ("cli", "planner", "costmodel", "hwprofiles", "calibrate")

# What a room may include besides itself. The longest folder that matches a path is its room.
MAY_INCLUDE = {
    "cli": {"planner", "costmodel", "costmodel/runs", "costmodel/model", "costmodel/base", "hwprofiles", "calibrate/fit"},
    "planner": {"costmodel", "costmodel/model", "costmodel/base", "hwprofiles"},
    "costmodel": {"costmodel/model", "costmodel/base", "hwprofiles"},
    "costmodel/runs": {"costmodel", "costmodel/model", "costmodel/base", "hwprofiles"},
    "costmodel/model": {"costmodel/base"},
    "costmodel/base": set(),
    "hwprofiles": {"costmodel/base"},
    "calibrate/fit": {"costmodel", "costmodel/base", "hwprofiles"},
    "calibrate/bench": {"costmodel/base"},
}

MAY_PRINT = ("cli", "calibrate/bench")
FORBIDDEN_CALL = re.compile(
    r"\b(v?printf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|getenv|secure_getenv|setlocale"
    r"|v?fprintf\s*\(\s*(?=std)|f?put[sc]\s*\((?=[^;]*\bstd(?:out|err)\b))\s*\(?")

# Written in pieces, so that this file does not name them itself.
MACHINE_PATHS = re.compile("|".join([
    "/" + "work/", "/" + "farm/", "/" + "tmp/(?:bash|wt)", r"\." + "library/",
    "https?://" + r"(?:deb|registry|files|security)\.[a-z]+",
]))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def source_files(root):
    """Paths below the root, without build folders and what git keeps."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders
            if name not in (".git", "__pycache__", "shared")
            and not os.path.exists(os.path.join(folder, name, "meson-private")))
        relative = os.path.relpath(folder, root)
        found += [os.path.normpath(os.path.join(relative, name)) for name in sorted(names) if name != ".git"]
    return found


def in_a_room(path):
    return path.split(os.sep)[0] in ROOMS


def room_of(path):
    matches = [room for room in MAY_INCLUDE if path.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def without_comments_and_texts(code):
    """The same lines, with comments and the insides of texts left out."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda match: "\n" * match.group().count("\n") + ('""' if match.group()[0] == '"' else " "), code)


def header_faults(root, compiler, path):
    command = compiler + ["-std=c17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L",
                          "-D_DEFAULT_SOURCE", "-I.", "-x", "c", path]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.splitlines()[:20] if done.returncode else []


def include_faults(root, paths):
    faults = []
    for path in paths:
        room = room_of(path)
        for number, line in enumerate(read(os.path.join(root, path)).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match:
                continue
            target = room_of(match.group(1))
            if not os.path.isfile(os.path.join(root, match.group(1))):
                faults.append(f"{path}:{number}: write {match.group(1)} from the root of the source")
            elif target != room and target not in MAY_INCLUDE.get(room, set()):
                faults.append(f"{path}:{number}: {room} must not include {match.group(1)}")
    return faults


def library_faults(root, paths):
    faults = []
    for path in paths:
        for number, line in enumerate(read(os.path.join(root, path)).splitlines(), 1):
            if re.match(r"\s*#\s*include\s*<gsl/", line) and room_of(path) != "calibrate/fit":
                faults.append(f"{path}:{number}: GSL belongs into calibrate/fit only")
    return faults


def call_faults(root, paths):
    faults = []
    for path in paths:
        if room_of(path) in MAY_PRINT:
            continue
        for number, line in enumerate(without_comments_and_texts(read(os.path.join(root, path))).splitlines(), 1):
            match = FORBIDDEN_CALL.search(line)
            if match and "(" in match.group():
                faults.append(f"{path}:{number}: {match.group(1).split('(')[0].strip()} is for cli/ only")
    return faults


def path_faults(root, paths):
    return [f"{path}:{number}: names a machine's own path: {line.strip()[:80]}"
            for path in paths
            for number, line in enumerate(read(os.path.join(root, path)).splitlines(), 1)
            if MACHINE_PATHS.search(line)]


def self_faults():
    """The rules that work on text must find what they look for."""
    samples = {'printf("x");': True, 'exit(1);': True, 'char *p = getenv("X");': True, 'fprintf(stderr, "x");': True,
               'fputs("x", stderr);': True, 'puts("x");': True, 'snprintf(b, n, "x");': False,
               'tpp_text_append(out, "exit(1)");': False, '/* printf() */ int a;': False, 'fprintf(file, "x");': False,
               'int exit_status(int);': False, '__attribute__((format(printf, 1, 2)))': False}
    found = {code: bool((match := FORBIDDEN_CALL.search(without_comments_and_texts(code))) and "(" in match.group())
             for code in samples}
    faults = [f"{code} is judged wrong" for code in samples if found[code] != samples[code]]
    if not MACHINE_PATHS.search("see /" + "work/main") or MACHINE_PATHS.search("a framework/option"):
        faults.append("the pattern of machine paths does not work")
    return faults


def main():
    root, compiler = os.path.abspath(sys.argv[1]), sys.argv[2:]
    paths = source_files(root)
    code = [path for path in paths if in_a_room(path) and path.endswith((".c", ".h", ".cu", ".cuh"))]
    checks = [(f"{path} compiles alone", header_faults(root, compiler, path)) for path in code if path.endswith(".h")]
    checks += [
        ("the rules find what they look for", self_faults()),
        ("includes point one way", include_faults(root, code)),
        ("GSL stays in calibrate/fit", library_faults(root, code)),
        ("nothing below cli/ prints, exits or reads the environment", call_faults(root, code)),
        ("no file names a machine's own paths", path_faults(root, paths)),
    ]
    print(f"1..{len(checks)}")
    for number, (name, faults) in enumerate(checks, 1):
        for fault in faults:
            print(f"# {fault}")
        print(f"{'not ok' if faults else 'ok'} {number} - {name}")
    return 1 if any(faults for _, faults in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
