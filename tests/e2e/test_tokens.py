"""Exact tokens of answers, conversations that go on from them, limits on calls, and loops that are told."""

import json
import re

import pytest
import requests
from serving import ROOT

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get current weather for a location",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
CHAT = {
    "model": "tenon-tiny",
    "messages": QUESTION,
    "tools": [WEATHER],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "temperature": 0,
}


def ask(server, body, path="/v1/chat/completions"):
    answer = requests.post(server.url + path, json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(server, ids):
    return ask(server, {"model": "tenon-tiny", "tokens": ids}, "/detokenize")["content"]


def streamed(server, body):
    with requests.post(
        server.url + "/v1/chat/completions", json={**body, "stream": True}, stream=True, timeout=120
    ) as answer:
        lines = [
            line[6:]
            for line in answer.iter_lines()
            if line.startswith(b"data: ") and line != b"data: [DONE]"
        ]
    return [json.loads(line) for line in lines]


def test_ids_are_told_as_vllm_tells_them(server):
    whole = ask(server, {**CHAT, "return_token_ids": True})
    [choice] = whole["choices"]
    rendered = ask(server, CHAT, "/v1/chat/completions/render")
    assert whole["prompt_token_ids"] == rendered["tokens"]
    assert len(whole["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
    assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"]
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] in text_of(
        server, choice["token_ids"]
    )
    assert "token_ids" not in whole["tenon"]["tokens"]
    chunks = streamed(server, {**CHAT, "return_token_ids": True})
    ids = [id for chunk in chunks for each in chunk["choices"] for id in each.get("token_ids", [])]
    assert ids == choice["token_ids"]
    assert [chunk["prompt_token_ids"] for chunk in chunks if "prompt_token_ids" in chunk] == [
        whole["prompt_token_ids"]
    ]
    assert "prompt_token_ids" not in ask(server, CHAT)


def test_ids_of_completions(server):
    body = {
        "model": "tenon-tiny",
        "prompt": ["Once upon", "The sky"],
        "max_tokens": 5,
        "temperature": 0,
        "return_token_ids": True,
    }
    choices = ask(server, body, "/v1/completions")["choices"]
    assert [text_of(server, choice["prompt_token_ids"]) for choice in choices] == body["prompt"]
    for choice in choices:
        again = ask(server, {**body, "prompt": choice["prompt_token_ids"]}, "/v1/completions")[
            "choices"
        ][0]
        assert again["token_ids"] == choice["token_ids"]


@pytest.mark.parametrize(
    "path,body",
    [
        ("/v1/chat/completions", CHAT),
        (
            "/v1/responses",
            {
                "model": "tenon-tiny",
                "input": "What is the weather in Paris?",
                "tools": [{"type": "function", **WEATHER["function"]}],
                "tool_choice": "required",
                "parallel_tool_calls": False,
            },
        ),
        (
            "/v1/messages",
            {
                "model": "tenon-tiny",
                "messages": QUESTION,
                "max_tokens": 200,
                "tool_choice": {"type": "any"},
                "tools": [
                    {"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}
                ],
            },
        ),
    ],
)
def test_tokens_have_sources_in_every_dialect(server, path, body):
    tokens = ask(server, {**body, "tenon": {"tokens": True}}, path)["tenon"]["tokens"]
    prompt, output = tokens["prompt_token_ids"], tokens["token_ids"]
    assert (
        sum(run["tokens"] for run in tokens["sources"])
        == len(prompt) + len(output)
        == len(tokens["loss_mask"])
    )
    assert tokens["sources"][-1] == {"from": "model", "tokens": len(output)}
    assert tokens["loss_mask"] == [0] * len(prompt) + [1] * len(output)
    at, texts = 0, {}
    for run in tokens["sources"]:
        texts.setdefault(run["from"], []).append(
            text_of(server, (prompt + output)[at : at + run["tokens"]])
        )
        at += run["tokens"]
    assert any("What is the weather in Paris?" in text for text in texts["message"])
    assert any("get_weather" in text for text in texts["tools"])


def test_logprobs_are_one_for_each_token(server):
    tokens = ask(server, {**CHAT, "logprobs": True, "tenon": {"tokens": True}})["tenon"]["tokens"]
    assert len(tokens["logprobs"]) == len(tokens["token_ids"])
    assert all(value <= 0 for value in tokens["logprobs"])


def test_a_conversation_goes_on_from_its_tokens(server):
    first = ask(server, {**CHAT, "tenon": {"tokens": True}})
    told = first["tenon"]["tokens"]
    before = told["prompt_token_ids"] + told["token_ids"]
    message = first["choices"][0]["message"]
    [call] = message["tool_calls"]
    messages = QUESTION + [
        message,
        {"role": "tool", "tool_call_id": call["id"], "content": "heavy rain"},
    ]
    body = {**CHAT, "messages": messages, "tool_choice": "auto", "max_tokens": 8}
    second = ask(server, {**body, "tenon": {"tokens": True, "previous_token_ids": before}})
    assert second["tenon"]["prefix"] == {
        "kept": len(before),
        "of": len(before),
        "lost_at": None,
        "why": None,
    }
    tokens = second["tenon"]["tokens"]
    assert tokens["prompt_token_ids"][: len(before)] == before
    assert tokens["sources"][0] == {"from": "given", "tokens": len(before)}
    assert {"from": "message", "message": 2, "role": "tool"}.items() <= tokens["sources"][2].items()
    # The whole prompt as tokens gives the same answer, and is parsed with the same tools.
    again = ask(
        server, {**CHAT, "messages": messages, "prompt_token_ids": tokens["prompt_token_ids"]}
    )
    assert again["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert again["usage"]["prompt_tokens"] == len(tokens["prompt_token_ids"])
    assert "prefix" not in again["tenon"]
    # What does not fit is told, and the prompt is made as always.
    other = ask(server, {**body, "tenon": {"previous_token_ids": before[:-3]}})
    assert other["tenon"]["prefix"]["kept"] == len(before) - 3
    none = ask(server, {**CHAT, "tenon": {"previous_token_ids": before}})
    assert none["tenon"]["prefix"]["why"] == "no_answer"


@pytest.mark.parametrize(
    "more,param",
    [
        ({"prompt_token_ids": [1, 10_000_000]}, "prompt_token_ids"),
        ({"prompt_token_ids": []}, "prompt_token_ids"),
        ({"prompt_token_ids": ["a"]}, "prompt_token_ids[0]"),
        ({"tenon": {"previous_token_ids": [10_000_000]}}, "tenon.previous_token_ids"),
        ({"thinking_token_budget": -2}, "thinking_token_budget"),
        ({"tenon": {"max_calls": -1}}, "tenon.max_calls"),
        ({"tenon": {"on_loop": "shout"}}, "tenon.on_loop"),
    ],
)
def test_wrong_values_are_named(server, more, param):
    answer = requests.post(server.url + "/v1/chat/completions", json={**CHAT, **more}, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_the_example_of_the_docs_makes_rows(server):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/tokens.md").read_text(), re.DOTALL)
    names = {}
    exec(code.replace("http://127.0.0.1:8080", server.url), names)  # the page's own code
    ids, mask = names["rollout"](QUESTION, [WEATHER], lambda call: "heavy rain", turns=3)
    assert len(ids) == len(mask)
    assert 0 < sum(mask) < len(mask)


def test_loops_are_told_and_stopped(server):
    step = [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]
    body = {**CHAT, "tool_choice": "auto", "max_tokens": 16}
    assert "loop" not in ask(server, {**body, "messages": QUESTION + step})["tenon"]
    told = ask(server, {**body, "messages": QUESTION + 3 * step})
    assert told["tenon"]["loop"] == {"tool": "get_weather", "repeats": 3, "steps": 1}
    stopped = ask(
        server,
        {
            **body,
            "messages": QUESTION + 3 * step,
            "tool_choice": "required",
            "tenon": {"on_loop": "stop"},
        },
    )
    assert not stopped["choices"][0]["message"].get("tool_calls")
    assert stopped["tenon"]["loop"]["repeats"] == 3
