"""count_tests.py FOLDER [BROKEN STAGE...]: the line that closes `make test`, from JUnit files.

Names every test that failed; a stage that broke counts as one failure. The exit status says whether all is well.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

passed, skipped = 0, 0
failed = [f"stage: {stage}" for stage in sys.argv[2:]]
for report in sorted(pathlib.Path(sys.argv[1]).glob("*.xml")):
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed.append(f"{report.stem}: {case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1

if failed:
    print("Failed:", *(f"  {name}" for name in failed), sep="\n")
print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
sys.exit(1 if failed or passed == 0 else 0)
