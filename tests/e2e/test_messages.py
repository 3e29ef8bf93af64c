"""Anthropic Messages through the SDK people use."""
import json
import typing

import anthropic
import jsonschema
import pytest
import requests
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from tools import MULTIPLY, WEATHER, settled


def as_anthropic(tool):
    function = tool["function"]
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


TOOLS = [as_anthropic(WEATHER), as_anthropic(MULTIPLY)]
SCHEMAS = {tool["name"]: tool["input_schema"] for tool in TOOLS}
ASK = {"model": "tenon-tiny", "max_tokens": 128, "tools": TOOLS,
       "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
       "extra_body": {"temperature": 0}}  # a field that this version of the SDK has no name for


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="not-needed", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def claude_played(played):
    return anthropic.Anthropic(base_url=played.url, api_key="not-needed", max_retries=0, timeout=60)


def check_calls(message):
    calls = [block for block in message.content if block.type == "tool_use"]
    for call in calls:
        jsonschema.validate(call.input, SCHEMAS[call.name])
        assert call.id.startswith("toolu_")
    return calls


CHOICES = [
    ("auto", {"type": "auto"}),
    ("any", {"type": "any"}),
    ("named", {"type": "tool", "name": "multiply"}),
    ("single", {"type": "any", "disable_parallel_tool_use": True}),
]


