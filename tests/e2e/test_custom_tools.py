"""Custom tools take a text, which is held to a grammar: docs/constrained.md, "Custom tools"."""
import json
import re
import subprocess

import openai
import pytest
from serving import TENON
from tools import GREEDY, MULTIPLY, settled, user

NUMBER = r"(?P<number>[1-9][0-9]{0,3})"
DATE = rf'^{NUMBER} days? (?:"before"|after\n) (?P<year>19|20)\d\d$'
# Sums in parentheses and products of words: rules that contain themselves, quotes and backslashes.
SUM = r"""
start: sum
sum: item ("+" item)~1..2
item: NUMBER | "(" sum ")" | WORD
NUMBER: /[1-9][0-9]?/
WORD: "\"" /[a-z]{1,3}/ ("\\" /[a-z]{1,3}/)? "\""
%ignore " "
"""


def is_sum(text):
    """Whether SUM reads the text: by hand, since no other parser of Lark is here."""
    tokens = re.findall(r'[1-9][0-9]?|"[a-z]{1,3}(?:\\[a-z]{1,3})?"|[()+]', text)
    if "".join(tokens) != text.replace(" ", ""):
        return False

    def read_sum(at):
        at = read_item(at)
        for is_needed in (True, False):
            if at is not None and tokens[at:at + 1] == ["+"]:
                at = read_item(at + 1)
            elif is_needed:
                return None
        return at

    def read_item(at):
        if at >= len(tokens) or tokens[at] in ")+":
            return None
        if tokens[at] != "(":
            return at + 1
        end = read_sum(at + 1)
        return end + 1 if end is not None and tokens[end:end + 1] == [")"] else None

    return read_sum(0) == len(tokens)


def is_date(text):
    return re.search(DATE, text) is not None


def custom(name, syntax=None, definition=None):
    held = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}} if syntax else {"type": "text"}
    return {"type": "custom", "custom": {"name": name, "description": "Takes a text.", "format": held}}


TOOLS = {"date": (custom("date", "regex", DATE), is_date), "sum": (custom("sum", "lark", SUM), is_sum)}


def named(name):
    return {"type": "custom", "custom": {"name": name}}


def ask(name, seed, **fields):
    return {**GREEDY, "messages": user("Hello, how are you today?"), "tools": [MULTIPLY, TOOLS["date"][0], TOOLS["sum"][0]],
            "tool_choice": named(name), "parallel_tool_calls": False, "temperature": 1.5, "seed": seed, "max_tokens": 400,
            **fields}


def fold(chunks):
    """The custom calls of a stream, each as (type, name, input), and the last chunk."""
    calls, last = {}, None
    for last in chunks:
        for choice in last.choices:
            for delta in choice.delta.tool_calls or []:
                call = calls.setdefault(delta.index, {"type": "", "name": "", "input": [], "id": ""})
                call["type"] = delta.type or call["type"]
                call["id"] += delta.id or ""
                assert delta.function is None
                call["name"] += delta.custom.get("name") or ""
                call["input"].append(delta.custom["input"])
    return [calls[index] for index in sorted(calls)], last


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("seed", range(4))
def test_the_input_is_held_to_the_grammar(client, name, seed):
    # Rules that contain themselves might nest for ever.
    answer = client.chat.completions.create(**ask(name, seed), extra_body={"tenon": {"close_calls": True}})
    choice = answer.choices[0]
    call = choice.message.tool_calls[0]
    assert (call.type, call.custom.name) == ("custom", name)
    assert choice.finish_reason == "tool_calls"
    assert TOOLS[name][1](call.custom.input), call.custom.input
    assert answer.model_extra["tenon"]["guarantee"] == "masked"


@pytest.mark.parametrize("name", TOOLS)
def test_the_input_is_streamed_as_it_is_generated(client, name):
    whole = settled(lambda: client.chat.completions.create(**ask(name, 0)).choices[0])
    (call,), last = fold(client.chat.completions.create(**ask(name, 0), stream=True))
    assert call["type"] == "custom"
    assert call["id"].startswith("call_")
    assert call["name"] == name
    assert "".join(call["input"]) == whole.message.tool_calls[0].custom.input
    assert len(call["input"]) > 2
    assert last.choices[0].finish_reason == whole.finish_reason


def test_a_text_may_be_any(client):
    request = {**ask("date", 0), "tools": [custom("note")], "tool_choice": "required", "temperature": 0}
    call = client.chat.completions.create(**request).choices[0].message.tool_calls[0]
    assert call.custom.name == "note"
    assert isinstance(call.custom.input, str)


def test_allowed_tools_may_be_custom(client):
    for name in TOOLS:
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named(name)]}}
        answer = client.chat.completions.create(**ask(name, 1, tool_choice=choice))
        assert {call.custom.name for call in answer.choices[0].message.tool_calls} == {name}


def test_a_call_and_its_result_go_back_in(client):
    request = ask("sum", 0)
    called = client.chat.completions.create(**request).choices[0].message
    history = [*request["messages"], called,
               {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "12"}]
    answer = client.chat.completions.create(**{**request, "messages": history, "tool_choice": "none", "temperature": 0,
                                               "max_tokens": 50})
    assert answer.choices[0].message.tool_calls is None


@pytest.mark.parametrize(("syntax", "definition", "part"), [
    ("lark", 'start: "a"\n  | other', "line 2, column 5: 'other' is not defined"),
    ("lark", 'start: "a" start', "nothing at all fits the grammar"),
    ("lark", "start: %json {}", "%json cannot be part of a text's grammar"),
    ("regex", "(a", "pattern: "),
    ("regex", r"(a)\1", "back reference"),
], ids=["undefined", "endless", "schema", "open", "back-reference"])
def test_a_grammar_that_cannot_be_held_to_is_refused(client, syntax, definition, part):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**GREEDY, messages=user("hi"), tools=[MULTIPLY, custom("odd", syntax, definition)])
    assert refused.value.param == "tools[1].custom.format.grammar.definition"
    assert part in refused.value.message


def test_the_command_calls_custom_tools(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([custom("dial", "regex", "[0-9]{3,5}")]))
    asked = [TENON, "call", "--tools", tmp_path / "tools.json", "--tool-choice", "dial", "--max-tokens", "60", "Call a friend"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.fullmatch(r'dial\(input: "[0-9]{3,5}"\)\n', said), said
