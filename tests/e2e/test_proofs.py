"""The promise, with the bundled model at its worst and Python's jsonschema as the judge: no call is invalid.

Quick: some requests in every format. With TENON_LONG=1: 20 calls of each format, and 400 requests in the shape of
K2-Vendor-Verifier's (conversations with many tools, streamed and whole); what the model gets right on tools that it never
saw, held to their schemas and not. TENON_PROOF=5, say, takes another sample, by that seed; with TENON_LONG=1, TENON_PROOF=all takes
500 calls of each format and 4,000 requests, which is hours. The formats are dealt out to several servers, each of which pytest may
run in a process of its own.
"""
import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys

import jsonschema
import pytest
import requests
from data import LARGE, SAMPLES
from serving import ROOT, TENON, serving
from tools import user

IS_LONG = bool(os.environ.get("TENON_LONG"))
PROOF = os.environ.get("TENON_PROOF") or "0"
IS_WHOLE = IS_LONG and PROOF == "all"
SEED = 0 if PROOF == "all" else int(PROOF)
MODEL = ROOT / "models" / "tenon-tiny.gguf"
REQUESTS = [file for file in (folder / "formats" / "bfcl_public.jsonl" for folder in (SAMPLES, LARGE)) if file.exists()]


def function(name, properties, **rest):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties, **rest}}}


# Texts have a bound: a sampler at its worst ends no other.
TOOLS = [
    function("weather", {"location": {"type": "string", "maxLength": 15}, "unit": {"enum": ["celsius", "fahrenheit"]}},
             required=["location"]),
    function("multiply", {"a": {"type": "number", "minimum": -1000, "maximum": 1000}, "b": {"type": "integer", "maximum": 99}},
             required=["a", "b"]),
    function("no_arguments", {}, additionalProperties=False),
    function("book", {
        "from": {"type": "string", "minLength": 2, "maxLength": 12}, "day": {"type": "string", "format": "date"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 9}, "class": {"enum": ["economy", "first"]},
        "window": {"type": "boolean"}, "note": {"type": ["string", "null"], "maxLength": 20}},
        required=["from", "day", "seats"], additionalProperties=False),
    function("draw", {
        "shape": {"type": "object", "properties": {"kind": {"const": "line"}, "points": {
            "type": "array", "minItems": 1, "maxItems": 3, "items": {"$ref": "#/$defs/point"}}},
            "required": ["kind", "points"], "additionalProperties": False},
        "colour": {"type": "string", "pattern": "^#[0-9a-f]{6}$"}}, required=["shape"],
        **{"$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0}, "y": {"enum": [0, 0.5, 1]}},
                               "required": ["x", "y"], "additionalProperties": False}}}),
    function("search", {"fråga": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"enum": ["a", "b", 3, None]}}]}},
             required=["fråga"]),
]


def format_names():
    formats = json.loads(subprocess.run([TENON, "formats", "--json"], capture_output=True, check=True).stdout)
    return [known["name"] for known in formats]


SHARES = 4  # of the formats, each with a server


@pytest.fixture(scope="module")
def server_of(tmp_path_factory):
    """server_of(share): a server that has the bundled model once for each format of the share. One runs at a time."""
    running = {}
    with contextlib.ExitStack() as stack:
        def server_of(share):
            if share not in running:
                stack.pop_all().close()
                running.clear()
                folder = tmp_path_factory.mktemp("formats")
                config = folder / "tenon.toml"
                config.write_text("\n".join(
                    f'[[model]]\nname = "{name}"\npath = "{MODEL}"\ntool_call_format = "{name}"\ncontext_tokens = 2048\nthreads = 1\nmax_concurrent = 2\n'
                    for name in format_names()[share::SHARES]))
                running[share] = stack.enter_context(serving(folder / "serve.log", "--config", str(config), ready_s=120))
            return running[share]

        yield server_of


