#!/usr/bin/env python3
"""scripts/sizes.py [ROOT [FOLDER...]]: how large the files and functions of a C++ tree are, how much
of it is comment, and how many sources each of the most included headers makes compile again. Without
arguments: this tree's src and apps. For docs/benchmarks.md, "The sizes". Tests do not count, except
as sources that include a header.

A function is a block behind a parenthesis, outside of every other function; this finds definitions
well enough to compare trees, not to parse C++.
"""

import collections
import os
import re
import sys

CONTAINER = re.compile(r"\b(namespace|class|struct|union|extern)\b")
DEFINITION_END = re.compile(r"\)\s*(const|noexcept|override|final|try)?\s*$")
SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)


def blanked(text):
    """The text with spaces for comments, literals and preprocessor lines."""
    return SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def function_lengths(text):
    lengths = []
    stack = []  # of open blocks: the line on which a function begins, 0 for a container, else -1
    head, begin, line = "", 1, 1
    for char in blanked(text):
        if char == "\n":
            line += 1
        if char == "{":
            name = head.strip()
            if any(block != 0 for block in stack):
                stack.append(-1)
            elif CONTAINER.search(name) and not DEFINITION_END.search(name):
                stack.append(0)
            else:
                is_function = "(" in name and not name.endswith("=")
                stack.append(begin if is_function else -1)
            head = ""
        elif char == "}":
            if stack and (block := stack.pop()) > 0:
                lengths.append(line - block + 1)
            head = ""
        elif char == ";":
            head = ""
        else:
            if not head.strip():
                begin = line
            head += char
    return lengths


def is_test(name):
    return re.search(r"(_test\.cc|_for_test|test_rows|_unittest)", name) is not None


def read_tree(root, folders):
    texts = {}
    for folder in folders:
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith((".cc", ".h")):
                    full = os.path.join(path, name)
                    with open(full, encoding="utf-8", errors="replace") as file:
                        texts[os.path.relpath(full, root)] = file.read()
    return texts


def readers_of_headers(texts):
    """For each header, how many sources include it, directly or not."""
    named = {path.removeprefix("src/"): path for path in texts}
    includes = {
        path: [
            named[name] for name in re.findall(r'^#include "(.+?)"', text, re.M) if name in named
        ]
        for path, text in texts.items()
    }
    readers = collections.Counter()
    for source in (path for path in texts if path.endswith(".cc")):
        seen, rest = set(), list(includes[source])
        while rest:
            header = rest.pop()
            if header not in seen:
                seen.add(header)
                rest.extend(includes[header])
        readers.update(seen)
    return readers


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def comment_share(texts):
    lines = [line.strip() for text in texts for line in text.split("\n") if line.strip()]
    return 100 * sum(line.startswith("//") for line in lines) / max(len(lines), 1)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(__file__)) or "."
    texts = read_tree(root, sys.argv[2:] or ["src", "apps"])
    code = {path: text for path, text in texts.items() if not is_test(path)}
    files = [text.count("\n") for text in code.values()]
    functions = [length for text in code.values() for length in function_lengths(text)]
    long_share = 100 * sum(length > 60 for length in functions) / max(len(functions), 1)
    print(f"files: {len(files)}, 95 % at most {quantile(files, 0.95)} lines")
    print(
        f"functions: {len(functions)}, 95 % at most {quantile(functions, 0.95)} lines, "
        f"{long_share:.2f} % over 60"
    )
    for end in (".cc", ".h"):
        share = comment_share([text for path, text in code.items() if path.endswith(end)])
        print(f"comment lines of {end}: {share:.1f} %")
    sources = sum(path.endswith(".cc") for path in texts)
    for header, count in readers_of_headers(texts).most_common(5):
        print(f"{header}: read by {count} of {sources} sources")


if __name__ == "__main__":
    main()
