"""Answers of the bundled model are held to the request's tools and response format (docs/constrained.md)."""
import json

import jsonschema
import openai
import pytest
import requests
from tools import GREEDY, MULTIPLY, WEATHER, calls_of, user

TOOLS = [WEATHER, MULTIPLY]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


def tenon_of(answer):
    return answer.model_extra["tenon"]


def assert_valid(calls):
    for call in calls:
        jsonschema.validate(json.loads(call["arguments"]), SCHEMAS[call["name"]])


def test_calls_say_that_they_were_masked(client):
    request = {**GREEDY, "messages": user("What is 3 times 4?"), "tools": TOOLS, "tool_choice": "required",
               "parallel_tool_calls": False}
    answer = client.chat.completions.create(**request)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert tenon_of(answer)["guarantee"] == "masked"
    last = list(client.chat.completions.create(**request, stream=True))[-1]
    assert tenon_of(last)["guarantee"] == "masked"


def test_metrics_count_masks_and_what_they_forced(server, client):
    def metric(name):
        text = requests.get(server.url + "/metrics", timeout=10).text
        return float(next(line for line in text.splitlines() if line.startswith(f'{name}{{model="tenon-tiny"')).split()[-1])

    names = ["tenon_masks_total", "tenon_mask_seconds_total", "tenon_mask_forced_tokens_total",
             "tenon_engine_decodes_total"]
    before = {name: metric(name) for name in names}
    client.chat.completions.create(**{**GREEDY, "messages": user("What is 3 times 4?"), "tools": TOOLS,
                                      "tool_choice": "required"})
    assert all(metric(name) > before[name] for name in names)


# Where the model would rather talk, and at a temperature at which it would stray.
@pytest.mark.parametrize("choice", ["required", *SCHEMAS])
@pytest.mark.parametrize("seed", range(3))
def test_a_demanded_call_comes_and_is_valid(client, choice, seed):
    named = {"type": "function", "function": {"name": choice}}
    answer = client.chat.completions.create(**{
        **GREEDY, "messages": user("Hello, how are you today?"), "tools": TOOLS, "temperature": 1.5, "seed": seed,
        "parallel_tool_calls": False, "tool_choice": choice if choice == "required" else named, "max_tokens": 400})
    if answer.choices[0].finish_reason == "length":
        return  # it may write a string for ever
    calls = calls_of(answer.choices[0].message)
    assert len(calls) == 1
    assert answer.choices[0].message.content is None
    assert_valid(calls)
    assert choice in ("required", calls[0]["name"])


def test_text_is_held_to_a_response_format(client):
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "maximum": 9}},
              "required": ["city", "days"], "additionalProperties": False}
    answer = client.chat.completions.create(
        **GREEDY, messages=user("Where shall I go?"),
        response_format={"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": schema}})
    jsonschema.validate(json.loads(answer.choices[0].message.content), schema)
    assert tenon_of(answer)["guarantee"] == "masked"


@pytest.mark.parametrize(("fields", "param", "part"), [
    ({"tools": [{"type": "function", "function": {"name": "odd", "parameters": {"properties": {"a": {"type": "text"}}}}}]},
     "tools[0].function.parameters", "tool 'odd': /properties/a/type"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"minimum": "1"}}}},
     "response_format", "/minimum"),
], ids=["tools", "response_format"])
def test_a_schema_that_is_none_is_refused(client, fields, param, part):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**GREEDY, messages=user("hi"), **fields)
    assert refused.value.param == param
    assert part in refused.value.message
