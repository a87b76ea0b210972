#!/usr/bin/env python3
"""count_tests.py TESTLOG.json... - prints "PASSED FAILED", summed over the logs that `meson test` writes.

A TAP test counts as its subtests, any other as one. A test that ended badly without a failed subtest (a crash, a time
limit) counts as one failure more. What was skipped counts as neither.
"""
import json
import re
import sys

SUBTEST = re.compile(r"^(not )?ok\b(.*)$", re.M)
DIRECTIVE = re.compile(r"#\s*(skip|todo)\b", re.I)


def count(test):
    output = test.get("stdout", "")
    passed = failed = 0
    for match in SUBTEST.finditer(output) if re.search(r"^1\.\.\d+", output, re.M) else ():
        if DIRECTIVE.search(match.group(2)):
            continue
        if match.group(1):
            failed += 1
        else:
            passed += 1
    if test["result"] in ("OK", "SKIP", "EXPECTEDFAIL"):
        is_plain = not passed and not failed and test["result"] != "SKIP"
        return passed + is_plain, failed
    return passed, max(failed, 1)


def main():
    passed = failed = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as log:
            for line in log:
                counts = count(json.loads(line))
                passed += counts[0]
                failed += counts[1]
    print(passed, failed)


if __name__ == "__main__":
    main()
