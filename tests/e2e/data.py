"""Data that tests read: our own samples, which are in the tree, and in the same layout the large reference data, which are not
(tests/samples/README.md). A test over data runs once over each; over the large set it is skipped where that is absent."""
import os
import pathlib

import pytest
from serving import ROOT

SAMPLES = ROOT / "tests" / "samples"
LARGE = pathlib.Path(os.environ.get("TENON_DATA", ROOT.parent / "shared" / "data"))
NEEDS_LARGE = pytest.mark.skipif(not LARGE.exists(), reason=f"NOT TESTED: the large reference data are not at {LARGE} (TENON_DATA names their folder)")

# For tests with an argument `data`, the folder of a set.
over_each_set = pytest.mark.parametrize("data", [pytest.param(SAMPLES, id="own"), pytest.param(LARGE, id="large", marks=NEEDS_LARGE)])


def largest():
    """The folder of the large set where it is there, else that of our own."""
    return LARGE if LARGE.exists() else SAMPLES
