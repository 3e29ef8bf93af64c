"""docs/requirements.md stays true: every requirement once, and what it names exists."""
import json
import re

from data import LARGE, NEEDS_LARGE
from serving import ROOT

ROWS = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in
        (ROOT / "docs" / "requirements.md").read_text().splitlines() if re.match(r"\| [A-Z]{3}-\d", line)]
REFERENCE = LARGE / "requirements.jsonl"


def test_each_section_has_as_many_as_it_says():
    sections = re.split(r"^## ", (ROOT / "docs" / "requirements.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        found = re.findall(r"^\| ([A-Z]{3})-(\d\d) \|", section, re.MULTILINE)
        assert len(set(found)) == len(found) == int(re.search(r"(\d+)\s+requirements\.", section)[1]), section[:40]
        assert len({document for document, _ in found}) == 1


@NEEDS_LARGE
def test_every_requirement_stands_once():
    wanted = [json.loads(line)["id"] for line in REFERENCE.read_text().splitlines()]
    assert sorted(row[0] for row in ROWS) == sorted(wanted)


def missing_parts(row):
    """What is wrong with a row, as sentences."""
    identifier, state, where = row
    if state not in ("whole", "part", "open"):
        return [f"{identifier}: what is the state '{state}'?"]
    if state == "open":
        return []
    named = re.findall(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|cc|mjs)(?:::\w+)?|src/tenon/\w+/|\.ci/run|LICENSE", where)
    wrong = [] if named else [f"{identifier}: no test or page is named"]
    for name in named:
        path, _, test = name.partition("::")
        if not (ROOT / path).exists():
            wrong.append(f"{identifier}: {path} is missing")
        elif test and not re.search(rf"\b{test}\b", (ROOT / path).read_text()):
            wrong.append(f"{identifier}: {path} has no {test}")
    return wrong


def test_what_covers_them_exists():
    assert [sentence for row in ROWS for sentence in missing_parts(row)] == []