def biases(url, model):
    """Samplers at their worst, as request fields: hot, greedy for ends, for white space, for quotes and brackets."""
    def ids(text):
        answer = requests.post(url + "/tokenize", json={"model": model, "content": text, "parse_special": True}, timeout=30)
        return answer.json()["tokens"]

    def toward(*texts):
        return {str(id): 20 for text in texts for id in ids(text)}

    return [{"temperature": 2.0}, {"temperature": 1.0, "logit_bias": toward("<|im_end|>", "<|endoftext|>")},
            {"temperature": 1.5, "logit_bias": toward(" ", "\n", "\t")},
            {"temperature": 1.5, "logit_bias": toward('"', "{", "}", "[", "]", "<", ">", ",")}]


def folded(lines):
    """answer_of for the lines of a stream."""
    calls, finish, guarantee = {}, None, None
    for line in lines:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        assert "error" not in chunk, chunk
        guarantee = chunk.get("tenon", {}).get("guarantee", guarantee)
        for choice in chunk["choices"]:
            for delta in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(delta["index"], {"name": "", "arguments": ""})
                for field in call:
                    call[field] += delta.get("function", {}).get(field) or ""
            finish = choice["finish_reason"] or finish
    return list(calls.values()), finish, guarantee


def answer_of(session, url, body):
    """(calls, finish reason, guarantee) of a request, streamed or whole."""
    answer = session.post(url + "/v1/chat/completions", json=body, timeout=300, stream=body.get("stream", False))
    assert answer.status_code == 200, answer.text[:2000]
    if body.get("stream"):
        return folded(answer.iter_lines())
    choice = answer.json()["choices"][0]
    calls = [call["function"] for call in choice["message"].get("tool_calls") or []]
    return calls, choice["finish_reason"], answer.json()["tenon"]["guarantee"]


def faults_of(calls, tools):
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    for call in calls:
        if call["name"] not in schemas:
            yield f"no such tool: {call}"
            continue
        try:
            jsonschema.validate(json.loads(call["arguments"]), schemas[call["name"]])
        except (ValueError, jsonschema.ValidationError) as error:
            yield f"{call}: {str(error)[:300]}"


def run_all(url, bodies, wanted):
    """Sends `bodies` until `wanted` calls have come; gives their number, that of whole answers, and the faults."""
    sessions = [requests.Session() for _ in range(2)]
    calls = answers = 0
    faults = []
    with concurrent.futures.ThreadPoolExecutor(len(sessions)) as pool:
        while calls < wanted:
            some = list(itertools.islice(bodies, 8 if IS_LONG else 4))  # quick: each manner once
            if not some:
                break
            jobs = [pool.submit(answer_of, sessions[i % len(sessions)], url, body) for i, body in enumerate(some)]
            for job, body in zip(jobs, some):
                made, finish, guarantee = job.result()
                is_cut = finish == "length"
                if is_cut and not body.get("tenon", {}).get("close_calls"):
                    made = made[:-1]  # the last one may be open
                answers += not is_cut
                calls += len(made)
                faults += faults_of(made, body["tools"])
                if is_cut:
                    continue  # the guarantee speaks of the open call too
                if made and guarantee != "masked":
                    faults.append(f"guarantee {guarantee}")
                if body.get("tool_choice") == "required" and not made:
                    faults.append(f"no call where one was demanded: {body['messages'][-1]}")
    return calls, answers, faults


@pytest.mark.parametrize("share,name", [
    pytest.param(number % SHARES, name, id=f"share{number % SHARES}-{name}")
    for number, name in sorted(enumerate(format_names()), key=lambda each: each[0] % SHARES)])
