"""A tool: words on stdin, as {"query": "..."}, and on stdout the lines of a folder's *.md files that have most of them."""

import json
import pathlib
import re
import sys

asked = json.load(sys.stdin)
folder = pathlib.Path(sys.argv[1])
words = set(re.findall(r"\w+", asked["query"].lower()))
found = []
for file in sorted(folder.rglob("*.md")):
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        hits = len(words & set(re.findall(r"\w+", line.lower())))
        if hits:
            found.append((-hits, str(file.relative_to(folder)), number, line.strip()[:300]))
for _, name, number, line in sorted(found)[: asked.get("limit", 10)]:
    print(f"{name}:{number}: {line}")
if not found:
    print("No line has any of these words.")
