#!/usr/bin/env python3
"""run.py TP_PLAN FOLDER: runs the scenarios of a folder and checks what each expects; TAP on standard output.

A scenario is a JSON file: the claim (or the report that was made in public), what arithmetic makes of it, the commands (arguments of
tp-plan, `--json` is added) by name, and what must hold. A value is named by its command and the path of keys in its answer:
"plain.plan.memory.terms.weights".

  {"value": V, "is": X, "within": R}    V lies within R * X of X
  {"value": V, "equals": X}             the same value (text, truth, whole number)
  {"value": V, "from": A, "to": B}      A <= V <= B
  {"ratio": [V, W], "from": A, "to": B} A <= V / W <= B
  {"product": [V, W], "is": X, "within": R}
  {"sum": [V...], "times": N, "from": A, "to": B}
  {"weighted": [[V, F]...], "from": A, "to": B}  V times F, and so on, summed
  {"difference": [V, W], ...}           V - W lies from A to B, or within R * X of X
  {"first": V, "of": [V...], "places": N}  V is among the N smallest
  {"last": V, "of": [V...]}             V is the largest
  {"order": [V...], "as": [X...], "spearman": R}  rank correlation of V and X of at least R
  {"contains": V, "text": T}            the text V (or the answer of command V as text) contains T, upper or lower case
  {"lacks": V, "text": T}               it does not
  {"exit": C, "is": N}                  command C ended with status N

"text_commands" are commands without `--json`; "NAME.text" is what they print.

"files": {NAME: value or text} are written to a folder first; "{files}/NAME" in an argument names one. "edited": {NAME: {"command":
ARGUMENTS, "set": {PATH: value}}} writes the answer of a command with some values changed.

"miss": REASON in an expectation says that the program does not meet it today, and why. Such an expectation must not hold: when it does, the
miss is to be struck off.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ENVIRONMENT = {**os.environ, "COLUMNS": "240"}


def run_command(program, arguments, files, options=("--json",)):
    words = [word.replace("{files}", files) for word in arguments.split()]
    result = subprocess.run([program, *words, *options], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    if not options:
        return {"text": result.stdout, "exit_status": result.returncode}
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


def write_files(program, scenario, folder):
    for name, content in scenario.get("files", {}).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (pathlib.Path(folder) / name).write_text(text)
    for name, edited in scenario.get("edited", {}).items():
        answer = run_command(program, edited["command"], folder)
        answer.pop("exit_status")
        for path, value in edited["set"].items():
            *keys, last = path.split(".")
            look_up(answer, ".".join(keys))[last] = value
        (pathlib.Path(folder) / name).write_text(json.dumps(answer))


def ranks(values):
    """1 for the smallest; equal values share the mean of their ranks."""
    return [1 + sum(other < value for other in values) + (values.count(value) - 1) / 2 for value in values]


def correlation(first, second):
    first, second = ranks(first), ranks(second)
    mean = (len(first) + 1) / 2
    spread = sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)
    return sum((a - mean) * (b - mean) for a, b in zip(first, second)) / spread**0.5


def check_order(answers, expectation):
    if "order" in expectation:
        found = correlation([look_up(answers, path) for path in expectation["order"]], expectation["as"])
        return None if found >= expectation["spearman"] else f"rank correlation {found:.3f}"
    if "first" in expectation:
        path, places = expectation["first"], expectation["places"]
    else:
        path, places = expectation["last"], 1
    values = sorted((look_up(answers, other) for other in expectation["of"]), reverse="last" in expectation)
    return None if look_up(answers, path) in values[:places] else f"{look_up(answers, path)} in {values}"


def check(answers, expectation):
    """None when it holds, else what was found."""
    if "order" in expectation or "first" in expectation or "last" in expectation:
        return check_order(answers, expectation)
    if "contains" in expectation:
        found = look_up(answers, expectation["contains"])
        text = found if isinstance(found, str) else json.dumps(found)
        return None if expectation["text"].lower() in text.lower() else f"found {text[:300]!r}"
    if "lacks" in expectation:
        text = json.dumps(look_up(answers, expectation["lacks"]))
        return None if expectation["text"].lower() not in text.lower() else f"found {text[:300]!r}"
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
    elif "sum" in expectation:
        found = sum(look_up(answers, path) for path in expectation["sum"]) * expectation["times"]
    elif "weighted" in expectation:
        found = sum(look_up(answers, path) * factor for path, factor in expectation["weighted"])
    elif "difference" in expectation:
        first, second = (look_up(answers, path) for path in expectation["difference"])
        found = first - second
    else:
        found = look_up(answers, expectation["value"])
    if "equals" in expectation:
        return None if found == expectation["equals"] else f"found {found!r}"
    if "from" in expectation:
        return None if expectation["from"] <= found <= expectation["to"] else f"found {found}"
    holds = abs(found - expectation["is"]) <= expectation["within"] * abs(expectation["is"])
    return None if holds else f"found {found}"


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    number, failed = 0, 0
    for path in sorted(folder.glob("*.json")):
        scenario = json.loads(path.read_text())
        with tempfile.TemporaryDirectory() as files:
            write_files(program, scenario, files)
            answers = {name: run_command(program, arguments, files) for name, arguments in scenario["commands"].items()}
            for name, arguments in scenario.get("text_commands", {}).items():
                answers[name] = run_command(program, arguments, files, ())
        for expectation in scenario["expect"]:
            number += 1
            try:
                problem = check(answers, expectation)
            except (KeyError, IndexError, TypeError, ZeroDivisionError) as error:
                problem = f"{type(error).__name__} {error}"
            if "miss" in expectation:
                problem = None if problem else f"holds: strike off the miss ({expectation['miss']})"
            failed += problem is not None
            print(f"{'not ok' if problem else 'ok'} {number} - {path.stem}: {expectation['why']}")
            if problem:
                print(f"# {json.dumps(expectation)}: {problem}")
    print(f"1..{number}")
    return 1 if failed or number == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