@pytest.mark.parametrize("choice", [row[1] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_tool_choices_stream_as_they_answer(claude, choice):
    whole = settled(lambda: claude.messages.create(**ASK, tool_choice=choice))
    calls = check_calls(whole)
    assert calls or choice["type"] == "auto"
    assert whole.stop_reason in (("tool_use", "max_tokens") if calls else ("end_turn", "max_tokens"))
    if choice.get("name"):
        assert {call.name for call in calls} == {choice["name"]}
    if choice.get("disable_parallel_tool_use"):
        assert len(calls) == 1
    with claude.messages.stream(**ASK, tool_choice=choice) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"

    def blocks(message):
        return [{key: value for key, value in block.model_dump().items() if key != "id"} for block in message.content]

    assert blocks(streamed) == blocks(whole)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens

    def read(usage):  # the second one finds the first one's prompt
        return usage.input_tokens + usage.cache_read_input_tokens

    assert read(streamed.usage) == read(whole.usage)


def test_none_hides_the_tools(claude):
    message = claude.messages.create(**{**ASK, "tool_choice": {"type": "none"}})
    assert all(block.type == "text" for block in message.content)
    assert message.stop_reason in ("end_turn", "max_tokens")


def test_the_whole_loop(claude_played):
    messages = list(ASK["messages"])
    first = claude_played.messages.create(**{**ASK, "tool_choice": {"type": "any"}})
    call = check_calls(first)[0]
    messages += [{"role": "assistant", "content": first.content},
                 {"role": "user", "content": [
                     {"type": "tool_result", "tool_use_id": call.id, "is_error": False,
                      "content": [{"type": "text", "text": json.dumps({"temperature": 18, "condition": "sunny"})}]}]}]
    answer = claude_played.messages.create(**{**ASK, "messages": messages})
    assert answer.stop_reason == "end_turn"
    assert [block.text for block in answer.content] == ['It is so: {"temperature": 18, "condition": "sunny"}']


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_the_tool_runner_of_the_sdk(claude_played, streams):
    """It asks for a thread first, and goes on without one if the server refuses."""
    ran = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the current weather in a city.

        Args:
            city: the city
        """
        ran.append(city)
        return json.dumps({"temperature": 21, "condition": "sunny"})

    runner = claude_played.beta.messages.tool_runner(model="tenon-tiny", max_tokens=200, tools=[get_weather],
                                                     messages=ASK["messages"], stream=streams)
    messages = [turn.get_final_message() if streams else turn for turn in runner]
    assert [message.stop_reason for message in messages] == ["tool_use", "end_turn"]
    assert ran == ["Paris"] and "sunny" in messages[-1].content[0].text


def test_a_failed_result_and_a_system_prompt_are_read(claude_played):
    message = claude_played.messages.create(**{**ASK, "system": [{"type": "text", "text": "Be kind.",
                                                           "cache_control": {"type": "ephemeral"}}], "messages": [
        *ASK["messages"],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                                           "input": {"location": "Paris"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city",
                                      "is_error": True}]}]})
    assert "no such city" in message.content[0].text


def test_the_answer_goes_on_from_its_beginning(claude, server):
    begun = {**ASK, "messages": [*ASK["messages"], {"role": "assistant", "content": "The weather in"}]}
    del begun["tools"]
    message = claude.messages.create(**begun)
    assert not message.content or not message.content[0].text.startswith("The weather in")
    counts = [claude.messages.count_tokens(**{key: body[key] for key in ("model", "messages")}).input_tokens
              for body in (begun, {**begun, "messages": ASK["messages"]})]
    assert counts[0] > counts[1]


def test_tokens_are_counted_as_they_are_used(claude):
    counted = claude.messages.count_tokens(model=ASK["model"], messages=ASK["messages"], tools=TOOLS)
    usage = claude.messages.create(**ASK).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_a_prompt_that_begins_in_another_way_is_diagnosed(claude):
    """The first request asks for no comparison, but is remembered for the next one."""
    body = {**ASK, "max_tokens": 8}
    first = claude.messages.create(**body, diagnostics={"previous_message_id": None})
    assert first.diagnostics is None and "diagnostics" in first.model_fields_set
    assert "diagnostics" not in claude.messages.create(**body).model_fields_set
    follows = {"previous_message_id": first.id}
    more = [*ASK["messages"], {"role": "assistant", "content": "Sunny."},
            {"role": "user", "content": [{"type": "text", "text": "And in Rome?", "cache_control": {"type": "ephemeral"}}]}]
    assert claude.messages.create(**{**body, "messages": more}, diagnostics=follows).diagnostics is None
    changes = {
        "tools_changed": {"tools": TOOLS[:1]},
        "system_changed": {"system": "It is 12:01."},
        "messages_changed": {"messages": [{"role": "user", "content": "What is the weather in Rome?"}]},
    }
    for reason, change in changes.items():
        told = claude.messages.create(**{**body, **change}, diagnostics=follows).diagnostics.cache_miss_reason
        prompt = first.usage.input_tokens + first.usage.cache_read_input_tokens
        assert told.type == reason and 0 < told.cache_missed_input_tokens <= prompt
        with claude.messages.stream(**{**body, **change}, diagnostics=follows) as stream:
            assert stream.get_final_message().diagnostics.cache_miss_reason == told
    unknown = claude.messages.create(**body, diagnostics={"previous_message_id": "msg_unknown"}).diagnostics
    assert unknown.cache_miss_reason.type == "previous_message_not_found"


def test_old_results_are_cleared_as_asked(claude):
    said = [{"role": "user", "content": "Look."}]
    for name in ("a", "b"):
        said += [{"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "look", "input": {}}]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": name * 300}]}]
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}, "keep": {"type": "tool_uses", "value": 1}}
    asked = {"model": "tenon-tiny", "messages": said, "betas": ["context-management-2025-06-27"],
             "tools": [{"name": "look", "input_schema": {"type": "object"}}], "context_management": {"edits": [edit]}}
    counted = claude.beta.messages.count_tokens(**asked)
    assert counted.context_management.original_input_tokens > counted.input_tokens + 200
    answer = claude.beta.messages.create(**asked, max_tokens=16)
    assert [one.cleared_tool_uses for one in answer.context_management.applied_edits] == [1]
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == counted.input_tokens


def test_the_output_fits_its_schema(claude):
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "sunny": {"type": "boolean"}},
              "required": ["city", "sunny"], "additionalProperties": False}
    message = claude.messages.create(**{key: value for key, value in ASK.items() if key != "tools"},
                                     output_config={"format": {"type": "json_schema", "schema": schema}})
    jsonschema.validate(json.loads(message.content[0].text), schema)


def test_a_stop_sequence_is_named(claude_played):
    message = claude_played.messages.create(**{**ASK, "tool_choice": {"type": "none"}, "stop_sequences": ["e"]})
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == "e"
    assert [block.text for block in message.content] == ["W"]


ERRORS = [
    ("unknown_model", {"model": "nosuch"}, anthropic.NotFoundError, "not_found_error"),
    ("no_messages", {"messages": []}, anthropic.BadRequestError, "invalid_request_error"),
    ("image", {"messages": [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "x"}}]}]}, anthropic.BadRequestError, "invalid_request_error"),
    ("server_tool", {"tools": [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "any"}},
     anthropic.BadRequestError, "invalid_request_error"),
    ("too_long", {"messages": [{"role": "user", "content": "word " * 40_000}]},
     anthropic.BadRequestError, "invalid_request_error"),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row[0])
def test_errors_have_their_classes(claude, row):
    _, fields, kind, name = row
    with pytest.raises(kind) as raised:
        claude.messages.create(**{**ASK, **fields})
    error = raised.value.body
    assert error["type"] == "error" and error["error"]["type"] == name
    assert error["request_id"] == raised.value.response.headers["request-id"]


def test_every_field_of_the_sdk_has_its_place(server):
    """Absent and null are the same, so this asks only whether each name is known."""
    names = {name for name in typing.get_type_hints(MessageCreateParamsStreaming) if name not in ("user_profile_id", "workspace_id")}
    body = {**dict.fromkeys(names), **{key: value for key, value in ASK.items() if key != "extra_body"}}  # those two travel as headers
    answer = requests.post(server.url + "/v1/messages", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


def test_what_is_no_json_is_refused_in_the_same_shape(server):
    answer = requests.post(server.url + "/v1/messages", data="{", timeout=30)
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
