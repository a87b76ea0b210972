#!/usr/bin/env python3
"""run.py TP_PLAN FOLDER: runs the scenarios of a folder and checks what each expects; TAP on standard output.

A scenario is a JSON file: the claim, what arithmetic makes of it, the commands (arguments of tp-plan, `--json` is added) by name, and
what must hold. A value is named by its command and the path of keys in its answer: "plain.plan.memory.terms.weights".

  {"value": V, "is": X, "within": R}    V lies within R * X of X
  {"value": V, "equals": X}             the same value (text, truth, whole number)
  {"ratio": [V, W], "from": A, "to": B} A <= V / W <= B
  {"product": [V, W], "is": X, "within": R}
  {"exit": C, "is": N}                  command C ended with status N
"""
import json
import pathlib
import subprocess
import sys


def run_command(program, arguments):
    result = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True, timeout=300)
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        answer = {"no_json": result.stdout[:200], "stderr": result.stderr[:400]}
    answer["exit_status"] = result.returncode
    return answer


def look_up(answers, path):
    value = answers
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def check(answers, expectation):
    """None when it holds, else what was found."""
    if "exit" in expectation:
        found = answers[expectation["exit"]]["exit_status"]
        return None if found == expectation["is"] else f"exit status {found}"
    if "ratio" in expectation:
        above, below = (look_up(answers, path) for path in expectation["ratio"])
        ratio = above / below
        return None if expectation["from"] <= ratio <= expectation["to"] else f"ratio {ratio:.4f} ({above} / {below})"
    if "product" in expectation:
        first, second = (look_up(answers, path) for path in expectation["product"])
        found = first * second
    else:
        found = look_up(answers, expectation["value"])
    if "equals" in expectation:
        return None if found == expectation["equals"] else f"found {found!r}"
    holds = abs(found - expectation["is"]) <= expectation["within"] * abs(expectation["is"])
    return None if holds else f"found {found}"


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    number, failed = 0, 0
    for path in sorted(folder.glob("*.json")):
        scenario = json.loads(path.read_text())
        answers = {name: run_command(program, arguments.split()) for name, arguments in scenario["commands"].items()}
        for expectation in scenario["expect"]:
            number += 1
            try:
                problem = check(answers, expectation)
            except (KeyError, IndexError, TypeError, ZeroDivisionError) as error:
                problem = f"{type(error).__name__} {error}"
            failed += problem is not None
            print(f"{'not ok' if problem else 'ok'} {number} - {path.stem}: {expectation['why']}")
            if problem:
                print(f"# {json.dumps(expectation)}: {problem}")
    print(f"1..{number}")
    return 1 if failed or number == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
