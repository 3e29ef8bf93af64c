#!/usr/bin/env python3
"""Writes unicode_tables.inc: what Python's str methods know of each code point, asked of Python itself.

    python3.11 make_unicode_tables.py > unicode_tables.inc

A record per distinct behaviour and a two-stage table from code point to record, as CPython has it.
"""

import sys
import unicodedata

BLOCK = 128
(
    ALPHA,
    DECIMAL,
    DIGIT,
    NUMERIC,
    SPACE,
    UPPER,
    LOWER,
    TITLE,
    PRINTABLE,
    ID_START,
    ID_CONTINUE,
    CASED,
    IGNORABLE,
) = (1 << i for i in range(13))
SPECIAL = 1 << 24


def flags_of(c):
    sigma = "\u03a3"
    # str.lower() writes a sigma differently beside cased and case-ignorable characters.
    passes = ("A" + sigma + c + "A").lower()[1] == "\u03c3"
    cased = (c + sigma).lower()[-1] == "\u03c2"
    return (
        ALPHA * c.isalpha()
        | DECIMAL * c.isdecimal()
        | DIGIT * c.isdigit()
        | NUMERIC * c.isnumeric()
        | SPACE * c.isspace()
        | UPPER * c.isupper()
        | LOWER * c.islower()
        | TITLE * (unicodedata.category(c) == "Lt")
        | PRINTABLE * c.isprintable()
        | ID_START * c.isidentifier()
        | ID_CONTINUE * ("a" + c).isidentifier()
        | CASED * cased
        | IGNORABLE * (passes and not cased)
    )


def main():
    strings, records, index = {}, {}, []

    def mapping(c, mapped):
        if len(mapped) == 1:
            return ord(mapped) - ord(c)
        return SPECIAL + strings.setdefault(mapped, len(strings))

    for point in range(0x110000):
        if 0xD800 <= point < 0xE000:
            index.append(records.setdefault((0, 0, 0, 0, 0, 0), len(records)))
            continue
        c = chr(point)
        record = (
            flags_of(c),
            unicodedata.decimal(c, 0),
            mapping(c, c.upper()),
            mapping(c, "\u03c3" if c == "\u03a3" else c.lower()),
            mapping(c, c.title()),
            mapping(c, c.casefold()),
        )
        index.append(records.setdefault(record, len(records)))

    blocks, stage1 = {}, []
    for at in range(0, len(index), BLOCK):
        stage1.append(blocks.setdefault(tuple(index[at : at + BLOCK]), len(blocks)))

    def table(name, kind, values, width=98):
        print(f"constexpr {kind} {name}[] = {{")
        line = "   "
        for value in values:
            text = f" {value},"
            if len(line) + len(text) > width:
                print(line)
                line = "   "
            line += text
        print(line + "\n};")

    print(
        f"// Made by make_unicode_tables.py from Python {sys.version.split()[0]},"
        f" Unicode {unicodedata.unidata_version}. Do not edit.\n"
    )
    print(f"constexpr unsigned kBlock = {BLOCK};\nconstexpr std::int32_t kSpecial = 1 << 24;\n")
    print(
        "// flags, decimal value, then the way to upper, lower, title case and case folding: a distance, or"
    )
    print("// kSpecial plus the index of the text in kStrings.")
    print("constexpr Record kRecords[] = {")
    for record in records:
        print("    {" + ", ".join(map(str, record)) + "},")
    print("};")
    print("constexpr std::string_view kStrings[] = {")
    for text in strings:
        print('    "' + "".join(f"\\x{b:02x}" for b in text.encode()) + '",')
    print("};")
    table("kStage1", "std::uint8_t" if len(blocks) <= 256 else "std::uint16_t", stage1)
    table("kStage2", "std::uint16_t", [record for block in blocks for record in block])


main()
