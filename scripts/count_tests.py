"""count_tests.py FOLDER: the line that closes `make test`, from the JUnit files in FOLDER.

Names every test that failed. Each line of FOLDER/broken is something that broke before it could report, and counts as
one failure. The exit status says whether all is well.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree

passed, skipped = 0, 0
results = pathlib.Path(sys.argv[1])
broken = results / "broken"
failed = broken.read_text().splitlines() if broken.exists() else []
for report in sorted(results.glob("*.xml")):
    for case in ElementTree.parse(report).iter("testcase"):
        if (
            case.find("failure") is not None
            or case.find("error") is not None
            or case.get("status") == "fail"
        ):
            failed.append(f"{report.stem}: {case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1

if failed:
    print("Failed:", *(f"  {name}" for name in failed), sep="\n")
print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
sys.exit(1 if failed or passed == 0 else 0)
