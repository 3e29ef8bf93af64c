#!/usr/bin/env python3
"""The Python package beside its peers, in one process: masks through Python beside xgrammar and llguidance, a parser
through Python beside vLLM's and SGLang's, what importing costs, how large the wheel is.

    PYTHONPATH=<the wheel, unpacked> PYTHON bench/python_figures.py [--wheel dist/tenon-*.whl]

PYTHON has NumPy, tokenizers and the peers that are to be measured; xgrammar, vllm and sglang bring PyTorch, so they are in no
requirements file. What cannot be imported is left out and named. Needs the vocabulary that lies beside the project.

A mask is the one call that fills a bit for each token: a text is followed token by token, with a mask before each, all
engines in turns: the median of five first texts, each under a grammar that was compiled for it, then the best of the rounds.
A parser is fed the text of one call with an argument of 10 KB in pieces of four characters. CPU time of one thread.
"""

import argparse
import gc
import json
import logging
import os
import pathlib
import subprocess
import sys
import time

import numpy
import tenon
import tokenizers
from data import DATA, VOCABULARIES

VOCABULARY = DATA / "vocab" / VOCABULARIES[0] / "tokenizer.json"
END = "<|eot_id|>"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "tags", "address", "score"],
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "score": {"type": "number"},
        "kind": {"enum": ["person", "place", "thing"]},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
            "required": ["street", "number"],
        },
    },
}
TEXT = json.dumps(
    {
        "name": "Ada Lovelace",
        "tags": ["mathematics", "engines", "poetry of a kind"],
        "score": 12.5,
        "kind": "person",
        "address": {"street": "St James's Square", "number": 12},
    }
)
TOOL = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Writes.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
        },
    },
}
CALL = (
    "<tool_call>\n"
    + json.dumps({"name": "write", "arguments": {"path": "a.txt", "text": "lorem ipsum, " * 788}})
    + "\n</tool_call>"
)


class Tenon:
    def __init__(self, tokenizer):
        self.loaded, self.end = tenon.Vocab.load(VOCABULARY), tokenizer.token_to_id(END)
        self.mask = numpy.zeros(self.loaded.mask_words, numpy.int32)

    def compile(self):  # nothing is known from before, of the vocabulary either
        self.grammar = tenon.Grammar(self.loaded.with_ends([self.end]), {"schema": SCHEMA})

    def start(self):
        self.matcher = tenon.Matcher(self.grammar)

    def fill(self):
        self.matcher.fill_mask(self.mask)

    def accept(self, token):
        return self.matcher.accept(token)


class LLGuidance:
    def __init__(self, tokenizer):
        import llguidance
        import llguidance.numpy

        self.module = llguidance
        self.tokenizer = llguidance.LLTokenizer(
            str(VOCABULARY), eos_token=tokenizer.token_to_id(END)
        )
        self.mask = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self):
        self.compiled = self.module.LLMatcher(
            self.tokenizer, json.dumps({"grammars": [{"json_schema": SCHEMA}]}), log_level=0
        )

    def start(self):
        self.matcher = self.compiled.deep_copy()

    def fill(self):
        self.module.numpy.fill_next_token_bitmask(self.matcher, self.mask)

    def accept(self, token):
        return self.matcher.consume_token(token)


class XGrammar:
    def __init__(self, tokenizer):
        import xgrammar

        self.module = xgrammar
        vocabulary = tokenizer.get_vocab()
        texts = [text for text, _ in sorted(vocabulary.items(), key=lambda pair: pair[1])]
        self.info = xgrammar.TokenizerInfo(
            texts,
            vocab_type=xgrammar.VocabType.BYTE_LEVEL,
            vocab_size=len(texts),
            stop_token_ids=[tokenizer.token_to_id(END)],
        )
        self.mask = xgrammar.allocate_token_bitmask(1, len(texts))

    def compile(self):
        self.grammar = self.module.GrammarCompiler(self.info, max_threads=1).compile_json_schema(
            json.dumps(SCHEMA), any_whitespace=True, strict_mode=False
        )

    def start(self):
        self.matcher = self.module.GrammarMatcher(self.grammar)

    def fill(self):
        self.matcher.fill_next_token_bitmask(self.mask)

    def accept(self, token):
        return self.matcher.accept_token(token)


def made(kinds, *arguments):
    engines = {}
    for kind in kinds:
        try:
            engines[kind.__name__] = kind(*arguments)
        except ImportError as error:
            print(f"{kind.__name__} is left out: {error}", file=sys.stderr)
    return engines


def follow(engine, tokens):
    """Nanoseconds of the masks before each token."""
    engine.start()
    took = []
    for token in tokens:
        begun = time.thread_time_ns()
        engine.fill()
        took.append(time.thread_time_ns() - begun)
        if not engine.accept(token):
            raise AssertionError(f"{type(engine).__name__} refuses token {token}")
    return took


