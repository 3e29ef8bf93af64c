#!/usr/bin/env python3
"""Where SGLang's and vLLM's parsers read something else than ours: texts of our grammars, and slips.

    python bench/format_differences.py sglang SITE [--tenon build/release/bin/tenon] [--all]
    python bench/format_differences.py vllm SITE [--only hermes glm45] [--reasoning]

SITE is a folder in which their wheel is unpacked (`pip download --no-deps vllm`, `unzip`). Parsers
that are proposed to vLLM and are in no wheel (VLLM_PROPOSED) are compared where their file lies in
SITE/vllm/tool_parsers; the others of them are named at the end. Only their parsers are imported; what those import beside (torch, transformers, the server) is a stub. Python
needs pydantic, orjson, regex and partial_json_parser, for vLLM also openai, ijson and mistral_common.
Each format writes some calls (`tenon render`), each text is changed in the ways of CHANGES, and both
sides read it: vLLM's parsers the whole text, and once more token by token. One entry for each kind of
difference of a format, with the first text and what each side made of it; `--all`: an entry for each
text. `--reasoning` puts reasoning before the calls, in the markers of the format's definition, and
compares it, too. Nothing is judged here: docs/formats-evidence.md has the verdicts.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import pathlib
import re
import subprocess
import sys
import types

import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SGLANG = {  # SGLang's name: ours
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
VLLM = {  # vLLM's tool parser: its reasoning parser or None, ours
    "apertus": (None, "apertus"),
    "beam": ("beam", "beam"),
    "cohere_command4": ("cohere_command4", "cohere_r7b"),
    "deepseek_v3": ("deepseek_r1", "deepseek_v3"),
    "deepseek_v31": ("deepseek_v3", "deepseek_v31"),
    "deepseek_v32": ("deepseek_v3", "deepseek_v32"),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4"),
    "deepseek_v41": ("deepseek_v41", "deepseek_v41"),
    "dots": (None, "dots"),
    "ernie45": ("ernie45", "ernie45"),
    "functiongemma": (None, "functiongemma"),
    "gemma4": ("gemma4", "gemma4"),
    "gigachat3": (None, "gigachat3"),
    "glm45": ("glm45", "glm45"),
    "granite": ("granite", "granite3"),
    "granite-20b-fc": (None, "granite_20b_fc"),
    "hermes": ("qwen3", "hermes"),
    "hunyuan_a13b": ("hunyuan_a13b", "jamba"),
    "hy_v3": ("hy_v3", "hunyuan_v3"),
    "hy_v4": ("hy_v4", "hy_v4"),
    "inkling": ("inkling", "inkling"),
    "internlm": (None, "internlm2"),
    "jamba": (None, "jamba"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "lfm2": (None, "lfm2"),
    "llama3_json": (None, "llama3_json"),
    "llama4_json": (None, "llama4_json"),
    "llama4_pythonic": (None, "llama4_pythonic"),
    "longcat": (None, "longcat"),
    "mimo": ("mimo", "mimo"),
    "minicpm5": (None, "minicpm5"),
    "minimax_m2": ("minimax_m2", "minimax_m2"),
    "minimax_m3": ("minimax_m3", "minimax_m3"),
    "mistral": ("mistral", "mistral_v11"),
    "muse_glimmer": ("muse_glimmer", "muse_glimmer"),
    "olmo3": ("olmo3", "olmo3"),
    "phi4_mini_json": (None, "phi4_mini"),
    "plamo3": ("plamo3", "plamo3"),
    "poolside_v1": (None, "glm45"),
    "qwen3_coder": ("qwen3", "qwen3_coder"),
    "seed_oss": ("seed_oss", "seed_oss"),
    "step3": ("step3", "step3"),
    "step3p5": ("step3p5", "qwen3_coder"),
    "step5": ("step5", "qwen3_coder"),
    "xlam": (None, "xlam"),
}

VLLM_PROPOSED = {  # a parser's module that vLLM's releases do not have: ours
    "hyperclovax_seed_think_14b": "hyperclovax",
    "iquest_coder_v2": "iquest_coder_v2",
    "openpangu_v2": "pangu",
    "pangu": "pangu",
    "rwkv": "rwkv",
    "solar_open2": "solar_open2",
    "step_audio_2": "step_audio2",
}

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
WITHOUT_REASONING = {  # changes that say nothing new behind reasoning
    "other quotes",
    "Python's words",
    "a number with zeros",
    "a comma too many",
    "a brace too many",
    "no line breaks",
    "line breaks between tags",
}


class Stub(types.ModuleType):
    """A module in which every name is a class whose objects hold what they are given."""

    __path__ = []
    bodies = {}  # members of classes of this name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        body = {
            "__init__": lambda self, *values, **named: self.__dict__.update(named),
            "__init_subclass__": classmethod(lambda cls, **named: None),
            "__getattr__": lambda self, member: Switch(),
            "__call__": lambda self, *values: values[0] if values else self,
            **self.bodies,
        }
        setattr(self, name, type(name, (), body))
        return getattr(self, name)


class Switch:
    def get(self):
        return False

    def __call__(self, *values, **named):
        return self


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots, real, modules):
        self.roots, self.real, self.modules = roots, real, modules

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in self.roots or name.startswith(self.real):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return self.modules.get(spec.name, Stub)(spec.name)

    def exec_module(self, module):
        pass


def as_object(value):
    return json.loads(
        json.dumps(value), object_hook=lambda members: types.SimpleNamespace(**members)
    )


class SgLang:
    names = {peer: (ours, False) for peer, ours in SGLANG.items()}
    absent = ()

    def __init__(self, site):
        class Environ(Stub):
            envs = type("Envs", (), {"__getattr__": lambda self, name: Switch()})()

        roots = ("sglang", "transformers", "torch", "xgrammar", "msgspec")
        real = "sglang.srt.function_call"
        sys.meta_path.insert(0, Stubs(roots, real, {"sglang.srt.environ": Environ}))
        importlib.import_module("sglang.srt").__path__ = [str(site / "sglang" / "srt")]
        module = importlib.import_module("sglang.srt.function_call.function_call_parser")
        self.detectors = module.FunctionCallParser.ToolCallParserEnum

    def tools(self):
        tools = as_object(TOOLS)
        for tool, source in zip(tools, TOOLS):
            tool.function.parameters = source["function"]["parameters"]
            tool.function.strict = False
        return tools

    def read(self, peer, text, reasoning):
        try:
            result = self.detectors[peer]().detect_and_parse(text, self.tools())
            calls = [(call.name, json.loads(call.parameters or "{}")) for call in result.calls]
            return calls, (result.normal_text or "").strip(), ""
        except Exception as error:  # whatever theirs raises is what it made of the text
            return [("raises", type(error).__name__)], "", ""

    read_stream = None


class Record:
    """vLLM's messages: what is not given is None, and objects may be given as dictionaries."""

    def __init__(self, *values, **named):
        if type(self).__name__ == "DeltaMessage":
            self.tool_calls = []
        self.__dict__.update(named)
        if isinstance(named.get("function"), dict):
            self.function = Record(**named["function"])

    def __init_subclass__(cls, **named):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

    def model_dump(self, **named):
        return {name: value for name, value in self.__dict__.items() if value is not None}


