"""test_times.py [FOLDER] [--most 20]: what took longest in the last `make test`, from the JUnit files in FOLDER (build/test-results).

A table of the programs and files with tests, the longest first, then one of single tests.
"""
import argparse
import collections
import pathlib
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]


def cases(folder):
    """(program or file, test, seconds)."""
    for report in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("name")
            if report.stem.startswith("unit-"):
                _, preset, program = report.stem.split("-")[:3]
                yield f"{program} ({preset})", f"{case.get('classname')}.{name}", float(case.get("time") or 0)
            elif report.stem.startswith("rest-"):
                yield f"ctest ({report.stem.removeprefix('rest-')})", name, float(case.get("time") or 0)
            else:
                yield case.get("classname").split(".")[-1], name, float(case.get("time") or 0)


def table(head, rows):
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")
    print()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", nargs="?", default=ROOT / "build" / "test-results", type=pathlib.Path)
    options.add_argument("--most", default=20, type=int, help="how many rows each table has")
    arguments = options.parse_args()
    found = list(cases(arguments.folder))
    sums, counts = collections.Counter(), collections.Counter()
    for place, _, seconds in found:
        sums[place] += seconds
        counts[place] += 1
    table(["program or file", "tests", "seconds"], [[place, str(counts[place]), f"{seconds:.1f}"] for place, seconds in sums.most_common(arguments.most)])
    table(["test", "of", "seconds"], [[name, place, f"{seconds:.1f}"] for place, name, seconds in sorted(found, key=lambda case: -case[2])[:arguments.most]])
    print(f"{len(found)} tests, {sum(sums.values()):.0f} s")


if __name__ == "__main__":
    main()
