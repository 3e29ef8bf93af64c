#!/usr/bin/env python3
"""Where the time of the build goes.

    scripts/build_time.py release               from build/release: folders, files, headers
    scripts/build_time.py dev --top 30          more rows
    scripts/build_time.py dev --report src/tenon/format/stream_parser.cc
                                                compiles what holds the source once more with -ftime-report

scripts/test_times.py does the same for the tests.

Seconds of the build are ninja's, from the start of a step to its end, so they grow with what else the machine does: compare
shares of one build, or take --cpu, which compiles the dearest files once more and prints their processor time.
The size of a header is what the preprocessor makes of it alone, in lines of code without blank ones.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def table(title, head, rows):
    """Prints a table in Markdown, with numbers at the right of their columns."""
    rule = [
        "---" if any(isinstance(row[column], str) for row in rows) else "---:"
        for column in range(len(head))
    ]
    rows = [
        [
            f"{cell:.1f}" if isinstance(cell, float) else str(cell).replace("|", "\\|")
            for cell in row
        ]
        for row in rows
    ]
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'|'.join(rule)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def commands(build):
    return json.loads((build / "compile_commands.json").read_text())


def object_of(entry):
    words = shlex.split(entry["command"])
    return words[words.index("-o") + 1]


def steps(build):
    """Output of each step, and its seconds when it ran last. A step with several outputs counts once; objects of sources that are
    gone do not."""
    last, seen = {}, set()
    objects = {object_of(entry) for entry in commands(build)}
    lines = (build / ".ninja_log").read_text().splitlines()[1:]
    for line in lines:
        begin, end, _, output, command = line.split("\t")
        last[output] = (int(begin), int(end), command)
    for output, (begin, end, command) in last.items():
        if (begin, end, command) in seen or output.endswith(".o") and output not in objects:
            continue
        seen.add((begin, end, command))
        yield output, (end - begin) / 1000


def short(output):
    """A source, from the name of its object."""
    return re.sub(r"CMakeFiles/.*?\.dir/", "", output).removesuffix(".o")


def layer_of(output):
    match = re.match(r"src/tenon/(.*?)/CMakeFiles/(.*?)\.dir/", output)
    if match:
        return match[1] + (", tests" if match[2].endswith("_test") else "")
    folder = output.split("/CMakeFiles/")[0]
    return folder.split("/")[0] if "/" in folder else folder


def print_build(build, top):
    objects, layers, others = [], collections.Counter(), collections.Counter()
    counts = collections.Counter()
    for output, seconds in steps(build):
        if not output.endswith(".o"):
            others["linking" if re.search(r"\.a$|\.so|^bin/", output) else "the rest"] += seconds
            continue
        objects.append((seconds, short(output)))
        layers[layer_of(output)] += seconds
        counts[layer_of(output)] += 1
    total = sum(layers.values())
    if not total:
        sys.exit(f"{build} holds no log of a build.")
    table(
        f"Layers: {total:.0f} s in {len(objects)} compilations; linking {others['linking']:.0f} s, "
        f"the rest {others['the rest']:.0f} s",
        ["s", "%", "files", "layer"],
        [
            (seconds, 100 * seconds / total, counts[name], name)
            for name, seconds in layers.most_common()
        ],
    )
    table("Dearest files", ["s", "file"], sorted(objects, reverse=True)[:top])
    return sorted(objects, reverse=True)


def includes(build):
    """For each header of ours, how many objects were made from it, as ninja remembers it."""
    users = collections.Counter()
    text = subprocess.run(
        ["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    for line in text.splitlines():
        if line.startswith("    "):
            path = os.path.normpath(build / line.strip())
            if path.startswith(str(ROOT / "src")) and path.endswith(".h"):
                users[os.path.relpath(path, ROOT)] += 1
    return users


def flags_of(build):
    """A command of the build up to its source: the options that a header is read with."""
    entry = next(entry for entry in commands(build) if "/src/tenon/" in entry["file"])
    words = shlex.split(entry["command"])
    return words[: words.index("-o")], entry["directory"]


def preprocessed_lines(header, words, directory):
    done = subprocess.run(
        [*words, "-w", "-E", "-P", "-x", "c++", ROOT / header],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    return (
        sum(1 for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else 0
    )


def print_headers(build, top):
    users = includes(build)
    words, directory = flags_of(build)
    often = [header for header, _ in users.most_common(4 * top)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sizes = list(pool.map(lambda header: preprocessed_lines(header, words, directory), often))
    rows = sorted(
        (
            (users[header] * size / 1e6, users[header], size, header)
            for header, size in zip(often, sizes)
        ),
        reverse=True,
    )
    table(
        "Dearest headers: objects that read them, lines of each when preprocessed, millions of lines in all",
        ["M lines", "objects", "lines", "header"],
        rows[:top],
    )


def command_for(build, source):
    """The command that compiles `source`, which may be one of several that a generated file includes."""
    relative = os.path.relpath(source, ROOT)
    for entry in commands(build):
        file = pathlib.Path(entry["file"])
        inside = relative.removeprefix("src/").removeprefix("apps/tenon/")
        if os.path.relpath(file, ROOT) == relative or (
            "unity" in file.parts
            and file.exists()
            and re.search(rf'"(\./)?{re.escape(inside)}"', file.read_text())
        ):
            return entry
    sys.exit(f"{source} is not compiled in {build}.")


def compile_again(entry, *options):
    """Processor time in seconds, and what the compiler printed."""
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = "/dev/null"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*words, *options], cwd=entry["directory"], capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def print_report(build, source):
    entry = command_for(build, ROOT / source)
    seconds, report = compile_again(entry, "-ftime-report")
    rows = []
    for line in report.splitlines():
        match = re.match(r" ([^:]+?) *: *([\d.]+) \( *(\d+)%\)", line)
        if match and float(match[2]) >= 0.05 and match[1] != "TOTAL":
            rows.append((float(match[2]), int(match[3]), match[1]))
    table(
        f"{os.path.relpath(entry['file'], ROOT)}: {seconds:.1f} s of processor time (-ftime-report; phases hold the others)",
        ["s", "%", "part"],
        sorted(rows, reverse=True),
    )


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("preset", help="a folder of build/: dev, release, ...")
    arguments.add_argument(
        "--report", metavar="FILE", action="append", default=[], help="-ftime-report for a source"
    )
    arguments.add_argument(
        "--cpu", action="store_true", help="compile the dearest files again, one after the other"
    )
    arguments.add_argument(
        "--top", type=int, default=15, metavar="N", help="rows of each table (15)"
    )
    options = arguments.parse_args()
    build = ROOT / "build" / options.preset
    for source in options.report:
        print_report(build, source)
    if options.report:
        return
    dearest = print_build(build, options.top)
    print_headers(build, options.top)
    if options.cpu:
        entries = {short(object_of(entry)): entry for entry in commands(build)}
        table(
            "Dearest files, processor time",
            ["s", "file"],
            [
                (compile_again(entries[name])[0], name)
                for _, name in dearest[: options.top]
                if name in entries
            ],
        )


if __name__ == "__main__":
    main()
