"""count_tests.py FOLDER: the line that closes `make test`, from the JUnit files in FOLDER.

Names every test that failed, and says what was not tested because its data or program is absent (a skipped test whose
reason begins with "NOT TESTED"). Each line of FOLDER/broken is something that broke before it could report, and counts as
one failure. The exit status says whether all is well.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

passed, skipped = 0, 0
untested = collections.Counter()
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
            reason = case.find("skipped")
            reason = "" if reason is None else reason.get("message") or reason.text or ""
            if "NOT TESTED" in reason:
                untested[reason[reason.index("NOT TESTED") :].splitlines()[0]] += 1
        else:
            passed += 1

for reason, count in untested.most_common():
    print(f"{count} x {reason}")
if failed:
    print("Failed:", *(f"  {name}" for name in failed), sep="\n")
print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
sys.exit(1 if failed or passed == 0 else 0)
