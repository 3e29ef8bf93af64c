#!/usr/bin/env python3
"""Where SGLang's tool parsers read something else than ours: texts of our grammars, and slips.

    python bench/format_differences.py SITE [--tenon build/release/bin/tenon] [--all]

SITE is a folder in which SGLang's wheel is unpacked (`pip download --no-deps sglang`, `unzip`). Only
its `srt/function_call` is imported; what that imports beside (torch, transformers, SGLang's server)
is a stub. Python needs pydantic, orjson, regex and partial_json_parser. Each format writes some
calls (`tenon render`), each text is changed in the ways of CHANGES, and both sides read it. One
entry for each kind of difference of a format, with the first text and what each side made of it;
`--all`: an entry for each text. Nothing is judged here: docs/formats-evidence.md has the verdicts.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import pathlib
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = {  # SGLang's name: ours
    "apertus2509": "apertus",
    "beam": "beam",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek_v32",
    "deepseekv4": "deepseek_v4",
    "deepseekv41": "deepseek_v41",
    "dots": "dots",
    "gemma4": "gemma4",
    "gigachat3": "gigachat3",
    "gigachat35": "gigachat35",
    "glm45": "glm45",
    "gpt-oss": "harmony",
    "hermes": "hermes",
    "inkling": "inkling",
    "interns1": "internlm2",
    "iquest_q1": "iquest_q1",
    "k2_horizon": "k2_horizon",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "lfm2": "lfm2",
    "llama3": "llama3_json",
    "mimo": "mimo",
    "minicpm5": "minicpm5",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3",
    "mistral": "mistral_v11",
    "muse": "muse_glimmer",
    "pythonic": "llama4_pythonic",
    "qwen3_coder": "qwen3_coder",
    "step3": "step3",
}
STUBS = ("sglang", "transformers", "torch", "xgrammar", "msgspec")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book_seat",
            "description": "Books a seat.",
            "parameters": {
                "type": "object",
                "properties": {
                    "train": {"type": "string"},
                    "coach": {"type": "integer"},
                    "quiet": {"type": "boolean"},
                    "with": {"type": "object", "properties": {"bike": {"type": "boolean"}}},
                    "names": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["train"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "read_clock",
            "description": "Reads a clock.",
            "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        },
    },
]
CALLS = {
    "one": [("book_seat", {"train": "IC 512", "coach": 7})],
    "none": [("read_clock", {})],
    "two": [("book_seat", {"train": "RE 3"}), ("read_clock", {"zone": "Lima"})],
    "nested": [("book_seat", {"train": "S 1", "with": {"bike": True}, "names": ["Ada", "Bo"]})],
    "letters": [("read_clock", {"zone": 'Zürich, "東京" & <b>'})],
    "digits": [("book_seat", {"train": "007", "coach": -3, "quiet": False})],
    "lines": [("read_clock", {"zone": "a\n b\n"})],
    "empty": [("read_clock", {"zone": ""})],
}


def first_of(text, old, new):
    at = text.find(old)
    return text if at < 0 else text[:at] + new + text[at + len(old) :]


CHANGES = {
    "as it is": lambda text: text,
    "words before": lambda text: "Let me look.\n" + text,
    "words behind": lambda text: text + "\nDone.",
    "lines around": lambda text: "\n\n" + text + "\n\n",
    "cut in the middle": lambda text: text[: len(text) // 2],
    "without its last byte": lambda text: text[:-1],
    "twice": lambda text: text + text,
    "an unknown tool": lambda text: text.replace("book_seat", "book_boat").replace(
        "read_clock", "read_cloud"
    ),
    "no line breaks": lambda text: text.replace("\n", ""),
    "line breaks between tags": lambda text: text.replace("><", ">\n<"),
    "a number with zeros": lambda text: first_of(first_of(text, "-3", "-03"), "7", "07"),
    "other quotes": lambda text: text.replace('"', "'"),
    "Python's words": lambda text: text.replace("true", "True").replace("false", "False"),
    "a comma too many": lambda text: first_of(text, "}", ",}"),
    "a brace too many": lambda text: first_of(text, "}", "}}"),
    "a bracket missing": lambda text: first_of(text, "}", ""),
}


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        body = {
            "__init__": lambda self, *values, **named: self.__dict__.update(named),
            "__init_subclass__": classmethod(lambda cls, **named: None),
            "__getattr__": lambda self, member: Switch(),
        }
        return type(name, (), body)


class Switch:
    def get(self):
        return False

    def __call__(self, *values, **named):
        return self


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in STUBS or name.startswith("sglang.srt.function_call"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Stub(spec.name)
        if spec.name == "sglang.srt.environ":
            module.envs = type("Envs", (), {"__getattr__": lambda self, name: Switch()})()
        return module

    def exec_module(self, module):
        pass


def peers(site):
    logging.disable(logging.CRITICAL)
    sys.meta_path.insert(0, Stubs())
    importlib.import_module("sglang.srt").__path__ = [str(site / "sglang" / "srt")]
    module = importlib.import_module("sglang.srt.function_call.function_call_parser")
    return module.FunctionCallParser.ToolCallParserEnum


def as_object(value):
    return json.loads(
        json.dumps(value), object_hook=lambda members: types.SimpleNamespace(**members)
    )


def peer_tools():
    tools = as_object(TOOLS)
    for tool, source in zip(tools, TOOLS):
        tool.function.parameters = source["function"]["parameters"]
        tool.function.strict = False
    return tools


def read_theirs(detector, text):
    try:
        result = detector().detect_and_parse(text, peer_tools())
        calls = [(call.name, json.loads(call.parameters or "{}")) for call in result.calls]
        return calls, (result.normal_text or "").strip()
    except Exception as error:  # whatever theirs raises is what it made of the text
        return [("raises", type(error).__name__)], ""


def batch(tenon, command, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(
        [tenon, command, "--batch"], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_ours(answer):
    message = answer["message"]
    calls = []
    for call in message.get("tool_calls") or []:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = call["function"]["arguments"]
        calls.append((call["function"]["name"], arguments))
    return calls, (message.get("content") or "").strip()


def texts(tenon):
    requests = [
        {
            "id": [peer, name],
            "format": ours,
            "tools": TOOLS,
            "tool_calls": [
                {
                    "id": f"call0000{i}",
                    "type": "function",
                    "function": {
                        "name": tool,
                        "arguments": json.dumps(arguments, ensure_ascii=False),
                    },
                }
                for i, (tool, arguments) in enumerate(calls)
            ],
        }
        for peer, ours in NAMES.items()
        for name, calls in CALLS.items()
    ]
    for request, answer in zip(requests, batch(tenon, "render", requests)):
        if "output" not in answer:
            continue
        seen = set()
        for change, apply in CHANGES.items():
            text = apply(answer["output"])
            if text not in seen:
                seen.add(text)
                yield (*request["id"], change, text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    detectors = peers(arguments.site)
    rows = [row for row in texts(arguments.tenon) if row[0] in detectors]
    answers = batch(
        arguments.tenon,
        "parse",
        [{"format": NAMES[peer], "tools": TOOLS, "text": text} for peer, _, _, text in rows],
    )
    kinds = {}
    same = 0
    for (peer, name, change, text), answer in zip(rows, answers):
        ours, theirs = read_ours(answer), read_theirs(detectors[peer], text)
        if ours[0] == theirs[0]:
            same += 1
            continue
        kinds.setdefault((peer, change), []).append((name, text, ours, theirs))
    for (peer, change), found in kinds.items():
        for name, text, ours, theirs in found if arguments.all else found[:1]:
            print(
                f"{peer}, {change} ({len(found)}), {name}: {text!r}\n"
                f"    ours   {ours}\n    theirs {theirs}"
            )
    print(
        f"{same} of {len(rows)} texts are read as the same calls; {len(kinds)} kinds of differences"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
