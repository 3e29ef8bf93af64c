"""Conversations and tools in the shapes in which clients send them: every one is answered, in each dialect."""
import pytest
import requests
from tools import WEATHER

MODEL = {"model": "tenon-tiny"}
USER = {"role": "user", "content": "What is the weather in Paris?"}
RESULT = '{"temperature": 18, "condition": "sunny"}'


def function(**fields):
    return {"type": "function", "function": {"name": "get_weather", **fields}}


def called(arguments='{"location": "Paris"}', **fields):
    return {"role": "assistant", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}], **fields}


def result(**fields):
    return {"role": "tool", "tool_call_id": "call_1", "content": RESULT, **fields}


CHAT = {
    "result of no call": {"messages": [USER, result()]},
    "result comes first": {"messages": [result(), USER]},
    "result of another call": {"messages": [USER, called(content=None), result(tool_call_id="call_9")]},
    "result with a name": {"messages": [USER, called(content=None), result(name="get_weather")]},
    "result in parts": {"messages": [USER, called(content=None), result(content=[{"type": "text", "text": RESULT}])]},
    "result in no parts": {"messages": [USER, called(content=None), result(content=[])]},
    "empty result": {"messages": [USER, called(content=None), result(content="")]},
    "null result": {"messages": [USER, called(content=None), result(content=None)]},
    "call without its result": {"messages": [USER, called(content=None), USER]},
    "content absent": {"messages": [USER, called(), result()]},
    "content null": {"messages": [USER, called(content=None), result()]},
    "content empty": {"messages": [USER, called(content=""), result()]},
    "content in parts": {"messages": [USER, called(content=[{"type": "text", "text": "Let me see."}]), result()]},
    "content in no parts": {"messages": [USER, called(content=[]), result()]},
    "as the SDK dumps a message": {"messages": [USER, called(content=None, refusal=None, annotations=[], audio=None,
                                                             function_call=None), result()]},
    "no calls in the list": {"messages": [USER, {"role": "assistant", "content": "Hm.", "tool_calls": []}, USER]},
    "null calls": {"messages": [USER, {"role": "assistant", "content": "Hm.", "tool_calls": None}, USER]},
    "empty arguments": {"messages": [USER, called("", content=None), result()]},
    "arguments cut by a length": {"messages": [USER, called('{"location": "Par', content=None), result()]},
    "reasoning comes back": {"messages": [USER, called(content=None, reasoning_content="I need the weather."), result()]},
    "user in parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"},
                                                                {"type": "text", "text": " there!"}]}]},
    "developer and system": {"messages": [{"role": "developer", "content": "Be kind."},
                                          {"role": "system", "content": "Be short."}, USER]},
    "no tools": {"messages": [USER], "tools": []},
    "no tools, and a choice among them": {"messages": [USER], "tools": [], "tool_choice": "auto"},
    "null tools": {"messages": [USER], "tools": None, "tool_choice": None, "parallel_tool_calls": None},
    "calls in the history of a request without tools": {"messages": [USER, called(content=None), result()], "tools": []},
    "tool without parameters": {"messages": [USER], "tools": [function(description="The weather here.")]},
    "tool with null parameters": {"messages": [USER], "tools": [function(parameters=None, description=None, strict=None)]},
    "tool with empty parameters": {"messages": [USER], "tools": [function(parameters={})]},
    "tool with no properties": {"messages": [USER], "tools": [function(parameters={"type": "object", "properties": {}})]},
}


def item(kind, **fields):
    return {"type": kind, "call_id": "call_1", **fields}


CALL = item("function_call", name="get_weather", arguments='{"location": "Paris"}')
OUTPUT = item("function_call_output", output=RESULT)
FLAT = {"type": "function", "name": "get_weather"}

