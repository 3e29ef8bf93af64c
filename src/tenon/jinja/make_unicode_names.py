#!/usr/bin/env python3
r"""Writes unicode_names.inc: the names for \N{...} of the symbol and punctuation blocks, sorted.

python3.11 make_unicode_names.py > unicode_names.inc
"""

import sys
import unicodedata

RANGES = [
    (0x20, 0x17F),
    (0x370, 0x3FF),
    (0x2000, 0x206F),
    (0x20A0, 0x214F),
    (0x2190, 0x22FF),
    (0x2300, 0x2328),
    (0x2460, 0x2473),
    (0x2500, 0x27BF),
    (0x2B00, 0x2B55),
    (0x3000, 0x301F),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFFC, 0xFFFD),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F900, 0x1F9FF),
]


def main():
    names = {}
    for first, last in RANGES:
        for point in range(first, last + 1):
            name = unicodedata.name(chr(point), "")
            if name:
                names[name] = point
    for alias in (
        "NULL",
        "BACKSPACE",
        "CHARACTER TABULATION",
        "TAB",
        "LINE FEED",
        "NEW LINE",
        "CARRIAGE RETURN",
        "ESCAPE",
        "DELETE",
        "NEXT LINE",
        "NBSP",
        "ZWJ",
        "ZWNJ",
        "ZWSP",
        "BOM",
        "BYTE ORDER MARK",
    ):
        try:
            names[alias] = ord(unicodedata.lookup(alias))
        except KeyError:
            pass
    print(
        f"// Made by make_unicode_names.py from Unicode {unicodedata.unidata_version}. Do not edit.\n"
    )
    print("constexpr Name kNames[] = {")
    for name in sorted(names):
        print(f'    {{"{name}", 0x{names[name]:X}}},')
    print("};")


sys.exit(main())