class Vocabulary(dict):
    """Every marker that a parser asks for is a token."""

    def get(self, text, otherwise=None):
        if text not in self and re.fullmatch(r"(?s)[<\[|].+|\n", text or ""):
            self[text] = 1000 + len(self)
        return super().get(text, otherwise)


class Tokenizer:
    all_special_tokens = []
    all_special_ids = []
    init_kwargs = {}

    def __init__(self, special):
        self.vocabulary = Vocabulary({text: 1000 + i for i, text in enumerate(special)})

    def get_vocab(self):
        return self.vocabulary

    vocab = property(get_vocab)

    def pieces(self, text):
        markers = sorted(self.vocabulary, key=len, reverse=True)
        return re.findall("(?s)" + "|".join([*map(re.escape, markers), r"\w+", "."]), text)

    def encode(self, text, **named):
        return [
            self.vocabulary.setdefault(p, 1000 + len(self.vocabulary)) for p in self.pieces(text)
        ]

    def convert_tokens_to_ids(self, text):
        return self.vocabulary.get(text)

    def decode(self, ids, **named):
        texts = {number: text for text, number in self.vocabulary.items()}
        return "".join(texts[number] for number in ([ids] if isinstance(ids, int) else ids))


class VLlm:
    def __init__(self, site):
        proposed = self.proposed(site)
        known = VLLM | {peer: (None, VLLM_PROPOSED[peer]) for peer in proposed}
        self.names = {peer: (ours, bool(reasoning)) for peer, (reasoning, ours) in known.items()}
        self.absent = VLLM_PROPOSED.keys() - known.keys()

        class Environment(Stub):
            def __getattr__(self, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                return 1

        class Records(Stub):
            def __getattr__(self, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                setattr(self, name, type(name, (Record,), {}))
                return getattr(self, name)

        class No(Stub):
            bodies = {"__bool__": lambda self: False}

        class Ids(Stub):
            make_tool_call_id = staticmethod(lambda **named: "call")
            get_tool_call_id_type = staticmethod(lambda config: "random")

        entry = "vllm.entrypoints"
        modules = {
            "vllm.envs": Environment,
            "vllm.utils.mistral": No,
            "vllm.renderers.chat_utils": Ids,
            f"{entry}.generate.base.protocol": Records,
            f"{entry}.chat_utils": Ids,  # as older parsers name them
            f"{entry}.openai.engine.protocol": Records,
            f"{entry}.openai.chat_completion.protocol": Records,
            f"{entry}.openai.responses.protocol": Records,
        }
        roots = ("vllm", "transformers", "torch", "xgrammar", "openai_harmony")
        real = ("vllm.tool_parsers", "vllm.parser", "vllm.reasoning", "vllm.exceptions")
        sys.meta_path.insert(0, Stubs(roots, real, modules))
        sys.modules["vllm.parser.metrics"] = Stub("vllm.parser.metrics")
        registry = "vllm.tool_parsers.structural_tag_registry"
        sys.modules[registry] = Stub(registry)
        package = importlib.import_module("vllm")
        package.__path__ = [str(site / "vllm")]
        package.envs = importlib.import_module("vllm.envs")
        manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
        tool_parsers = importlib.import_module("vllm.tool_parsers").ToolParserManager
        for peer, kind in proposed.items():
            tool_parsers.register_lazy_module(peer, f"vllm.tool_parsers.{peer}_tool_parser", kind)
        records = importlib.import_module(f"{entry}.openai.chat_completion.protocol")
        tools = []
        for tool in TOOLS:
            function = Record(**tool["function"])
            tools.append(records.ChatCompletionToolsParam(type="function", function=function))
        self.request = lambda: records.ChatCompletionRequest(
            tools=tools, tool_choice="auto", include_reasoning=True, messages=[]
        )
        self.tools = tools
        self.known, self.manager, self.parsers = known, manager, {}

    @staticmethod
    def proposed(site):
        """The class of each parser of VLLM_PROPOSED that SITE has, by the parser's name."""
        found = {}
        for peer in VLLM_PROPOSED:
            file = site / "vllm" / "tool_parsers" / f"{peer}_tool_parser.py"
            if file.exists():
                found[peer] = re.search(r"class (\w+)\(\w*ToolParser\)", file.read_text())[1]
        return found

    def parser(self, peer, reasoning):
        thinking, ours = self.known[peer]
        if (peer, reasoning) not in self.parsers:
            kind = self.manager.get_parser(peer, thinking if reasoning else None, True)
            self.parsers[peer, reasoning] = kind
        kind = self.parsers[peer, reasoning]
        tokenizer = Tokenizer(definition(ours).get("special", []))
        return kind(tokenizer, self.tools), tokenizer

    @staticmethod
    def message(calls, content, reasoning):
        return (
            [(name, json.loads(arguments or "{}")) for name, arguments in calls],
            (content or "").strip(),
            (reasoning or "").strip(),
        )

    def read(self, peer, text, reasoning):
        try:
            parser, tokenizer = self.parser(peer, reasoning)
            thought, content, calls = parser.parse(
                text, self.request(), True, tokenizer.encode(text)
            )
            calls = [(call.name, call.arguments) for call in calls or []]
            return self.message(calls, content, thought)
        except Exception as error:
            return [("raises", f"{type(error).__name__}: {error}")], "", ""

    def read_stream(self, peer, text, reasoning):
        try:
            parser, tokenizer = self.parser(peer, reasoning)
            calls, texts, request = {}, {"content": "", "reasoning": ""}, self.request()
            pieces = tokenizer.pieces(text)
            for i, piece in enumerate(pieces):
                delta = parser.parse_delta(
                    piece,
                    tokenizer.encode(piece),
                    request,
                    [],
                    finished=i + 1 == len(pieces),
                )
                for part in texts if delta else ():
                    texts[part] += getattr(delta, part) or ""
                for call in delta.tool_calls or [] if delta else ():
                    whole = calls.setdefault(call.index, ["", ""])
                    whole[0] += call.function.name or ""
                    whole[1] += call.function.arguments or ""
            return self.message(calls.values(), **texts)
        except Exception as error:
            return [("raises", f"{type(error).__name__}: {error}")], "", ""


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
    return (
        calls,
        (message.get("content") or "").strip(),
        (message.get("reasoning_content") or "").strip(),
    )


def definition(name):
    return tomllib.loads((ROOT / "formats" / f"{name}.toml").read_text())


def thoughts(ours):
    """Beginnings of answers that think."""
    found = definition(ours)
    marks = found.get("reasoning")
    if not marks:
        return {}
    opened, closed = marks["open"][0], marks["close"][0]
    between = found.get("content", {}).get("between", "")
    return {
        "thought": f"{opened}I look it up.{closed}{between}",
        "thought with lines": f"{opened}\nI look\n\nit up.\n{closed}\n{between}",
        "empty thought": f"{opened}{closed}{between}",
        "thought without its end": f"{opened}I look it up.\n",
        "thought with words that are not its end": f"{opened}I < look > it </up>.{closed}{between}",
        "thought and words": f"{opened}I look it up.{closed}{between}Let me see.",
    }


def texts(tenon, names, reasoning):
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
        for peer, (ours, thinks) in names.items()
        if thinks or not reasoning
        for name, calls in CALLS.items()
    ]
    for request, answer in zip(requests, batch(tenon, "render", requests)):
        if "output" not in answer:
            continue
        peer, name = request["id"]
        seen = set()
        for start, begun in (thoughts(names[peer][0]) if reasoning else {"": ""}).items():
            for change, apply in CHANGES.items():
                text = begun + apply(answer["output"])
                if text not in seen and not (reasoning and change in WITHOUT_REASONING):
                    seen.add(text)
                    yield peer, name, f"{start}, {change}" if start else change, text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("peer", choices=["sglang", "vllm"])
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    parser.add_argument("--only", nargs="*", help="the peer's names of some of its parsers")
    parser.add_argument("--reasoning", action="store_true")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    theirs = {"sglang": SgLang, "vllm": VLlm}[arguments.peer](arguments.site)
    names = {
        peer: name
        for peer, name in theirs.names.items()
        if not arguments.only or peer in arguments.only
    }
    compared = 3 if arguments.reasoning else 1
    rows = list(texts(arguments.tenon, names, arguments.reasoning))
    answers = batch(
        arguments.tenon,
        "parse",
        [{"format": names[peer][0], "tools": TOOLS, "text": text} for peer, _, _, text in rows],
    )
    kinds = {}
    same = streamed_otherwise = 0
    for (peer, name, change, text), answer in zip(rows, answers):
        ours = read_ours(answer)
        read = [theirs.read(peer, text, arguments.reasoning)]
        if theirs.read_stream:
            read.append(theirs.read_stream(peer, text, arguments.reasoning))
        streamed_otherwise += read[0][:1] != read[-1][:1]
        if all(ours[:compared] == one[:compared] for one in read):
            same += 1
            continue
        how = ", its stream alone" if ours[:compared] == read[0][:compared] else ""
        kinds.setdefault((peer, change + how), []).append((name, text, ours, read))
    for (peer, change), found in kinds.items():
        for name, text, ours, read in found if arguments.all else found[:1]:
            print(f"{peer}, {change} ({len(found)}), {name}: {text!r}\n    ours   {ours}")
            print(f"    theirs {read[0]}")
            if read[0] != read[-1]:
                print(f"    stream {read[-1]}")
    print(f"{same} of {len(rows)} texts are read as the same; {len(kinds)} kinds of differences")
    if theirs.absent:
        print(f"not in SITE, so not compared: {', '.join(sorted(theirs.absent))}")
    if theirs.read_stream:
        print(f"{streamed_otherwise} texts give their stream other calls than their whole text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
