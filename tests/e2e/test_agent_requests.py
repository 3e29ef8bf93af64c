"""Requests of today's coding agents as they sent them, each agent's first and its last with results, in the dialect that it speaks:
each is answered, whole and as a stream, with the call or the text that the model wrote. test_agents.py recorded them with
TENON_KEEP_REQUESTS=1, and took out what says where and when. Their words are the agents' own, under these licences: MIT (gptme,
opencode, pi), Apache 2.0 (aider, Cline, Codex, Continue, llm, qwen-code); Claude Code has no free one, so its long texts are
cut."""
import json

import pytest
import requests
from agents import ANSWER, CLIENTS
from scripted_upstream import call, serving_script

RECORDED = {path.parent.name: json.loads(path.read_text()) for path in sorted(CLIENTS.glob("*/requests.json"))}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    with serving_script(tmp_path_factory.mktemp("agents"), None) as both:
        yield both


def sse(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]


# For each dialect: the calls that a request's history has, and the text and the calls of an answer, whole and streamed.


def chat_calls(message):
    return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in message.get("tool_calls") or []]


def chat_stream(events):
    text, calls = "", {}
    for delta in (choice["delta"] for event in events for choice in event.get("choices", [])):
        text += delta.get("content") or ""
        for part in delta.get("tool_calls") or []:
            known = calls.setdefault(part["index"], ["", ""])
            known[0] += part["function"].get("name") or ""
            known[1] += part["function"].get("arguments") or ""
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def responses_items(items):
    text = "".join(part["text"] for item in items if item["type"] == "message" and item["role"] == "assistant"
                   for part in item["content"])
    return text, [(item["name"], json.loads(item["arguments"])) for item in items if item["type"] == "function_call"]


def blocks(content):
    content = [] if isinstance(content, str) else content
    return ("".join(block["text"] for block in content if block["type"] == "text"),
            [(block["name"], block["input"]) for block in content if block["type"] == "tool_use"])


def messages_stream(events):
    content, arguments = {}, {}
    for event in events:
        at = event.get("index")
        if event["type"] == "content_block_start":
            content[at] = event["content_block"]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            content[at]["text"] += event["delta"]["text"]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            arguments[at] = arguments.get(at, "") + event["delta"]["partial_json"]
    for at, text in arguments.items():
        content[at]["input"] = json.loads(text)
    return blocks([content[at] for at in sorted(content)])


DIALECTS = {
    "/chat/completions": (lambda body: [one for message in body["messages"] for one in chat_calls(message)],
                          lambda answer: ((message := answer["choices"][0]["message"])["content"] or "", chat_calls(message)),
                          chat_stream),
    "/responses": (lambda body: responses_items([item for item in body["input"] if item.get("type") == "function_call"])[1],
                   lambda answer: responses_items(answer["output"]),
                   lambda events: responses_items(events[-1]["response"]["output"])),
    "/messages": (lambda body: [one for message in body["messages"] for one in blocks(message["content"])[1]],
                  lambda answer: blocks(answer["content"]),
                  messages_stream),
}


def test_every_agent_has_some():
    assert len(RECORDED) >= 8
    assert {next(end for end in DIALECTS if one["path"].endswith(end)) for one in RECORDED.values()} == set(DIALECTS)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", RECORDED)
def test_is_answered(scripted, name, stream):
    server, upstream = scripted
    path, first = RECORDED[name]["path"], RECORDED[name]["first"]
    last = {**first, **RECORDED[name]["last"]}
    history, whole, streamed = next(row for end, row in DIALECTS.items() if path.endswith(end))
    calls = history(last)
    assert not history(first) and bool(calls) == bool(first.get("tools")), "a recorded loop has calls"
    for recorded, wanted in [(first, ("Let me see.", calls[:1])), (last, (ANSWER, []))]:
        text, made = wanted
        upstream.script = lambda prompt, text=text, made=made: "\n".join([text, *(call(*one) for one in made)])
        body = {**recorded, "stream": stream}
        if not stream:
            body.pop("stream_options", None)  # of streams alone: clients leave it out elsewhere
        answer = requests.post(server.url + path, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        got = streamed(sse(answer)) if stream else whole(answer.json())
        assert (got[0].strip(), got[1]) == wanted