def masks(rounds):
    tokenizer = tokenizers.Tokenizer.from_file(str(VOCABULARY))
    tokens = tokenizer.encode(TEXT, add_special_tokens=False).ids
    engines = made((Tenon, LLGuidance, XGrammar), tokenizer)
    compiled, first, later = ({name: [] for name in engines} for _ in range(3))
    for _ in range(5):
        for name, engine in engines.items():
            begun = time.thread_time_ns()
            engine.compile()
            compiled[name].append(time.thread_time_ns() - begun)
            first[name].append(numpy.mean(follow(engine, tokens)))
    for _ in range(rounds):
        for name, engine in engines.items():
            later[name].append(follow(engine, tokens))
    print(
        f"\n| masks of {tokenizer.get_vocab_size():,} tokens, {len(tokens)} tokens, us each | compiling, ms | mean of a first text | mean, warm | worst, warm |"
    )
    print("|---|---|---|---|---|")
    for name in engines:
        best = numpy.min(later[name], axis=0) / 1e3
        print(
            f"| {name} | {numpy.median(compiled[name]) / 1e6:.1f} | {numpy.median(first[name]) / 1e3:.2f} | {best.mean():.2f} | {best.max():.2f} |"
        )


class TenonParser:
    def __init__(self):
        self.parser = tenon.StreamParser(tenon.Format("hermes"), None, {"tools": [TOOL]})

    def run(self, pieces):
        text, feed, arguments = "", self.parser.feed, tenon.CallArguments
        for piece in pieces:
            for event in feed(piece):
                if isinstance(event, arguments):
                    text += event.text
        self.parser.finish()
        self.parser.reset()
        return text


class VLLM:
    """Hermes2ProToolParser, as vLLM's server calls it: with all text so far."""

    def __init__(self):
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.tool_parsers import ToolParserManager

        logging.disable(logging.CRITICAL)
        self.kind = ToolParserManager.get_tool_parser("hermes")
        self.request = ChatCompletionRequest(model="m", messages=[], tools=[TOOL])

    def run(self, pieces):
        parser = (
            self.kind(_Tokenizer(), [tool for tool in self.request.tools])
            if _takes_tools(self.kind)
            else self.kind(_Tokenizer())
        )
        text, so_far = "", ""
        for piece in pieces:
            before, so_far = so_far, so_far + piece
            delta = parser.extract_tool_calls_streaming(
                before, so_far, piece, [0], [0], [0], self.request
            )
            for call in delta.tool_calls if delta and delta.tool_calls else ():
                text += call.function.arguments or "" if call.function else ""
        return text


def _takes_tools(kind):
    import inspect

    return "tools" in inspect.signature(kind.__init__).parameters


class _Tokenizer:
    """Every marker is a token."""

    all_special_tokens = all_special_ids = []

    def get_vocab(self):
        return {"<tool_call>": 1, "</tool_call>": 2}

    def encode(self, text, **_):
        return [self.get_vocab().get(text, 3)]

    def decode(self, ids, **_):
        return {1: "<tool_call>", 2: "</tool_call>"}.get(ids[0], "")

    def convert_tokens_to_ids(self, token):
        return self.get_vocab().get(token)


class SGLang:
    def __init__(self):
        from sglang.srt.entrypoints.openai.protocol import Function, Tool
        from sglang.srt.function_call.function_call_parser import FunctionCallParser

        self.kind, self.tools = (
            FunctionCallParser,
            [Tool(type="function", function=Function(**TOOL["function"]))],
        )

    def run(self, pieces):
        parser = self.kind(self.tools, "qwen25")
        text = ""
        for piece in pieces:
            _, calls = parser.parse_stream_chunk(piece)
            text += "".join(call.parameters or "" for call in calls)
        return text


def parsers(rounds):
    pieces = [CALL[at : at + 4] for at in range(0, len(CALL), 4)]
    took = {}
    engines = made((TenonParser, VLLM, SGLang))
    for name, engine in engines.items():
        if json.loads(engine.run(pieces)) != json.loads(CALL[12:-13])["arguments"]:
            print(f"{name} does not give the arguments", file=sys.stderr)
    for _ in range(rounds):
        for name, engine in engines.items():
            gc.collect()
            for _ in range(1 if name == "SGLang" else 5):
                begun = time.thread_time_ns()
                engine.run(pieces)
                took.setdefault(name, []).append(time.thread_time_ns() - begun)
    print(
        f"\n| a call with an argument of 10 KB, {len(pieces):,} pieces | ms | times Tenon's |\n|---|---|---|"
    )
    for name in engines:
        print(
            f"| {name} | {min(took[name]) / 1e6:.2f} | {min(took[name]) / min(took['TenonParser']):.0f} |"
        )


def imports():
    def best(program):
        return min(
            float(
                subprocess.run(
                    [sys.executable, "-c", program], capture_output=True, text=True, check=True
                ).stdout
            )
            for _ in range(7)
        )

    timed = (
        "import time; begun = time.perf_counter(); {}; print((time.perf_counter() - begun) * 1e3)"
    )
    print(
        f"\nimport tenon: {best(timed.format('import tenon')):.1f} ms; with the extension module: "
        f"{best(timed.format('import tenon, tenon._tenon')):.1f} ms"
    )


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--wheel", type=pathlib.Path)
    options.add_argument("--rounds", type=int, default=10)
    options = options.parse_args()
    if VOCABULARY.exists():
        masks(options.rounds)
    else:
        print(f"{VOCABULARY} is not here: masks are left out", file=sys.stderr)
    parsers(min(options.rounds, 3))
    imports()
    if options.wheel:
        print(f"wheel: {options.wheel.stat().st_size / 1e6:.1f} MB")


main()
