#!/usr/bin/env python3
"""scripts/links.py: fails where a link of a page leads to a file or a heading that does not exist."""

import functools
import pathlib
import re
import subprocess
import sys

from docs import slug

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@functools.cache
def anchors(page):
    text = FENCE.sub("", page.read_text())
    return {slug(heading) for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE)}


def dead_links(page):
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(other):
            yield f"{target}: no such heading"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    dead = [
        f"{path}: {sentence}"
        for path in listed.stdout.splitlines()
        if (ROOT / path).is_file()
        for sentence in dead_links(ROOT / path)
    ]
    print("\n".join(dead), end="\n" if dead else "")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