def test_every_format_gives_valid_calls_only(server_of, share, name):
    server = server_of(share)
    wanted = 500 if IS_WHOLE else 20 if IS_LONG else 2
    manners = biases(server.url, name)
    dice = random.Random(f"{name}{SEED or ''}")

    def bodies():
        first = 0 if IS_LONG else 4 * (len(name) % 2)  # every other format goes on where the first ones stop
        for number in range(first, first + 40 * wanted):
            yield {"model": name, "messages": user(dice.choice(["hello", "What is 3 times 4?", "Draw a line from 1,2 to 3,4."])),
                   "tools": dice.sample(TOOLS, 3), "tool_choice": "required", "max_tokens": 250, "seed": SEED * 100_000 + number,
                   "stream": number % 2 == 0, "parallel_tool_calls": number % 8 == 0, **manners[number % len(manners)],
                   "tenon": {"close_calls": number % 3 > 0}}

    calls, answers, faults = run_all(server.url, bodies(), wanted)
    print(f"{name}: {calls} calls in {answers} answers")
    assert not faults, "\n".join(faults[:5])
    assert calls >= wanted


def conversations(dice):
    """Requests in the shape of K2-Vendor-Verifier's: many tools, several turns, the model chooses."""
    rows = [json.loads(line) for file in REQUESTS for line in file.open()]
    if len(REQUESTS) == 1:
        print(f"the large set of requests is not at {LARGE}: conversations over our own alone")
    while True:
        row, other = dice.choice(rows), dice.choice(rows)
        named = {tool["function"]["name"]: tool for tool in [*row["tools"], *other["tools"], *dice.sample(TOOLS, 2)]}
        tools = list(named.values())[:8]
        dice.shuffle(tools)
        messages = [{"role": "system", "content": "Use the tools where they help."}, *row["messages"]]
        if dice.random() < 0.4:  # a call and its result lie behind
            call = {"id": "call_1", "type": "function", "function": {"name": tools[0]["function"]["name"], "arguments": "{}"}}
            messages += [{"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "call_1", "content": "{\"ok\": true}"}, *other["messages"][-1:]]
        yield messages, tools


def test_conversations_with_many_tools_give_valid_calls_only(server):
    wanted = 4000 if IS_WHOLE else 400 if IS_LONG else 24
    dice = random.Random(2 + SEED)

    def bodies():
        for number, (messages, tools) in zip(range(wanted), conversations(dice)):
            yield {"model": "tenon-tiny", "messages": messages, "tools": tools, "temperature": 0.6, "max_tokens": 300,
                   "seed": SEED * 100_000 + number, "stream": number % 2 == 0, "tool_choice": "auto" if number % 4 else "required",
                   "tenon": {"close_calls": number % 4 == 0}}  # those that count

    calls, answers, faults = run_all(server.url, bodies(), float("inf"))
    print(f"{wanted} requests, {answers} whole answers, {calls} calls")
    assert not faults, f"{len(faults)} of {calls} calls:\n" + "\n".join(faults[:5])
    assert calls > wanted // 8


@pytest.mark.skipif(not IS_LONG, reason="takes minutes: make test-long")
def test_being_held_to_schemas_costs_no_accuracy_on_tools_never_seen(server):
    sys.path.insert(0, str(ROOT / "training"))
    import evaluate
    import heldout

    judge = evaluate.Judge(str(MODEL))
    session = requests.Session()
    rows = [*heldout.conversations("call", 150, 7), *heldout.conversations("parallel", 100, 7), *evaluate.hand_written()[0]]
    right = {"held": 0, "free": 0}
    faults = []
    for tools, messages in rows:
        wanted = [(call["function"]["name"], call["function"]["arguments"]) for call in messages[-1]["tool_calls"]]
        body = {"model": "tenon-tiny", "messages": messages[:-1], "tools": tools, "temperature": 0, "max_tokens": 300}
        calls, finish, _ = answer_of(session, server.url, body)
        if finish != "length":  # a call that is cut does not count
            faults += faults_of(calls, tools)
            right["held"] += [(call["name"], json.loads(call["arguments"])) for call in calls] == wanted
        right["free"] += evaluate.read_calls(judge.reply(tools, messages[:-1])) == wanted
    print(f"of {len(rows)} on tools never seen: {right}")
    assert not faults, "\n".join(faults[:5])
    assert right["held"] >= right["free"]
