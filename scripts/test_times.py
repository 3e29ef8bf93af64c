#!/usr/bin/env python3
"""What took longest in the last `make test`, from its JUnit files: programs and files with tests, then single tests.

    scripts/test_times.py               from build/test-results
    scripts/test_times.py FOLDER --top 30

scripts/build_time.py does the same for the build.
"""

import argparse
import collections
import pathlib
import xml.etree.ElementTree as ElementTree

from build_time import ROOT, table


def cases(folder):
    """(program or file, test, seconds)."""
    for report in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name")
            if report.stem.startswith("unit-"):
                _, preset, program = report.stem.split("-")[:3]
                yield (
                    f"{program} ({preset})",
                    f"{case.get('classname')}.{name}",
                    float(case.get("time") or 0),
                )
            elif report.stem.startswith("rest-"):
                yield (
                    f"ctest ({report.stem.removeprefix('rest-')})",
                    name,
                    float(case.get("time") or 0),
                )
            else:
                yield case.get("classname").split(".")[-1], name, float(case.get("time") or 0)


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "folder", nargs="?", default=ROOT / "build" / "test-results", type=pathlib.Path
    )
    options.add_argument("--top", type=int, default=20, metavar="N", help="rows of each table (20)")
    arguments = options.parse_args()
    found = list(cases(arguments.folder))
    sums, counts = collections.Counter(), collections.Counter()
    for place, _, seconds in found:
        sums[place] += seconds
        counts[place] += 1
    table(
        f"{len(found)} tests, {sum(sums.values()):.0f} s: programs and files that took longest",
        ["s", "tests", "program or file"],
        [(seconds, counts[place], place) for place, seconds in sums.most_common(arguments.top)],
    )
    longest = sorted(found, key=lambda case: -case[2])[: arguments.top]
    table(
        "Tests that took longest",
        ["s", "test", "of"],
        [(seconds, name, place) for place, name, seconds in longest],
    )


if __name__ == "__main__":
    main()
