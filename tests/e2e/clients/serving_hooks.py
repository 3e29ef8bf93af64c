"""Answers, and what Tenon makes of them, for the checks of tenon.vllm and tenon.sglang."""
import json
import os
import pathlib
import random

import transformers

import tenon

ROOT = pathlib.Path(__file__).resolve().parents[3]
SETS = [folder / "formats" / "public.jsonl" for folder in (ROOT / "tests" / "samples", pathlib.Path(os.environ.get("TENON_DATA", ROOT.parent / "shared" / "data")))]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}, "required": ["city"],
    "additionalProperties": False}}}
MAIL = {"type": "function", "function": {"name": "send-mail", "parameters": {
    "type": "object", "properties": {"to": {"type": "array", "items": {"type": "string"}}}, "required": ["to"]}}}
# name: (format, text)
ANSWERS = {
    "text": ("hermes", "It is <b>cloudy</b> in Oslo, 1 < 2."),
    "call": ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'),
    "text_and_two_calls": ("hermes", 'I look. <tool_call>\n{"name": "get_weather", "arguments": {"city": "O\\u00f8 \\"x\\" ☂"}}\n</tool_call>\n'
                           '<tool_call>\n{"name": "send-mail", "arguments": {"to": ["a", "b"]}}\n</tool_call>'),
    "unknown_tool": ("hermes", '<tool_call>\n{"name": "delete_all", "arguments": {}}\n</tool_call> done'),
    "begun_marker": ("hermes", "This ends with <tool_c"),
    "cut_in_a_name": ("hermes", '<tool_call>\n{"name": "get_wea'),
    "cut_in_arguments": ("hermes", 'So: <tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'),
    "text_behind": ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\nThat is all.'),
    "reasoning_is_text": ("hermes", "<think>So.</think>Yes."),
    "other_form": ("hermes", '{"name": "get_weather", "arguments": {"city": "Oslo"}}'),
    "xml": ("qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo <1>\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
            "</function>\n</tool_call>"),
    "python": ("llama4_pythonic", "[get_weather(city='Oslo', days=2), get_weather(city='Rome')]"),
    "bare": ("llama3_json", '{"name": "get_weather", "parameters": {"city": "Oslo"}}'),
    "ids": ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
            '{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>'),
}


def tokenizer():
    """The small model's, as `transformers` has it."""
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "training" / "state" / "tokenizer.json"), eos_token="<|im_end|>")


def cases():
    """(name, format, tools, text): the table, and the cases of each set of test data, of formats that there are."""
    yield from ((name, format, [WEATHER, MAIL], text) for name, (format, text) in ANSWERS.items())
    names = set(tenon.Format.names())
    for file in SETS:
        if not file.exists():
            print(f"{file} is not here: our own cases alone")
            continue
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["format"] in names and row["set"] == "generated":
                yield row["id"], row["format"], row["tools"], row["text"]


def expected(format, tools, text):
    """(content, [(name, arguments)])."""
    message = tenon.parse(text, format, tools, parse_reasoning=False)
    return message["content"] or "", [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]


def splits(name, text):
    """Ways to cut it: whole, by characters, by chance, and rows of the table in every two."""
    yield [text]
    yield [*text]
    chance = random.Random(name)
    for _ in range(3):
        cuts = sorted(chance.sample(range(len(text)), min(len(text), 6)))
        yield [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    if name in ANSWERS:
        yield from ([text[:at], text[at:]] for at in range(1, len(text)))


class Calls:
    """Adds up what a stream gives."""

    def __init__(self):
        self.content, self.calls, self.ids = "", [], []

    def add(self, index, name, arguments, id=None):
        if name:
            assert index == len(self.calls), f"call {index} begins behind {len(self.calls)} others"
            self.calls.append([name, ""])
            self.ids.append(id)
        if arguments:
            self.calls[index][1] += arguments

    @property
    def result(self):
        return self.content, [tuple(call) for call in self.calls]
