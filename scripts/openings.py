#!/usr/bin/env python3
"""scripts/openings.py: C++ sources of over 400 lines that do not say how they work.

Such a file has a comment of at least 5 lines among its first 120, on its algorithm or its parts, so
that a reader knows what to look for in the rest. Tests need none. Prints those that lack it, and fails then.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONG = 400
LEAST = 5
FIRST = 120
NOT_ASKED = re.compile(r"(_test|_fuzz|_rows|_bench)\.cc$|_for_test|^(bench|fuzz|training|tests)/")


def longest_comment(lines):
    longest = run = 0
    for line in lines:
        run = run + 1 if line.startswith("//") else 0
        longest = max(longest, run)
    return longest


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cc"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lacking = []
    for path in sorted(set(listed.stdout.splitlines())):
        if NOT_ASKED.search(path) or not (ROOT / path).is_file():
            continue
        lines = (ROOT / path).read_text().splitlines()
        if len(lines) > LONG and longest_comment(lines[:FIRST]) < LEAST:
            lacking.append(f"{path} has {len(lines)} lines and no opening comment on how it works")
    print("\n".join(lacking), end="\n" if lacking else "")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
