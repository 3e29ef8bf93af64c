"""docs/requirements.md stays true: every requirement once, and what it names exists."""
import json
import re

import pytest
from serving import ROOT

ROWS = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in
        (ROOT / "docs" / "requirements.md").read_text().splitlines() if re.match(r"\| [A-Z]{3}-\d", line)]
REFERENCE = ROOT.parent / "shared" / "data" / "requirements.jsonl"


def test_every_requirement_stands_once():
    if not REFERENCE.exists():
        pytest.skip(f"{REFERENCE} is not here: the list of requirements cannot be compared")
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
