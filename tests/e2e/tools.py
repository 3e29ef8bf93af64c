"""Tools and helpers that several tests use."""
import json
import re
import subprocess

import requests
from serving import TENON

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City and state, e.g. San Francisco, CA"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Temperature unit"}},
        "required": ["location"]}}}

MULTIPLY = {"type": "function", "function": {
    "name": "multiply", "description": "Multiply two numbers",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                   "required": ["a", "b"]}}}


def only(value, name="get_weather", parameter="location"):
    """A tool whose calls can be written in one way: what they say is known, whatever the model."""
    return {"type": "function", "function": {"name": name, "description": "Get the current weather for a location", "parameters": {
        "type": "object", "properties": {parameter: {"const": value}}, "required": [parameter], "additionalProperties": False}}}


GREEDY = {"model": "tenon-tiny", "temperature": 0, "max_tokens": 128}


def user(text):
    return [{"role": "user", "content": text}]


def biased(url, text, bias, model="tenon-tiny"):
    """A logit_bias of the tokens of `text`, control tokens among them."""
    body = {"model": model, "content": text, "parse_special": True}
    return {str(id): bias for id in requests.post(url + "/tokenize", json=body, timeout=60).json()["tokens"]}


def without(url, controls, model="tenon-tiny"):
    """A logit_bias with which these control tokens do not come."""
    return biased(url, controls, -100, model)


def endless(server, model="tenon-tiny"):
    """One with which no answer ends by itself."""
    return without(server.url, "<|im_end|><|endoftext|>", model)


# Control tokens that end no turn: engines differ in what text they are.
MARKERS = "<|im_start|><tool_call></tool_call><tool_response></tool_response>"

# Tokens that end a turn, as entries of top_logprobs have them.
ENDS = (b"<|im_end|>", b"<|endoftext|>")

# A whole call of get_weather, as JSON, wherever it stands in a text.
WEATHER_CALL = re.compile(r'\{\s*"name":\s*"get_weather",\s*"arguments":\s*\{\s*"city":\s*"[^"\\]*"\s*\}\s*\}')


def calling(url, model):
    """A logit_bias with which nothing comes but what a call of get_weather consists of. No bias says in which order: that is up
    to the model still."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>'
    return biased(url, call, 50, model)


def settled(ask):
    """What `ask` gives the second time. The first time the prompt is not in the cache, or less of it: the embedded engine then
    computes more at once, which changes the last bits of logits, and so now and then a token."""
    ask()
    return ask()


def assert_same_but_for_ties(choice, text, tie=0.1):
    """That `text`, the greedy answer of another engine with the same weights, is that of `choice`, which has top_logprobs. Engines
    round otherwise, so that among tokens that are as good as equally likely each may have its own; from there on they may differ.
    A text that ends early is one whose engine chose an end of the turn there."""
    if text == (choice["message"]["content"] or "") and not choice["message"].get("tool_calls"):
        return
    told, whole = b"", text.encode()

    def goes_on_with(entry):
        said = bytes(entry["bytes"])
        return said in ENDS if told == whole else said != b"" and whole.startswith(told + said)

    for token in choice["logprobs"]["content"]:
        if not token["bytes"]:
            continue
        if not goes_on_with(token):
            others = [one for one in token["top_logprobs"] if goes_on_with(one)]
            assert any(abs(one["logprob"] - token["logprob"]) < tie for one in others), (told, token, text)
            return
        if told == whole:
            return  # both end here
        told += bytes(token["bytes"])
    assert told == whole or told != b"" and choice["finish_reason"] == "length", (told, text)


def fold_stream(chunks):
    """The message that a stream of SDK chunks adds up to, and its finish reason."""
    content, calls, finish = "", {}, None
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for delta in choice.delta.tool_calls or []:
                call = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += delta.id or ""
                if delta.function:
                    call["name"] += delta.function.name or ""
                    call["arguments"] += delta.function.arguments or ""
            finish = choice.finish_reason or finish
    return content or None, [calls[index] for index in sorted(calls)], finish


def calls_of(message):
    return [{"id": c.id, "name": c.function.name, "arguments": c.function.arguments} for c in message.tool_calls or []]


def without_ids(calls):
    return [(c["name"], json.loads(c["arguments"])) for c in calls]


def make_key(name, *limits):
    run = subprocess.run([str(TENON), "key", name, "--json", *limits], capture_output=True, text=True, check=True)
    made = json.loads(run.stdout)
    return made["key"], made["line"] + "\n"


def bearer(key):
    return {"authorization": f"Bearer {key}"}
