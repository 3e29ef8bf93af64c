"""Searches for grammars that cost more than they may, by making small changes to those that cost most.

    python tests/cost_search.py [--minutes 1] [--seed 1] [--tenon build/release/bin/tenon] [--vocab FILE] [--slack 1] [--save FILE]

A request of at most 10 kB may take 100 ms of CPU time and 20 MB to compile (or to be refused), and 5 ms for one mask. The search keeps, for
each kind of source (schemas, patterns, GBNF, Lark, structural tags) and each cost, the sources that came nearest to its bound, changes one of
them, and asks `tenon mask --batch` what the result costs. What passes a bound is asked again, twice, each time of a new process, and counts if it
passes in all of them. So a machine that is busy for a moment finds nothing, and what other requests have left in the caches does not help.

Prints each find, and closes with "N passed, N failed". A find becomes a test beside the code that is changed for it. --save keeps the finds, and the
dearest sources without one, as lines for `tenon mask --batch`. The vocabulary is that of Llama-3 if the large reference data are there
(tests/samples/README.md), else the bundled model's.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import select
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(os.environ.get("TENON_DATA", ROOT.parent / "shared" / "data"))
# What each cost may be. `worst mask`: every mask but the first one of a new grammar.
BOUNDS = {"compile ms": 100.0, "memory MB": 20.0, "first mask ms": 5.0, "worst mask ms": 5.0}
MOST_BYTES = 10_000
LIMIT_S = 60  # of CPU time, for one answer
WAIT_S = 20 * LIMIT_S  # however busy the machine is
KEPT = 12  # sources of one kind and cost

PIECES = [  # of patterns
    "a", ".", "x*", "[a-z]", "[^,]", "[^\"]*", "\\s", "\\S+", "\\d{2,4}", ".{1,20}", ".{0,3}", ".*", ".+", "(ab|cd)", "(?:a|ab)",
    "(?=.*a)", "(?!b)", "[0-9a-f]{8}", "\\w+", "[^a]*", "é", "(x|y)?", "([^,]{1,15},)", "^", "$", "|", "\\b", "[\\w.-]+@", "{3}", "{1,9}",
    "{0,99}", "{2,}", "+", "*", "?", "\\p{L}", "[\\u0080-\\uffff]", "(?:\\S+\\s+)",
]  # fmt: skip
PATTERNS = [
    "^([^,]{1,15},){8}end$",
    "^.{1,20}a.{1,20}b.{1,20}c$",
    "^(?:\\S+\\s+){0,99}\\S+$",
    "(?=.*a)(?=.*b).*",
    "^[a-z0-9_-]{3,40}$",
    "^(a|ab|abc)*$",
    "foo",
]
SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "integer"}}, "required": ["a"]},
    {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b", 1, None]}, "minItems": 2},
    {"anyOf": [{"type": "object", "properties": {"k": {"const": "x"}}}, {"type": "object", "properties": {"k": {"const": "y"}}}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"type": "string", "pattern": "^a+$"}]},
    {"type": "object", "patternProperties": {"^in_": {"type": "integer"}, "_id$": {"type": "integer"}}, "minProperties": 2},
    {"type": "object", "properties": {"up": {"type": "integer"}}, "unevaluatedProperties": False, "allOf": [{"properties": {"x": True}}]},
    {"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}, "v": {"type": "number", "minimum": 0.5}}}}, "$ref": "#/$defs/n"},
    {"type": "string", "format": "date-time", "not": {"maxLength": 30}},
    {"type": "array", "contains": {"multipleOf": 3}, "minContains": 2, "maxItems": 9},
    {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": {"maxProperties": 3}, "type": "object"},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,4}$"}, "additionalProperties": {"type": ["number", "null"]}, "maxProperties": 5},
    {"type": "number", "multipleOf": 0.01, "exclusiveMinimum": -5, "maximum": 1e6},
]  # fmt: skip
KEYWORDS: list[dict[str, Any]] = [  # that a schema gets
    {"minLength": 3}, {"maxLength": 20}, {"pattern": "^[a-z]+$"}, {"minItems": 3}, {"maxItems": 9}, {"uniqueItems": True}, {"minProperties": 2},
    {"maxProperties": 4}, {"additionalProperties": False}, {"format": "uri"}, {"format": "email"}, {"contains": {"type": "integer"}},
    {"unevaluatedProperties": False}, {"unevaluatedItems": False}, {"dependentRequired": {"a": ["b"]}}, {"multipleOf": 0.3}, {"minimum": 7},
    {"enum": ["a", "b", "ab", 1, 1.5, None, [1], {"a": 1}]}, {"const": {"a": [1, 2]}}, {"required": ["a", "b", "c"]},
    {"items": {"type": "string"}}, {"prefixItems": [{"const": 1}, {"type": "string"}]}, {"propertyNames": {"maxLength": 3}},
    {"patternProperties": {"^a": {"type": "string"}, "b$": {"minLength": 2}}}, {"type": ["string", "array", "object"]},
]  # fmt: skip
GBNF = [
    'root ::= "[" item ("," item)* "]"\nitem ::= "\'" word "\'" | "(" item "," item ")"\nword ::= "" | [a-z ] word | "%" [0-9] word\n',
    'root ::= ("a" | "ab" | "abc")* "x"\n',
    'root ::= a a a\na ::= [a-z]{1,9} | b\nb ::= [^b]* "b"\n',
    'root ::= expr\nexpr ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" expr ")"\n',
    'root ::= "a" root | "a" root root | "b"\n',
    'root ::= line{1,30}\nline ::= [^\\n]{1,80} "\\n"\n',
]
LARK = [
    'start: list\nlist: "<" tail\ntail: ">" | CHAR tail | list tail\nCHAR: /[a-z ]/\n',
    "start: (A | B)* C\nA: /[a-z]+/\nB: /[0-9]{1,5}/\nC: /.*x/\n",
    'start: item* rest\nitem: up_to %json {"type": "array", "items": {"type": "boolean"}}\nup_to[stop="=>"]: ANY\nrest: ANY\nANY: /(.|\\n)*/\n',
    'start: head body\nhead[lazy]: ANY "<do>"\nbody: "a"~1..9 | WORD ("," WORD)*\nWORD: /\\w+/ & ~/if|else/\nANY: /(.|\\n)*/\n',
]
TAGS: list[Any] = [
    {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [
        {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "object"}}, "end": "</f>"},
        {"begin": "<f=b>", "content": {"type": "any_text"}, "end": "</f>"}]}},
    {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "const_string", "value": "go "}, {"type": "regex", "pattern": "[a-z]{1,20}!"},
        {"type": "tag", "begin": "<t>", "content": {"type": "any_text", "excludes": ["<t>", "bad"]}, "end": "</t>"}]}},
    {"type": "structural_tag", "format": {"type": "or", "elements": [
        {"type": "json_schema", "json_schema": {"type": "string", "maxLength": 30}},
        {"type": "grammar", "grammar": "root ::= [a-z]+ \".\""},
        {"type": "tags_with_separator", "separator": ",", "tags": [
            {"type": "tag", "begin": "<x>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</x>"}]}]}},
]  # fmt: skip
NUMBERS = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    64,
    99,
    200,
    255,
    1000,
    4096,
    65535,
    1_000_000,
    0.5,
    1e-9,
    1e30,
    -1,
]


class Process:
    """`tenon mask --batch`; one that ends or hangs is started anew."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.ask({"schema": {"const": 1}, "tests": [{"text": "1"}]})  # the vocabulary is read

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def status(self, name: str) -> float:
        """A size of the process in MB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_ms(self) -> float:
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e6

    def has_answered(self) -> bool:
        end, most_ms = time.monotonic() + WAIT_S, self.cpu_ms() + 1000 * LIMIT_S
        while not select.select([self.process.stdout], [], [], 1)[0]:
            if time.monotonic() > end or self.cpu_ms() > most_ms:
                return False
        return True

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            if self.has_answered() and (line := self.process.stdout.readline()):
                return dict(json.loads(line))
        except BrokenPipeError:
            pass
        self.stop()
        return {}

    def costs(self, request: dict[str, Any]) -> dict[str, float] | None:
        """What the request costs; None: no answer came."""
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak begins here
        memory, cpu = self.status("VmRSS"), self.cpu_ms()
        answer = self.ask(request)
        if answer and "error" in answer and request["walks"]:
            # A walk came to a limit of its text; what is asked for here is the grammar and its first mask.
            return self.costs(request | {"walks": []})
        if not answer:
            self.start()
            return None
        costs = {"memory MB": self.status("VmHWM") - memory}
        if "error" in answer:
            return costs | {"compile ms": self.cpu_ms() - cpu}
        return costs | {
            "compile ms": answer["compile_us"] / 1e3,
            "first mask ms": answer["first_mask_us"] / 1e3,
            "worst mask ms": max(answer["mask_us"], default=0.0) / 1e3,
        }


class Changes:
    """Random small changes to sources."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, choices: list[Any]) -> Any:
        return self.random.choice(choices)

    def begin(self, kind: str) -> Any:
        return {
            "schema": lambda: self.one(SCHEMAS),
            "pattern": lambda: self.one(PATTERNS),
            "gbnf": lambda: self.one(GBNF),
            "lark": lambda: self.one(LARK),
            "structural_tag": lambda: self.one(TAGS),
        }[kind]()

    def change(self, kind: str, source: Any, other: Any) -> Any:
        for _ in range(1 + min(3, int(self.random.expovariate(1)))):
            if kind == "pattern":
                source = self.pattern(source, other)
            elif kind in ("gbnf", "lark"):
                source = self.rules(source, other)
            else:
                source = self.tree(json.loads(json.dumps(source)), other, kind)
        return source

    def pattern(self, text: str, other: str) -> str:
        at, end = sorted(self.random.randrange(len(text) + 1) for _ in range(2))
        part = text[at:end]
        how = self.random.randrange(8)
        if how == 0:
            return text[:at] + self.one(PIECES) + text[at:]
        if how == 1:
            return text[:at] + text[end:]
        if how == 2:
            return text[:end] + part * self.random.randrange(1, 5) + text[end:]
        if how == 3:
            return (
                text[:at]
                + "(?:"
                + part
                + ")"
                + self.one(["*", "+", "?", self.count()])
                + text[end:]
            )
        if how == 4:
            return text[:at] + "(?:" + part + "|" + self.one(PIECES) + ")" + text[end:]
        if how == 5:
            return text[:at] + self.count() + text[at:]
        if how == 6:
            return text[:at] + self.one(["(?=", "(?!"]) + part + ")" + text[at:]
        cut = self.random.randrange(len(other) + 1)
        return text[:at] + other[cut : cut + self.random.randrange(1, 40)] + text[end:]

    def count(self) -> str:
        low = self.one([0, 1, 2, 3, 9])
        return "{" + f"{low},{low + self.one([0, 1, 5, 20, 60, 200, 1000])}" + "}"

    def rules(self, text: str, other: str) -> str:
        lines = [line for line in text.split("\n") if line.strip()]
        sign = "::=" if "::=" in text else ":"
        at = self.random.randrange(len(lines))
        name, found, body = lines[at].partition(sign)
        how = self.random.randrange(9)
        if how == 0:  # a rule again, by another name, at another's side
            new = ("r" if name.strip().islower() else "R") + str(self.random.randrange(1000))
            lines.append(f"{new}{found}{body}")
            lines[self.random.randrange(len(lines) - 1)] += f" | {new}"
        elif how == 1:
            lines[at] += " |" + body
        elif how == 2:
            lines[at] = (
                f"{name}{found} ({body.strip()}){self.one(['*', '+', '?', self.count() if sign == '::=' else '~1..9'])}"
            )
        elif how == 3:
            lines[at] = f"{name}{found} {body.strip()} {body.strip()}"
        elif how == 4:
            words = body.split(" ")
            place = self.random.randrange(len(words))
            words[place] = self.one(
                [
                    self.one(lines).partition(sign)[0].split("[")[0].strip(),
                    '"a"',
                    '"b"',
                    "[a-z]" if sign == "::=" else "/[a-z]/",
                ]
            )
            lines[at] = name + found + " ".join(words)
        elif how == 5:
            words = body.split(" ")
            del words[self.random.randrange(len(words))]
            lines[at] = name + found + " ".join(words)
        elif how == 6:
            lines[at] = (
                name
                + found
                + body
                + " "
                + self.one(
                    [self.one(lines).partition(sign)[0].split("[")[0].strip(), '"ab"', '"x"?']
                )
            )
        elif how == 7 and len(lines) > 1:
            del lines[at]
        else:  # rules of another one
            mine = {line.partition(sign)[0].strip() for line in lines}
            for line in other.split("\n"):
                theirs = line.partition(sign)[0].strip()
                if theirs and theirs not in mine and self.random.random() < 0.7:
                    lines.append(line)
                    lines[at] += " | " + theirs.split("[")[0]
        return "\n".join(lines) + "\n"

    def places(self, tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        found = [path]
        if isinstance(tree, dict):
            for key in tree:
                found += self.places(tree[key], (*path, key))
        elif isinstance(tree, list):
            for index, item in enumerate(tree):
                found += self.places(item, (*path, index))
        return found

    def at(self, tree: Any, path: tuple[Any, ...]) -> Any:
        for key in path:
            tree = tree[key]
        return tree

    def put(self, tree: Any, path: tuple[Any, ...], value: Any) -> Any:
        if not path:
            return value
        self.at(tree, path[:-1])[path[-1]] = value
        return tree

    def tree(self, tree: Any, other: Any, kind: str) -> Any:
        path = self.one(self.places(tree))
        value = self.at(tree, path)
        if isinstance(value, bool):
            return self.put(tree, path, not value)
        if isinstance(value, (int, float)):
            return self.put(
                tree, path, self.one([self.one(NUMBERS), value * 2, value + 1, value / 2])
            )
        if isinstance(value, str):
            if path and path[-1] == "pattern":
                return self.put(tree, path, self.pattern(value, self.one(PATTERNS)))
            return self.put(
                tree,
                path,
                self.one(
                    [
                        value + "a",
                        value * 2,
                        value[:1],
                        self.one(["x", "ab", "<f=a>", "integer", "string", "uri"]),
                    ]
                ),
            )
        if isinstance(value, list):
            if value and self.random.random() < 0.8:
                copies = [
                    json.loads(json.dumps(self.one(value))) for _ in range(self.one([1, 1, 2, 8]))
                ]
                if self.random.random() < 0.5:
                    copies = [self.tree(copy, other, kind) for copy in copies]
                return self.put(tree, path, value + copies)
            return self.put(tree, path, value[1:])
        if not isinstance(value, dict):
            return self.put(tree, path, self.one(NUMBERS))
        if kind == "structural_tag" and "json_schema" not in path:
            theirs = self.one(self.places(other))
            return self.put(tree, path, json.loads(json.dumps(self.at(other, theirs))))
        how = self.random.randrange(8)
        if how == 0:
            value |= json.loads(json.dumps(self.one(KEYWORDS)))
        elif how == 1 and value:
            del value[self.one(list(value))]
        elif how == 2:
            name = self.one(["allOf", "anyOf", "oneOf"])
            return self.put(tree, path, {name: [value, json.loads(json.dumps(self.one(SCHEMAS)))]})
        elif how == 3:
            return self.put(tree, path, {"type": "array", "items": value, **self.one(KEYWORDS)})
        elif how == 4:
            return self.put(
                tree,
                path,
                {
                    "type": "object",
                    "properties": {"a": value},
                    "required": ["a"],
                    **self.one(KEYWORDS),
                },
            )
        elif how == 5:
            value["not"] = json.loads(json.dumps(self.one(SCHEMAS + KEYWORDS)))
        elif how == 6 and isinstance(value.get("properties"), dict) and value["properties"]:
            members = value["properties"]
            for _ in range(self.one([1, 4, 16])):
                members[f"p{len(members)}"] = json.loads(
                    json.dumps(self.one(list(members.values())))
                )
        else:
            theirs = self.one(self.places(other))
            return self.put(tree, path, json.loads(json.dumps(self.at(other, theirs))))
        return tree


def request_of(kind: str, source: Any, seed: int) -> dict[str, Any]:
    walks = {"walks": [{"seed": seed + i, "most": most} for i, most in enumerate((60, 60, 60))]}
    if kind == "schema":
        return {"schema": source, "assert_format": True} | walks
    if kind == "pattern":
        # As clients write it: in the JSON of a schema.
        return {"schema": {"type": "string", "pattern": source}} | walks
    text = source if isinstance(source, str) else json.dumps(source)
    return {"grammar": text, "syntax": kind} | walks


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--kinds", nargs="+", default=["schema", "pattern", "gbnf", "lark", "structural_tag"]
    )
    options.add_argument(
        "--tenon", default=os.environ.get("TENON_BIN", ROOT / "build/release/bin/tenon")
    )
    options.add_argument("--vocab")
    options.add_argument(
        "--slack", type=float, default=1.0, help="so many times the bounds are allowed"
    )
    options.add_argument("--save", type=pathlib.Path)
    arguments = options.parse_args()
    bounds = {cost: bound * arguments.slack for cost, bound in BOUNDS.items()}
    vocab = arguments.vocab or DATA / "vocab/llama3/tokenizer.json"
    command = [str(arguments.tenon), "mask", "--batch", "--vocab", str(vocab)]
    if not arguments.vocab:
        if pathlib.Path(vocab).exists():
            command += [
                "--eos",
                str(json.loads((DATA / "vocab/llama3/meta.json").read_text())["eos"]),
            ]
        else:
            command[command.index("--vocab") + 1] = str(ROOT / "models/tenon-tiny.gguf")
    process = Process(command)
    changes = Changes(arguments.seed)
    # For each kind and cost: (share of the bound, source), the dearest first.
    best: dict[tuple[str, str], list[tuple[float, Any]]] = {}
    finds: dict[tuple[str, str], list[tuple[float, dict[str, Any]]]] = {}
    lost: list[dict[str, Any]] = []
    tried = costly = 0
    end = time.monotonic() + arguments.minutes * 60
    while time.monotonic() < end:
        kind = changes.one(arguments.kinds)
        ranks = [best[kind, cost] for cost in BOUNDS if best.get((kind, cost))]
        if not ranks or changes.random.random() < 0.05:
            source = changes.begin(kind)
        else:
            source = changes.one(changes.one(ranks))[1]
        other = (
            changes.one(changes.one(ranks))[1]
            if ranks and changes.random.random() < 0.5
            else changes.begin(kind)
        )
        source = changes.change(kind, source, other)
        if isinstance(changes.begin(kind), dict) and not isinstance(source, dict):
            continue
        request = request_of(kind, source, arguments.seed + tried % 50)
        if len(json.dumps(request)) > MOST_BYTES:
            continue
        tried += 1
        costs = process.costs(request)
        if costs is None:
            lost.append(request)
            print(f"NO ANSWER: {json.dumps(request)}", flush=True)
            continue
        over = {cost: value for cost, value in costs.items() if value > bounds[cost]}
        if over:
            for _ in range(2):
                fresh = Process(command)
                again = fresh.costs(request) or {}
                fresh.stop()
                costs = {cost: min(value, again.get(cost, value)) for cost, value in costs.items()}
        costly += any(value > bounds[cost] for cost, value in costs.items())
        for cost, value in costs.items():
            rank = best.setdefault((kind, cost), [])
            rank.append((value / bounds[cost], source))
            rank.sort(key=lambda pair: -pair[0])
            del rank[KEPT:]
            if value > bounds[cost]:
                before = finds.setdefault((kind, cost), [])
                if not before or value > 1.2 * before[0][0]:
                    print(
                        f"{kind}, {cost}: {value:.1f}, may be {bounds[cost]:.0f}: {json.dumps(request)}",
                        flush=True,
                    )
                before.append((value, request))
                before.sort(key=lambda pair: -pair[0])
    process.stop()
    print(f"\n{tried} sources. Dearest of each kind, as a share of the bound:\n")
    print("| | " + " | ".join(BOUNDS) + " |\n|---|" + "---|" * len(BOUNDS))
    for kind in arguments.kinds:
        print(
            f"| {kind} | "
            + " | ".join(
                f"{best[kind, cost][0][0]:.2f}" if best.get((kind, cost)) else "" for cost in BOUNDS
            )
            + " |"
        )
    failed = len(lost) + costly
    if arguments.save:
        with open(arguments.save, "w") as out:
            for (kind, cost), found in finds.items():
                for value, request in found:
                    out.write(
                        json.dumps({"kind": kind, "cost": cost, "value": value, "request": request})
                        + "\n"
                    )
            for (kind, cost), rank in best.items():
                for share, source in rank[:3]:
                    out.write(
                        json.dumps(
                            {
                                "kind": kind,
                                "cost": cost,
                                "value": share * bounds[cost],
                                "request": request_of(kind, source, arguments.seed),
                            }
                        )
                        + "\n"
                    )
            for request in lost:
                out.write(json.dumps({"kind": "no answer", "request": request}) + "\n")
    print(f"\n{tried - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
