#!/usr/bin/env python3
"""scripts/plain_english.py [--write | --show FOLDER]: turns of speech that make a sentence hard to read.

Counts them in comments, pages and messages, for each folder, and compares with the numbers of
scripts/plain_english.json. Lines of pages over 100 and cells of tables over 15 words count too. Fails
where a number has grown, and says where. --write writes the numbers down once they have fallen;
--show prints every place in a folder.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUMBERS = ROOT / "scripts" / "plain_english.json"
SOURCES = {".cc", ".h", ".c", ".py", ".pyi", ".sh", ".md", ".cmake", ".toml", ".txt", ".mjs"}
# What others wrote, what is data, and this list itself.
NOT_OURS = re.compile(
    r"^(tests/(samples|golden)|training/(tools|sets)|fuzz/corpus|src/tenon/schema/metaschemas|models|requirements)/"
    r"|node_modules/|^scripts/plain_english\.py$|^docs/glossary\.md$"
)
# Turn and what to write instead.
TURNS = {
    "sentence that begins with 'Of'": r"\bOf (?!course\b)[a-z0-9`]",
    "nobody": r"(?<![`\"'])\b[Nn]obody\b(?![`\"'])",  # quoted, it is the user of that name
    "somebody": r"\b[Ss]omebody\b",
    "whoever": r"\b[Ww]ho(?:m)?ever\b",
    "is none": r"\b(?:is|are|be|was|were) none\b",
    "elsewhere, for an upstream": r"\b(?:engines?|servers?|models?|those|tokenizers?) "
    r"(?:that (?:runs?|are|is) )?elsewhere\b",
    "mend, for repair": r"(?<![:.\w])mend(?:s|ed|ing)?\b(?!\()",
}
ANY = re.compile("|".join(f"(?P<t{at}>{turn})" for at, turn in enumerate(TURNS.values())))


def folder_of(path):
    """src/tenon/LAYER, else the first part of the path; "." for files of the top folder."""
    parts = path.split("/")
    if parts[:2] == ["src", "tenon"]:
        return "/".join(parts[:3])
    return parts[0] if len(parts) > 1 else "."


def turns_of(line):
    for found in ANY.finditer(line):
        yield list(TURNS)[int(found.lastgroup[1:])]


def shapes_of(lines):
    """(number of the line, what is wrong with its shape) in a page."""
    in_code = False
    for number, line in enumerate(lines, 1):
        in_code ^= line.lstrip().startswith("```")
        if in_code or line.startswith("    "):
            continue
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                if len(cell.split()) > 15:
                    yield number, "cell of more than 15 words"
        elif len(line) > 100 and " " in line[:100].strip():
            yield number, "line of more than 100"


def places():
    """(folder, path, number of the line, turn) of each."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in sorted(set(listed.stdout.splitlines())):
        file = ROOT / path
        if file.suffix not in SOURCES or NOT_OURS.search(path) or not file.is_file():
            continue
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            for turn in turns_of(line):
                yield folder_of(path), path, number, turn
        if file.suffix == ".md":
            for number, shape in shapes_of(lines):
                yield folder_of(path), path, number, shape


def main(arguments):
    found = list(places())
    counts = collections.Counter(folder for folder, *_ in found)
    if arguments[:1] == ["--write"]:
        NUMBERS.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n")
        return 0
    if arguments[:1] == ["--show"]:
        for folder, path, number, turn in found:
            if folder == arguments[1].rstrip("/"):
                print(f"{path}:{number}: {turn}")
        return 0
    allowed = json.loads(NUMBERS.read_text())
    grown = [folder for folder in sorted(counts) if counts[folder] > allowed.get(folder, 0)]
    for folder in grown:
        print(
            f"{folder} has {counts[folder]} turns that are hard to read, and had "
            f"{allowed.get(folder, 0)}: scripts/plain_english.py --show {folder}"
        )
    fallen = [folder for folder in allowed if counts[folder] < allowed[folder]]
    if fallen and not grown:
        print(f"fewer than written down in {', '.join(fallen)}: scripts/plain_english.py --write")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
