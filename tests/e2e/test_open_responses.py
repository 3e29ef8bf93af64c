"""The Responses API against the schemas of Open Responses (openresponses.org): each answer and each event of a stream is one that
they allow. The package openresponses-py has the schemas, of 2026-04-24; the requests are those of the project's own suite in other
words, and more. scripts/setup.sh clients-long installs it."""
import json
import os

import jsonschema
import pytest
import requests
from agents import ENVIRONMENTS
from scripted_upstream import call, serving_script

pytestmark = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy clients: TENON_LONG")


def message(content, role="user"):
    return {"type": "message", "role": role, "content": content}


QUESTION = message("What is the weather in Ljubljana?")
TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"location": "Ljubljana"}'}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "A greeting."}]}

TEXTS = {
    "string": {"input": "Good morning!"},
    "message": {"input": [message("Good morning!")]},
    "system": {"input": [message("You are a sailor.", "system"), message("Good morning!")]},
    "developer": {"input": [message("You are a sailor.", "developer"), message("Good morning!")]},
    "turns": {"input": [message("I am Ana."), message("Hello, Ana.", "assistant"), message("Who am I?")]},
    "reasoning comes back": {"input": [message("Good morning!"), THOUGHT, message([
        {"type": "output_text", "text": "Hello.", "annotations": []}], "assistant"), message("And now?")]},
    "result": {"input": [QUESTION, CALL, {"type": "function_call_output", "call_id": "call_1", "output": "rain"}], "tools": [TOOL]},
    "cut": {"input": "Good morning!", "max_output_tokens": 16},
    "settings": {"input": "Good morning!", "temperature": 0.2, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": 0.1,
                 "max_output_tokens": 64, "max_tool_calls": 3, "metadata": {"a": "b"}, "store": False, "truncation": "auto",
                 "instructions": "Be short.", "parallel_tool_calls": False, "service_tier": "auto", "safety_identifier": "me",
                 "prompt_cache_key": "key", "reasoning": {"effort": "low", "summary": "auto"},
                 "text": {"format": {"type": "text"}, "verbosity": "low"}},
}
CALLS = {
    "tool": {},
    "required": {"tool_choice": "required"},
    "named": {"tool_choice": {"type": "function", "name": "get_weather"}},
    "allowed": {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}},
}
ROWS = [pytest.param(request, "message", id=name) for name, request in TEXTS.items()]
ROWS += [pytest.param({"input": [QUESTION], "tools": [TOOL], **choice}, "function_call", id=name) for name, choice in CALLS.items()]


@pytest.fixture(scope="module")
def spec():
    files = list(ENVIRONMENTS.glob("open-responses/lib/python3*/site-packages/openresponses/openapi/*.json"))
    assert len(files) == 1, "openresponses-py is not installed: scripts/setup.sh clients-long"
    return json.loads(files[0].read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    def script(prompt):
        return "Good morning, it is grey." if "<tool_response>" in prompt or "<tools>" not in prompt else call(
            "get_weather", {"location": "Ljubljana"})

    with serving_script(tmp_path_factory.mktemp("open_responses"), script) as (running, _):
        yield running


def faults(spec, schema, value):
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator({**spec, **schema}).iter_errors(value)]


def schema_of(spec, path, kind):
    return spec["paths"][path]["post"]["responses"]["200"]["content"][kind]["schema"]


@pytest.mark.parametrize("request_of,kind", ROWS)
def test_answer(spec, server, request_of, kind):
    answer = requests.post(server.url + "/v1/responses", json={"model": "scripted", **request_of}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert not faults(spec, schema_of(spec, "/responses", "application/json"), answer.json())
    assert [item["type"] for item in answer.json()["output"]] == [kind]


@pytest.mark.parametrize("request_of,kind", ROWS)
def test_stream(spec, server, request_of, kind):
    answer = requests.post(server.url + "/v1/responses", json={"model": "scripted", **request_of, "stream": True}, timeout=60)
    *events, done = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(event) for event in events]
    allowed = schema_of(spec, "/responses", "text/event-stream")
    assert not [(event["type"], found) for event in events if (found := faults(spec, allowed, event))]
    assert done == "[DONE]" and [item["type"] for item in events[-1]["response"]["output"]] == [kind]
    parts = {"message": "output_text", "function_call": "function_call_arguments"}[kind]
    assert {"response.output_item.added", f"response.{parts}.delta", f"response.{parts}.done", "response.output_item.done"} <= {
        event["type"] for event in events}


def test_summary(spec, server):
    answer = requests.post(server.url + "/v1/responses/compact", timeout=60,
                           json={"model": "scripted", "input": [message("Good morning!"), message("Hm.", "assistant")]})
    assert not faults(spec, schema_of(spec, "/responses/compact", "application/json"), answer.json())
