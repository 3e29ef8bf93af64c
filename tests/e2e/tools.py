"""Tools and helpers that several tests use."""
import json
import subprocess

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

GREEDY = {"model": "tenon-tiny", "temperature": 0, "max_tokens": 128}


def user(text):
    return [{"role": "user", "content": text}]


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
