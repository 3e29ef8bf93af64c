#!/usr/bin/env python3
"""scripts/links.py: fails where a link of a page leads to a file or a heading that does not exist, or
where the map of the code (docs/architecture.md) names a file or a function that does not exist."""

import functools
import pathlib
import re
import subprocess
import sys

from docs import slug

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MAP = "docs/architecture.md"
SOURCES = (".cc", ".h", ".py", ".txt", ".cmake", ".toml", "openapi.json")
NO_FILES = {"tenon.toml"}  # the user's
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:cc|h|py|json|toml|md|txt))`")
NAMED_CODE = re.compile(r"`((?:\w+::)*\w+)(?:\(\))?`")


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


def listed(*patterns):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.splitlines() if (ROOT / path).is_file()]


def dead_names(page):
    """Names of files, by the end of their path, and words of the code that the tree lacks."""
    text = page.read_text()
    paths = listed()
    for name in sorted(set(NAMED_FILE.findall(text)) - NO_FILES):
        if "NAME" not in name and not any(f"/{path}".endswith(f"/{name}") for path in paths):
            yield f"{name}: no such file"
    words = set()
    for path in paths:
        words.update(re.findall(r"\w+", path))
        if path.endswith(SOURCES) and not path.startswith("tests/samples/"):
            words.update(re.findall(r"\w+", (ROOT / path).read_text(errors="replace")))
    for name in sorted(set(NAMED_CODE.findall(text))):
        if name.rpartition("::")[2] not in words:
            yield f"{name}: nothing in the code is called so"


def main():
    dead = [
        f"{path}: {sentence}" for path in listed("*.md") for sentence in dead_links(ROOT / path)
    ]
    dead += [f"{MAP}: {sentence}" for sentence in dead_names(ROOT / MAP)]
    print("\n".join(dead), end="\n" if dead else "")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