RESPONSES = {
    "result of no call": {"input": [USER, OUTPUT]},
    "result comes first": {"input": [OUTPUT, USER]},
    "result of another call": {"input": [USER, CALL, {**OUTPUT, "call_id": "call_9"}]},
    "result in parts": {"input": [USER, CALL, {**OUTPUT, "output": [{"type": "input_text", "text": RESULT}]}]},
    "result in no parts": {"input": [USER, CALL, {**OUTPUT, "output": []}]},
    "empty result": {"input": [USER, CALL, {**OUTPUT, "output": ""}]},
    "result as it was kept": {"input": [USER, CALL, {**OUTPUT, "id": "fco_1", "status": "completed"}]},
    "call without its result": {"input": [USER, CALL, USER]},
    "call as it was answered": {"input": [USER, {**CALL, "id": "fc_1", "status": "completed"}, OUTPUT]},
    "empty arguments": {"input": [USER, {**CALL, "arguments": ""}, OUTPUT]},
    "arguments cut by a length": {"input": [USER, {**CALL, "arguments": '{"loc', "status": "incomplete"}, OUTPUT]},
    "message with a type": {"input": [{"type": "message", **USER}]},
    "assistant as a string": {"input": [USER, {"role": "assistant", "content": "Hm."}, USER]},
    "assistant in parts": {"input": [USER, {"role": "assistant", "content": [
        {"type": "output_text", "text": "Hm.", "annotations": [], "logprobs": []}]}, USER]},
    "reasoning comes back": {"input": [USER, {"type": "reasoning", "id": "rs_1", "summary": [], "content": [
        {"type": "reasoning_text", "text": "I need the weather."}]}, CALL, OUTPUT]},
    "no tools": {"input": [USER], "tools": []},
    "no tools, and a choice among them": {"input": [USER], "tools": [], "tool_choice": "auto"},
    "calls in the history of a request without tools": {"input": [USER, CALL, OUTPUT], "tools": []},
    "tool without parameters": {"input": [USER], "tools": [FLAT]},
    "tool with null parameters": {"input": [USER], "tools": [
        {**FLAT, "parameters": None, "strict": None, "description": None}]},
    "tool with empty parameters": {"input": [USER], "tools": [{**FLAT, "parameters": {}}]},
}

USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                                         "input": {"location": "Paris"}}]}


def tool_result(*after, **fields):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", **fields}, *after]}


MESSAGES = {
    "result of no call": {"messages": [USER, tool_result(content=RESULT)]},
    "result comes first": {"messages": [tool_result(content=RESULT), USER]},
    "result of another call": {"messages": [USER, USE, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_9", "content": RESULT}]}]},
    "result in blocks": {"messages": [USER, USE, tool_result(content=[{"type": "text", "text": RESULT}])]},
    "result in no blocks": {"messages": [USER, USE, tool_result(content=[])]},
    "empty result": {"messages": [USER, USE, tool_result(content="")]},
    "no result": {"messages": [USER, USE, tool_result()]},
    "failed result": {"messages": [USER, USE, tool_result(content="no such city", is_error=True)]},
    "result that is cached": {"messages": [USER, USE, tool_result(content=RESULT, cache_control={"type": "ephemeral"})]},
    "result and text": {"messages": [USER, USE, tool_result({"type": "text", "text": "And in Rome?"}, content=RESULT)]},
    "call without its result": {"messages": [USER, USE, USER]},
    "call without input": {"messages": [USER, {"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}]}, tool_result(content=RESULT)]},
    "thinking comes back": {"messages": [USER, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I need the weather.", "signature": "tenon"}, *USE["content"]]},
        tool_result(content=RESULT)]},
    "two users in a row": {"messages": [USER, USER]},
    "system in blocks": {"messages": [USER], "system": [{"type": "text", "text": "Be kind.",
                                                         "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    "no system": {"messages": [USER], "system": []},
    "no tools": {"messages": [USER], "tools": []},
    "no tools, and a choice among them": {"messages": [USER], "tools": [], "tool_choice": {"type": "auto"}},
    "calls in the history of a request without tools": {"messages": [USER, USE, tool_result(content=RESULT)], "tools": []},
    "tool with an empty schema": {"messages": [USER], "tools": [{"name": "get_weather", "input_schema": {}}]},
    "tool with no properties": {"messages": [USER], "tools": [
        {"name": "get_weather", "input_schema": {"type": "object"}, "cache_control": None, "description": None}]},
    "as a coding agent asks": {  # the outer shape of what Claude Code sends
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
            {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]}],
        "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
            "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}}],
        "metadata": {"user_id": "user_1"}, "temperature": 1, "stream": True,
        "thinking": {"type": "enabled", "budget_tokens": 1024}},
}

ROWS = [(path, name, body) for path, table in (("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES),
                                               ("/v1/messages?beta=true", MESSAGES)) for name, body in table.items()]


@pytest.mark.parametrize("path,name,body", ROWS, ids=[f"{path.split('/')[2].split('?')[0]}-{name}" for path, name, _ in ROWS])
def test_is_answered(server, path, name, body):
    limit = {"/v1/responses": "max_output_tokens"}.get(path, "max_tokens")
    answer = requests.post(server.url + path, timeout=60, json={**MODEL, limit: 8, **body},
                           headers={"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}},
                                        {"parameters": {"type": "object", "properties": {}}}], ids=str)
def test_a_tool_without_parameters_is_called_without_arguments(client, parameters):
    choice = client.chat.completions.create(**MODEL, max_tokens=32, temperature=0, messages=[USER], tool_choice="required",
                                            tools=[function(**parameters)]).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.name == WEATHER["function"]["name"]
