"""Tools that are found before they are called (docs/tool-search.md), by the official SDKs of OpenAI and Anthropic."""
import json

import pytest
import requests
from scripted_upstream import call
from test_hosted_tools import house, of_anthropic, of_openai
from test_tools import replayed, results

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMES = ["get_weather", *(f"bank_{verb}_{noun}" for verb in ("open", "close", "list") for noun in ("account", "card", "loan", "branch"))]


def finds(prompt):
    """Searches, then calls what was found."""
    return call("get_weather", {"city": "Rome"}) if "<tool_response>" in prompt else "I look. " + call("tool_search", {"query": "weather"})


def described(name):
    return "The weather in a city" if name == "get_weather" else f"Does this at the bank: {name.replace('_', ' ')}"


@pytest.mark.parametrize("streams", [False, True])
def test_deferred_tools_are_found_in_every_dialect(streams, tmp_path):
    with house(tmp_path, finds, f'record = "{tmp_path / "records"}"') as (server, upstream):
        chat = of_openai(server).chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "Weather?"}], stream=streams,
            tools=[{"type": "function", "function": {"name": name, "description": described(name), "parameters": SCHEMA, "defer_loading": True}}
                   for name in NAMES])
        if streams:
            calls = [one for chunk in chat for one in chunk.choices[0].delta.tool_calls or []]
            name, arguments = calls[0].function.name, "".join(one.function.arguments or "" for one in calls)
        else:
            (one,) = chat.choices[0].message.tool_calls
            name, arguments = one.function.name, one.function.arguments
        assert (name, json.loads(arguments)) == ("get_weather", {"city": "Rome"})
        first, second = upstream.prompts[-2:]
        assert second.startswith(first)  # so that its cache holds
        listed = first.split("</tools>")[0]
        assert "tool_search" in listed and "bank: bank_open_account" in listed and "Does this at the bank" not in listed
        assert "defer_loading" not in listed
        (found,) = results(second)
        assert '"name":"get_weather"' in found and "bank_" not in found

        flat = [{"name": name, "description": described(name), "defer_loading": True} for name in NAMES]
        messages = of_anthropic(server).messages.create(
            model="scripted", max_tokens=100, messages=[{"role": "user", "content": "Weather?"}], stream=streams,
            tools=[{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}, *({**one, "input_schema": SCHEMA} for one in flat)])
        if streams:
            assert [event.content_block.name for event in messages
                    if event.type == "content_block_start" and event.content_block.type == "tool_use"] == ["get_weather"]
        else:
            assert [block.name for block in messages.content if block.type == "tool_use"] == ["get_weather"]
        responses = of_openai(server).responses.create(
            model="scripted", input="Weather?", store=False, stream=streams,
            tools=[{"type": "tool_search"}, *({"type": "function", **one, "parameters": SCHEMA, "strict": False} for one in flat)])
        if streams:
            responses = list(responses)[-1].response
        assert [item.name for item in responses.output if item.type == "function_call"] == ["get_weather"]
    told = replayed(tmp_path / "records")
    assert len(told) == 3 and all(status == 0 for status, _ in told), told


def tools_of(names):
    return [{"type": "function", "function": {"name": name, "description": described(name), "parameters": SCHEMA}} for name in names]


@pytest.mark.parametrize("setting, searches", [("", False), ('tool_search = "auto"\ntool_search_from = 10\n', True),
                                               ('tool_search = "auto"\ntool_search_from = 14\n', False), ('tool_search = "off"\n', False)])
def test_a_configuration_defers_the_tools_of_clients_that_know_nothing_of_it(setting, searches, tmp_path):
    with house(tmp_path, finds, more=setting) as (server, upstream):
        body = {"model": "scripted", "messages": [{"role": "user", "content": "Weather?"}], "tools": tools_of(NAMES)}
        requests.post(server.url + "/v1/chat/completions", json=body, timeout=60).raise_for_status()
        listed = upstream.prompts[0].split("</tools>")[0]
        assert ("tool_search" in listed) == searches and ("Does this at the bank" in listed) != searches
        # A tool that the conversation has called is listed, since its schema is not in the history any more.
        used = [{"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {
            "name": "bank_open_card", "arguments": '{"city": "Rome"}'}}]}, {"role": "tool", "tool_call_id": "a", "content": "Done"}]
        requests.post(server.url + "/v1/chat/completions", json={**body, "messages": body["messages"] + used}, timeout=60).raise_for_status()
        listed = upstream.prompts[-1].split("</tools>")[0]
        assert "Does this at the bank: bank open card" in listed


def test_off_lists_what_a_request_defers(tmp_path):
    with house(tmp_path, lambda prompt: "Hello.", more='tool_search = "off"\n') as (server, upstream):
        tools = [{**tool, "defer_loading": True} for tool in tools_of(NAMES)]
        body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
        requests.post(server.url + "/v1/chat/completions", json=body, timeout=60).raise_for_status()
        assert "Does this at the bank" in upstream.prompts[-1] and "tool_search" not in upstream.prompts[-1]


def test_a_deferral_that_is_no_truth_value_is_refused(tmp_path):
    with house(tmp_path, lambda prompt: "Hello.") as (server, _):
        tools = [{**tool, "defer_loading": "yes"} for tool in tools_of(["f"])]
        body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
        answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools[0].defer_loading"
