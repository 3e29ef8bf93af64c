"""The folder of test data that a benchmark reads: the large reference data where they are there, else our own samples
(tests/samples/README.md). The figures of docs/benchmarks.md are those over the large set."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LARGE = pathlib.Path(os.environ.get("TENON_DATA", ROOT.parent / "shared" / "data"))
DATA = LARGE if LARGE.exists() else ROOT / "tests" / "samples"
VOCABULARIES = ["llama3", "qwen2", "gemma4"] if LARGE.exists() else ["bytes", "pieces"]
if DATA != LARGE:
    print(
        f"NOTE: the large reference data are not at {LARGE} (TENON_DATA names their folder): these are figures over our own samples",
        file=sys.stderr,
    )
