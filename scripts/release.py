#!/usr/bin/env python3
"""scripts/release.py VERSION: makes the tree that of a release, 0.2.0 say (docs/releasing.md).

Sets the version in every file that has it, and gives the changelog's "Unreleased" that name and
today's date. Without an argument it checks that all of these files name the same version.
"""

import datetime
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# File, and what stands before the version there; tenon.h has it in two numbers.
PLACES = [
    ("CMakeLists.txt", r"project\(tenon VERSION "),
    ("pyproject.toml", r'^version = "'),
    ("docs/packages.md", r"tenon(?:-dev)?_"),
    ("docs/security.md", r"Tenon "),
]
HEADER = ROOT / "src/tenon/capi/include/tenon.h"
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = r"\d+\.\d+\.\d+"


def versions():
    """(file, version) of every place."""
    for name, before in PLACES:
        for found in re.finditer(f"({before})({VERSION})", (ROOT / name).read_text(), re.M):
            yield name, found[2]


def header_version():
    text = HEADER.read_text()
    return ".".join(
        re.search(rf"#define TENON_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR")
    )


def check():
    found = list(versions())
    version = found[0][1]
    wrong = [
        f"{name} has {other}, CMakeLists.txt {version}" for name, other in found if other != version
    ]
    if header_version() != version.rpartition(".")[0]:
        wrong.append(f"tenon.h has {header_version()}, CMakeLists.txt {version}")
    print("\n".join(wrong) or f"version {version} everywhere")
    return 1 if wrong else 0


def release(version):
    changes = CHANGELOG.read_text()
    if "## Unreleased\n" not in changes or f"## {version} " in changes:
        sys.exit(f'CHANGELOG.md has no "## Unreleased", or has {version} already')
    for name, before in PLACES:
        path = ROOT / name
        text = path.read_text()
        path.write_text(re.sub(f"({before}){VERSION}", rf"\g<1>{version}", text, flags=re.M))
    text = HEADER.read_text()
    for part, number in zip(("MAJOR", "MINOR"), version.split(".")[:2]):
        text = re.sub(rf"(#define TENON_VERSION_{part}) \d+", rf"\1 {number}", text)
    HEADER.write_text(re.sub(rf'(that of the library: )"{VERSION}"', rf'\1"{version}"', text))
    today = datetime.date.today().isoformat()
    CHANGELOG.write_text(
        changes.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {today}\n", 1)
    )
    return check()


if __name__ == "__main__":
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and not re.fullmatch(VERSION, sys.argv[1])):
        sys.exit(__doc__)
    sys.exit(release(sys.argv[1]) if len(sys.argv) == 2 else check())
