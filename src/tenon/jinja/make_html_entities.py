#!/usr/bin/env python3
"""Writes html_entities.inc: the named characters of HTML 5 as Python's html.entities has them, sorted.

python3.11 make_html_entities.py > html_entities.inc
"""

import html.entities
import sys


def main():
    print("// Made by make_html_entities.py from Python's html.entities.html5. Do not edit.\n")
    print("constexpr Entity kEntities[] = {")
    for name, text in sorted(html.entities.html5.items()):
        first, second = [*map(ord, text), 0][:2]
        print(f'    {{"{name}", 0x{first:X}, 0x{second:X}}},')
    print("};")


sys.exit(main())
