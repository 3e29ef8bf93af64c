"""With `close_calls` no limit cuts a call (docs/constrained.md)."""
import json
import os

import jsonschema
import pytest
import requests
from serving import ROOT, serving
from tools import user

NESTED = {"type": "function", "function": {"name": "book", "parameters": {
    "type": "object", "additionalProperties": False, "required": ["trip", "passengers", "class"],
    "properties": {
        "trip": {"type": "object", "additionalProperties": False, "required": ["from", "to", "days"], "properties": {
            "from": {"type": "string"}, "to": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}},
        "note": {"type": "string"},
        "passengers": {"type": "array", "minItems": 2, "items": {"type": "string"}},
        "class": {"enum": ["economy", "business"]}}}}}
TEXT = {"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "additionalProperties": False, "required": ["text", "stars"],
    "properties": {"text": {"type": "string"}, "stars": {"type": "number"}}}}}
IS_LONG = bool(os.environ.get("TENON_LONG"))
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in (NESTED, TEXT)}
FORMATS = ["hermes", "generic-xml", "llama4-pythonic", "qwen3_coder", "glm45", "mistral"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("close_calls")
    models = "".join(f'[[model]]\nname = "{name}"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n'
                     f'tool_call_format = "{name}"\ncontext_tokens = 2048\nclose_calls = true\n' for name in FORMATS)
    (folder / "tenon.toml").write_text(models)
    with serving(folder / "serve.log", "--config", str(folder / "tenon.toml")) as running:
        yield running


def ask(server, model, max_tokens, tool, **fields):
    body = {"model": model, "messages": user("Write a long text about a trip to Paris."), "tools": [tool],
            "tool_choice": "required", "parallel_tool_calls": False, "temperature": 1.3, "seed": max_tokens,
            "max_tokens": max_tokens, **fields}
    answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def is_whole(answer):
    choice = answer["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    if choice["finish_reason"] != "tool_calls":
        return False
    assert len(calls) == 1
    function = calls[0]["function"]
    jsonschema.validate(json.loads(function["arguments"]), SCHEMAS[function["name"]])
    return True


CASES = [*((name, NESTED) for name in FORMATS), ("hermes", TEXT), ("generic-xml", TEXT)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=["-".join((name, "text" if tool is TEXT else "nested")) for name, tool in CASES])
def test_from_the_least_limit_on_every_call_is_whole(server, number):
    model, tool = CASES[number]
    # Every third limit in long tests; else every sixth, those that one case leaves out being those of the next.
    first, step = (5, 3) if IS_LONG else (5 + number % 2 * 3, 6)
    limits = [*range(first, 140, step), 200, 201, 202]
    whole = [is_whole(ask(server, model, limit, tool)) for limit in limits]
    least = whole.index(True)
    assert all(whole[least:]), f"cut again with {[limit for limit, w in zip(limits, whole) if not w]} tokens"
    assert 10 < limits[least] < 135


def test_without_it_a_limit_cuts_the_call(server):
    answer = ask(server, "hermes", 12, TEXT, tenon={"close_calls": False}, temperature=0)
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_response_format_comes_to_its_end_too(server):
    schema = SCHEMAS["book"]
    for limit in range(60, 75):
        answer = ask(server, "hermes", limit, NESTED, tool_choice="none", response_format={
            "type": "json_schema", "json_schema": {"name": "trip", "schema": schema}})
        jsonschema.validate(json.loads(answer["choices"][0]["message"]["content"]), schema)


def test_an_engine_without_grammars_refuses_it(server, tmp_path):
    (tmp_path / "tenon.toml").write_text(f'[[model]]\nname = "far"\nengine = "llama-server"\nurl = "{server.url}"\n'
                                         'close_calls = true\n')
    with pytest.raises(AssertionError, match="model.close_calls belongs to engine"):
        with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml")):
            pass
