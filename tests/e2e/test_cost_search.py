"""The search for grammars that cost too much: that it searches, and that it tells what passes a bound."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from serving import TENON

SEARCH = pathlib.Path(__file__).resolve().parents[1] / "cost_search.py"


# Slack: far beyond what anything costs, and far below.
@pytest.mark.parametrize("slack, is_costly", [("1000", False), ("0.000001", True)])
def test_what_passes_a_bound_is_told(tmp_path, slack, is_costly):
    found = tmp_path / "found.jsonl"
    done = subprocess.run(
        [sys.executable, SEARCH, "--minutes", "0.05", "--slack", slack, "--tenon", TENON, "--save", found],
        capture_output=True, text=True, timeout=300,
    )
    counts = re.search(r"(-?\d+) passed, (\d+) failed\s*$", done.stdout)
    assert counts, done.stdout + done.stderr
    assert (done.returncode == 1) == is_costly == (int(counts[2]) > 0), done.stdout
    rows = [json.loads(line) for line in found.read_text().splitlines()]
    assert rows and all("request" in row for row in rows)
