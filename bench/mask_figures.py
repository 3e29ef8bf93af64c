"""Masks over real schemas: `tenon mask --batch` beside xgrammar and llguidance, which take turns in one run.

    python bench/mask_figures.py [--tenon build/release/bin/tenon] [--peers-python PYTHON] [--per-source 10]

The schemas and the vocabulary are those of the large reference data where they are there (tests/samples/README.md), else our own. The peers are those that
PYTHON has: xgrammar brings PyTorch, so it is in no requirements file (`pip install xgrammar==0.2.8`). Prints tables; all
times are microseconds of CPU time, of one thread. Cold: the first request of a fresh process, the vocabulary being
loaded; warm: the same process serves all requests, each schema for the first time.
"""

import argparse
import json
import pathlib
import select
import subprocess
import sys

from data import DATA, ROOT, VOCABULARIES

VOCABULARY = DATA / "vocab" / VOCABULARIES[0]
POINTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}
LIMIT_S = 60  # for one answer


class Engine:
    """A process that answers line by line; one that dies or hangs is started anew, that request being lost."""

    def __init__(self, command):
        self.command = [str(part) for part in command]
        self.peak_mb = 0.0
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], LIMIT_S)[0] and (
                line := self.process.stdout.readline()
            ):
                return json.loads(line)
        except BrokenPipeError:
            pass
        self.process.kill()
        self.process.wait()
        self.start()
        return {"error": {"code": "fault", "message": "no answer"}}

    def stop(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        self.peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1024
        self.process.stdin.close()
        self.process.wait()


def requests(per_source):
    """As many schemas from each source, evenly spread, with the sources mixed."""
    chosen = []
    for path in sorted((DATA / "masks" / "public").glob("*.jsonl")):
        lines = path.read_text().rstrip("\n").split("\n")
        if path.stem.startswith("JSTS"):  # the test suite is about verdicts
            continue
        step = max(1, len(lines) // per_source)
        for place, line in enumerate(lines[::step][:per_source]):
            case = json.loads(line)
            tests = [
                {"text": json.dumps(test["data"], ensure_ascii=False)}
                for test in case["tests"]
                if test["valid"]
            ]
            chosen.append(
                (
                    place / per_source,
                    {"schema": case["schema"], "assert_format": True, "tests": tests},
                )
            )
    return [request for _, request in sorted(chosen, key=lambda pair: pair[0])]


def spread(values):
    values = sorted(values)
    if not values:
        return {}
    return {"mean": sum(values) / len(values)} | {
        name: values[min(len(values) - 1, int(len(values) * share))]
        for name, share in POINTS.items()
    }


def figures(answers):
    return {
        "compile + first mask": spread([a["compile_us"] + a["first_mask_us"] for a in answers]),
        "mask": spread([us for a in answers for us in a["mask_us"]]),
    }


def table(head, rows):
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")
    print()


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--tenon", default=ROOT / "build/release/bin/tenon", type=pathlib.Path)
    options.add_argument("--peers-python", default=sys.executable)
    options.add_argument("--per-source", default=10, type=int)
    options.add_argument(
        "--cold", default=40, type=int, help="how many requests get a process of their own"
    )
    arguments = options.parse_args()
    end = str(json.loads((VOCABULARY / "meta.json").read_text())["eos"])
    own = [
        arguments.tenon,
        "mask",
        "--batch",
        "--vocab",
        VOCABULARY / "tokenizer.json",
        "--eos",
        end,
    ]
    engines = {"tenon": Engine(own)}
    for peer in ("llguidance", "xgrammar"):
        if subprocess.run(
            [arguments.peers_python, "-c", f"import {peer}, tokenizers, numpy"], capture_output=True
        ).returncode:
            print(f"SKIPPED: {arguments.peers_python} has no {peer}")
            continue
        engines[peer] = Engine(
            [
                arguments.peers_python,
                ROOT / "bench/mask_peer.py",
                peer,
                VOCABULARY / "tokenizer.json",
                end,
            ]
        )

    chosen = requests(arguments.per_source)
    answers = {name: [] for name in engines}
    for number, request in enumerate(chosen):
        for name, engine in engines.items():
            answers[name].append(engine.ask(request))
        if number % 50 == 49:
            print(f"{number + 1} of {len(chosen)} schemas", file=sys.stderr, flush=True)
    for engine in engines.values():
        engine.stop()

    table(
        ["", *engines],
        [
            [
                "schemas compiled",
                *(
                    f"{sum('error' not in a for a in answers[name])} of {len(chosen)}"
                    for name in engines
                ),
            ],
            [
                "... and all valid instances accepted",
                *(
                    str(
                        sum(
                            "error" not in a and all(t["accepted"] for t in a["tests"])
                            for a in answers[name]
                        )
                    )
                    for name in engines
                ),
            ],
            ["peak resident memory, MB", *(f"{engine.peak_mb:.0f}" for engine in engines.values())],
        ],
    )
    common = [
        i for i in range(len(chosen)) if all("error" not in found[i] for found in answers.values())
    ]
    warm = {name: figures([found[i] for i in common]) for name, found in answers.items()}
    rows = [
        [f"{what}, {point}", *(f"{warm[name][what][point]:,.1f}" for name in engines)]
        for what in warm["tenon"]
        for point in warm["tenon"][what]
    ]
    print(f"Warm, us, over the {len(common)} schemas that all compile:\n")
    table(["", *engines], rows)

    cold = []
    for request in chosen[:: max(1, len(chosen) // arguments.cold)]:
        engine = Engine(own)
        answer = engine.ask(request)
        engine.stop()
        if "error" not in answer:
            cold.append(answer)
    print(f"Tenon cold, us, {len(cold)} processes with one request each:\n")
    table(
        ["", "tenon"],
        [
            [f"{what}, {point}", f"{us:,.1f}"]
            for what, points in figures(cold).items()
            for point, us in points.items()
        ],
    )


main()
