"""Events, formats, parsers, repair, validation."""

import copy
import json
import pickle

import pytest
import tenon
from tenon import (
    CallArguments,
    CallBegin,
    CallEnd,
    ContentDelta,
    Diagnostic,
    Finish,
    ReasoningDelta,
)

CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'
)


def folded(parser, pieces):
    fold = tenon.Fold()
    for piece in pieces:
        fold.add_all(parser.feed(piece))
    fold.add_all(parser.finish())
    return fold


OUTPUTS = {
    "TextAlone": ("hermes", "Hello.", "Hello.", []),
    "Call": ("hermes", CALL, None, [("get_weather", '{"city": "Rome", "days": 2}')]),
    "TextAndCall": (
        "hermes",
        "I look. " + CALL,
        "I look. ",
        [("get_weather", '{"city": "Rome", "days": 2}')],
    ),
    "Two": (
        "hermes",
        CALL + "\n" + CALL,
        None,
        [("get_weather", '{"city": "Rome", "days": 2}')] * 2,
    ),
    "OtherFormat": (
        "llama3_json",
        '{"name": "get_weather", "parameters": {"city": "Rome"}}',
        None,
        [("get_weather", '{"city": "Rome"}')],
    ),
    "Alias": ("qwen3", CALL, None, [("get_weather", '{"city": "Rome", "days": 2}')]),
}


@pytest.mark.parametrize("row", OUTPUTS)
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_output_cut_anywhere(weather, row, size):
    format, text, content, calls = OUTPUTS[row]
    parser = tenon.StreamParser(tenon.Format(format), None, {"tools": [weather]})
    for _ in range(2):  # a parser that was reset is as a new one
        fold = folded(parser, [text[i : i + size] for i in range(0, len(text), size)])
        message = fold.message
        assert message["role"] == "assistant" and message["content"] == content
        assert [
            (call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", [])
        ] == calls
        assert not fold.incomplete
        parser.reset()
    assert tenon.parse(text, format, tools=[weather])["content"] == content


def test_events_are_values(weather):
    parser = tenon.StreamParser(
        tenon.Format("hermes"), None, {"tools": [weather], "id_prefix": "x_"}
    )
    events = parser.feed("Hi " + CALL) + parser.finish()
    match events:
        case [
            ContentDelta("Hi "),
            CallBegin(0, id, "get_weather"),
            *arguments,
            CallEnd(index=0, is_incomplete=False),
        ]:
            assert (
                id.startswith("x_")
                and "".join(event.text for event in arguments) == '{"city": "Rome", "days": 2}'
            )
        case _:
            pytest.fail(repr(events))
    assert (
        ContentDelta("a") == ContentDelta("a") != ReasoningDelta("a") and ContentDelta("a") != "a"
    )
    assert len({ContentDelta("a"), ContentDelta("a"), ContentDelta("b")}) == 2
    assert repr(CallArguments(0, "{}")) == "CallArguments(index=0, text='{}')"
    assert (
        Finish("stop", {"usage": {}}).details == {"usage": {}} and Diagnostic("a", "b").code == "a"
    )
    assert CallEnd(3) == CallEnd(index=3, is_incomplete=False) and CallEnd(3, True) != CallEnd(3)
    for wrong in (
        lambda: ContentDelta(),
        lambda: ContentDelta(5),
        lambda: ContentDelta("a", "b"),
        lambda: ContentDelta("a", text="b"),
        lambda: CallArguments("{}", 0),
        lambda: CallArguments(0, other="{}"),
        lambda: Finish("stop", []),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(AttributeError):
        events[0].text = "b"
    with pytest.raises(TypeError):
        ContentDelta("a") < ContentDelta("b")


def test_a_piece_is_a_str_or_bytes():
    parser = tenon.StreamParser("hermes")
    for piece in ("plain", "wörld", b"bytes", b"\xff\xfe"):
        text = piece if isinstance(piece, str) else piece.decode(errors="replace")
        assert "".join(event.text for event in parser.feed(piece) + parser.feed(" ")) == text + " "


def test_events_are_let_go_of():
    """Each is freed with its members."""
    import sys

    text, details = "some text of its own", {"usage": {}}
    before = sys.getrefcount(text), sys.getrefcount(details), sys.getrefcount(ContentDelta)
    kept = [ContentDelta(text) for _ in range(100)] + [Finish(text, details) for _ in range(100)]
    assert (
        sys.getrefcount(text) == before[0] + 200
        and hash(kept[0]) == hash(ContentDelta(text))
        and repr(kept[0])
    )
    del kept
    with pytest.raises(TypeError):
        Finish(text, None)
    assert (
        sys.getrefcount(text),
        sys.getrefcount(details),
        sys.getrefcount(ContentDelta),
    ) == before


@pytest.mark.parametrize(
    "event",
    [
        ContentDelta("a"),
        ReasoningDelta("b"),
        tenon.CallBegin(1, "x", "y"),
        CallArguments(1, "{}"),
        CallEnd(1, True),
        Diagnostic("a", "b"),
        Finish("stop", {"usage": {"total_tokens": 1}}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_go_between_processes(event):
    for again in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):
        assert again == event and type(again) is type(event) and repr(again) == repr(event)


def test_a_format_is_its_name(vocab, weather):
    for format in ("hermes", tenon.Format("hermes")):
        assert tenon.parse(CALL, format, tools=[weather])["tool_calls"]
        assert tenon.StreamParser(format, vocab, {"tools": [weather]}).finish() == []
        assert tenon.Grammar.for_tools(
            vocab, format, {"tools": [weather], "tool_choice": "required"}
        )


def test_cut_output(weather):
    parser = tenon.StreamParser(tenon.Format("hermes"), None, {"tools": [weather]})
    fold = tenon.Fold()
    fold.add_all(parser.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro'))
    fold.add_all(parser.finish(is_truncated=True))
    assert fold.incomplete == {0}
    with pytest.raises(tenon.Error):
        parser.feed("more")


def test_control_tokens_are_known_by_id(vocab, weather):
    parser = tenon.StreamParser(tenon.Format("hermes"), vocab, {"tools": [weather]})
    events = [event for token in vocab.encode("Hello") for event in parser.feed_token(token)]
    assert "".join(event.text for event in events + parser.finish()) == "Hello"


TEXTS = ["é", "漢字", "🌍", "a\x00b"]


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_cut_within_characters(text):
    parser = tenon.StreamParser(tenon.Format("hermes"))
    data = text.encode()
    events = [event for byte in data for event in parser.feed(bytes([byte]))] + parser.finish()
    assert "".join(event.text for event in events) == text


def test_formats(weather):
    names = tenon.Format.names()
    assert "hermes" in names and len(names) > 20
    for name in names:
        assert tenon.Format(name).name == name
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
        }
    ]
    assert '"city": "Rome"' in tenon.Format("hermes").render_calls(calls)
    assert "get_weather" in tenon.Format("generic_xml").describe_tools([weather])
    assert tenon.Format.detect(chat_template="{{ nothing }}")[0] is None
    with pytest.raises(tenon.Error, match="unknown"):
        tenon.Format("nosuch")
    with pytest.raises(tenon.InvalidError):
        tenon.Format.compile("name = ")


def test_large_arguments(weather):
    text = "lorem ipsum " * 100_000
    output = (
        "<tool_call>\n"
        + json.dumps({"name": "get_weather", "arguments": {"city": text}})
        + "\n</tool_call>"
    )
    message = tenon.parse(output, "hermes", tools=[weather])
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": text}


REPAIRS = {
    "NothingToDo": ('{"city": "Rome", "days": 2}', '{"city": "Rome", "days": 2}', 0),
    "NumberInText": ('{"city": "Rome", "days": "2"}', '{"city": "Rome", "days": 2}', 1),
}


@pytest.mark.parametrize("row", REPAIRS)
def test_repair(weather, row):
    arguments, expected, count = REPAIRS[row]
    repaired = tenon.repair(arguments, weather)
    assert (repaired.arguments, len(repaired.repairs)) == (expected, count)
    assert repaired.loads() == json.loads(expected)


def test_repair_of_a_function():
    def set_level(level: int):
        pass

    assert tenon.repair('{"level": "7"}', set_level).arguments == '{"level": 7}'


VALUES = {
    "Valid": ({"a": 1}, []),
    "Missing": ({}, ["/required"]),
    "WrongType": ({"a": "x"}, ["/properties/a/type"]),
    "NotAnObject": ("text", ["/type"]),
    "Null": (None, ["/type"]),
}


@pytest.mark.parametrize("row", VALUES)
def test_validate(row):
    instance, paths = VALUES[row]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert [violation["schema_path"] for violation in tenon.validate(instance, schema)] == paths
    compiled = tenon.Schema(schema)
    assert (
        compiled.is_valid(instance) == (not paths) == compiled.is_valid_json(json.dumps(instance))
    )
    assert [
        violation["schema_path"] for violation in compiled.validate_json(json.dumps(instance))
    ] == paths


def test_validate_refuses():
    with pytest.raises(tenon.InvalidError):
        tenon.validate({}, {"type": "thing"})
    with pytest.raises(ValueError):
        tenon.validate(float("nan"), {})
    with pytest.raises(tenon.InvalidError):
        tenon.Schema({}).validate_json("{")
    assert tenon.Schema(True).is_valid(1) and not tenon.Schema(False).is_valid(1)
