"""One log of events through the three encoders, read by the SDKs that people use, in Python and in Node: streamed or
whole, in whichever dialect, every answer decodes to the same. `random_answers` makes them (random_answers.cc)."""
import json
import os
import random
import subprocess

import anthropic
import httpx2
import jiter
import openai
import pytest
from serving import ROOT, TENON

PROGRAM = TENON.parent / "random_answers"
ANSWERS = 10_000 if os.environ.get("TENON_LONG") else 300
BATCH = 100
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class Wire:
    """Both SDKs, over a transport that answers with one encoded answer, in pieces cut anywhere."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.body = b""
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        self.openai = openai.OpenAI(base_url="http://tenon/v1", api_key="x", max_retries=0, http_client=http)
        self.anthropic = anthropic.Anthropic(base_url="http://tenon", api_key="x", max_retries=0, http_client=http)

    def streams(self, text):
        self.body, self.type = text.encode(), "text/event-stream"
        return self

    def is_whole(self, value):
        self.body, self.type = json.dumps(value).encode(), "application/json"
        return self

    def _answer(self, request):
        return httpx2.Response(200, headers={"content-type": self.type}, content=self._pieces(self.body))

    def _pieces(self, body):
        at = 0
        while at < len(body):
            size = self.random.choice((1, 7, 80, 1000, 100_000))
            yield body[at:at + size]
            at += size


def folded(parts):
    """What a dialect says that has no order between text, reasoning and calls."""
    return {"content": "".join(part["text"] for part in parts if part["kind"] == "content"),
            "reasoning": "".join(part["text"] for part in parts if part["kind"] == "reasoning"),
            "calls": [part for part in parts if part["kind"] in ("call", "custom")]}


def text_input(arguments, is_cut):
    """The input of a custom tool's call: that of its arguments, which are cut."""
    if not is_cut:
        return json.loads(arguments)["input"]
    try:
        value = jiter.from_json(arguments.encode(), partial_mode="trailing-strings")
    except ValueError:  # nothing, or cut in a key
        return ""
    return value.get("input", "")


def truth_of(answer):
    truth = answer["truth"]
    parts = []
    for part in truth["parts"]:
        if part["kind"] in ("call", "custom"):
            part = {**part, "arguments": part["text"]}
            del part["text"]
        parts.append(part)
    usage = {key: truth["usage"][key] for key in ("prompt", "cached", "completion", "reasoning")}
    return parts, truth["finish"], usage, truth["error"], truth["stop_sequence"]


# ---- Chat Completions ---------------------------------------------------------------------------


def chat_calls(message):
    """The calls of the SDK's message. It does not know custom tools' calls in streams, and keeps what came."""
    for call in message.tool_calls or []:
        if call.type == "custom":
            custom = call.custom if isinstance(call.custom, dict) else call.custom.to_dict()
            yield {"kind": "custom", "id": call.id, "name": custom["name"], "input": custom["input"]}
        else:
            yield {"kind": "call", "id": call.id, "name": call.function.name, "arguments": call.function.arguments}


def of_chat(completion):
    choice = completion.choices[0]
    reasoning = (choice.message.model_extra or {}).get("reasoning_content")
    # Without text and calls the whole answer says "", because a stream's beginning cannot know it yet.
    return {"content": choice.message.content or None, "reasoning": reasoning,
            "calls": list(chat_calls(choice.message)), "finish": choice.finish_reason,
            "usage": completion.usage and usage_of_chat(completion.usage),
            "logprobs": "".join(token.token for token in choice.logprobs.content or []) if choice.logprobs else None}


def usage_of_chat(usage):
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return {"prompt": usage.prompt_tokens, "cached": usage.prompt_tokens_details.cached_tokens,
            "completion": usage.completion_tokens, "reasoning": usage.completion_tokens_details.reasoning_tokens}


def streamed_chat(wire, text):
    error = ""
    with wire.streams(text).openai.chat.completions.stream(**ASK) as stream:
        try:
            for _ in stream:
                pass
        except openai.APIError as raised:
            error = raised.body["message"]
        return stream._state.current_completion_snapshot, error


def check_chat(wire, answer, truth):
    parts, finish, usage, error, _ = truth
    said = folded(parts)
    calls = []
    for call in said["calls"]:
        call = dict(call)
        is_cut = call.pop("is_cut")
        if call["kind"] == "custom":
            call["input"] = text_input(call.pop("arguments"), is_cut)
        calls.append(call)
    expected = {"content": said["content"] or None, "reasoning": said["reasoning"] or None, "calls": calls,
                "finish": finish, "usage": usage}
    streamed, raised = streamed_chat(wire, answer["chat"]["stream"])
    assert raised == error
    if error:
        expected["finish"] = expected["usage"] = None
    got = of_chat(streamed)
    logprobs = got.pop("logprobs")
    assert got == expected
    if answer["truth"]["logprobs"]:
        assert (logprobs or "") == said["content"]
    if error:
        return
    whole = of_chat(wire.is_whole(answer["chat"]["whole"]).openai.chat.completions.create(**ASK))
    logprobs = whole.pop("logprobs")
    assert whole == expected
    if answer["truth"]["logprobs"]:
        assert logprobs == said["content"]


# ---- Responses ----------------------------------------------------------------------------------


def response_parts(response):
    for item in response.output:
        if item.type == "message":
            yield {"kind": "content", "text": item.content[0].text}
        elif item.type == "reasoning":
            yield {"kind": "reasoning", "text": item.content[0].text}
        elif item.type == "function_call":
            yield {"kind": "call", "id": item.call_id, "name": item.name, "arguments": item.arguments,
                   "is_cut": item.status == "incomplete"}
        else:
            assert item.type == "custom_tool_call"
            yield {"kind": "custom", "id": item.call_id, "name": item.name, "input": item.input,
                   "is_cut": item.to_dict()["status"] == "incomplete"}


def usage_of_response(usage):
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    return {"prompt": usage.input_tokens, "cached": usage.input_tokens_details.cached_tokens,
            "completion": usage.output_tokens, "reasoning": usage.output_tokens_details.reasoning_tokens}


def as_sent(value):
    """Without what the SDK adds to what it has read from a stream."""
    if isinstance(value, list):
        return [as_sent(each) for each in value]
    if isinstance(value, dict):
        return {key: as_sent(each) for key, each in value.items() if key not in ("parsed", "parsed_arguments")}
    return value


def folded_response(wire, text):
    """The response by the SDK's own fold of the deltas, and the last event's, which has it whole."""
    deltas = {}
    with wire.streams(text).openai.responses.stream(model="m", input="hi") as stream:
        for event in stream:
            if event.type.endswith(".delta"):
                deltas[event.output_index] = deltas.get(event.output_index, "") + event.delta
        return event.response, [deltas.get(index, "") for index in range(len(event.response.output))]


def check_responses(wire, answer, truth):
    parts, finish, usage, error, _ = truth
    expected = []
    for part in parts:
        part = dict(part)
        if part["kind"] == "custom":
            part["input"] = text_input(part.pop("arguments"), part["is_cut"])
        expected.append(part)
    response, deltas = folded_response(wire, answer["responses"]["stream"])
    got = list(response_parts(response))
    assert got == expected
    assert [part.get("text", part.get("arguments", part.get("input"))) for part in got] == deltas
    status = "failed" if error else {"length": "incomplete"}.get(finish, "completed")
    assert response.status == status
    if error:
        assert response.error.message == error
        return
    assert usage_of_response(response.usage) == usage
    assert (response.incomplete_details is not None) == (finish == "length")
    whole = wire.is_whole(answer["responses"]["whole"]).openai.responses.create(model="m", input="hi")
    assert as_sent(whole.to_dict()) == as_sent(response.to_dict())
    assert list(response_parts(whole)) == expected and usage_of_response(whole.usage) == usage
    assert whole.status == status
    if answer["truth"]["logprobs"]:
        said = [item for item in whole.output if item.type == "message"]
        assert all("".join(token.token for token in item.content[0].logprobs) == item.content[0].text for item in said)


# ---- Messages -----------------------------------------------------------------------------------


def message_parts(message):
    for block in message.content:
        if block.type == "text":
            yield {"kind": "content", "text": block.text}
        elif block.type == "thinking":
            yield {"kind": "reasoning", "text": block.thinking}
        else:
            assert block.type == "tool_use"
            yield {"kind": "call", "id": block.id, "name": block.name, "arguments": block.input}


def usage_of_message(usage):
    return {"prompt": usage.input_tokens + usage.cache_read_input_tokens, "cached": usage.cache_read_input_tokens,
            "completion": usage.output_tokens, "reasoning": usage.output_tokens_details.thinking_tokens}


def streamed_message(wire, text):
    error, inputs = "", {}
    with wire.streams(text).anthropic.messages.stream(**ASK, max_tokens=1) as stream:
        try:
            for event in stream:
                if event.type == "content_block_start" and event.content_block.type == "tool_use":
                    inputs[event.index] = ""
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    inputs[event.index] += event.delta.partial_json
        except anthropic.APIError as raised:
            error = raised.body["error"]["message"]
        return stream.current_message_snapshot, list(inputs.values()), error


def check_messages(wire, answer, truth):
    parts, finish, usage, error, stop_sequence = truth
    expected, texts, cut = [], [], None
    for part in parts:
        if part["kind"] in ("call", "custom"):
            texts.append(part["arguments"])
            if part["is_cut"]:
                cut = len(expected)
            part = {"kind": "call", "id": part["id"], "name": part["name"],
                    "arguments": {} if part["is_cut"] else jiter.from_json(part["arguments"].encode())}
        expected.append(part)

    def parts_of(message):
        """A call that was cut may become any object."""
        got = list(message_parts(message))
        if cut is not None:
            assert isinstance(got[cut]["arguments"], dict)
            got[cut]["arguments"] = {}
        return got

    streamed, inputs, raised = streamed_message(wire, answer["messages"]["stream"])
    assert raised == error
    assert parts_of(streamed) == expected
    assert [text or "{}" for text in inputs] == [text or "{}" for text in texts]
    if error:
        return
    reason = "stop_sequence" if stop_sequence else {"length": "max_tokens", "tool_calls": "tool_use",
                                                    "stop": "end_turn"}[finish]
    whole = wire.is_whole(answer["messages"]["whole"]).anthropic.messages.create(**ASK, max_tokens=1)
    assert parts_of(whole) == expected
    for message in (streamed, whole):
        assert message.stop_reason == reason and (message.stop_sequence or "") == stop_sequence
        assert usage_of_message(message.usage) == usage


@pytest.mark.parametrize("first", range(0, ANSWERS, BATCH))
def test_every_dialect_says_the_same(first):
    assert PROGRAM.exists(), f"{PROGRAM} is missing: build the target `e2e`"
    made = subprocess.run([str(PROGRAM), str(first), str(BATCH)], capture_output=True, check=True, timeout=120)
    wire = Wire(first)
    lines = made.stdout.decode().split("\n")[:-1]
    assert len(lines) == BATCH
    for seed, line in enumerate(lines, first):
        answer = json.loads(line)
        truth = truth_of(answer)
        for check in (check_chat, check_responses, check_messages):
            try:
                check(wire, answer, truth)
            except Exception as problem:
                raise AssertionError(f"answer {seed}, {check.__name__}") from problem


def test_the_node_clients_read_the_same():
    assert PROGRAM.exists(), f"{PROGRAM} is missing: build the target `e2e`"
    with subprocess.Popen([str(PROGRAM), "0", str(ANSWERS)], stdout=subprocess.PIPE) as maker:
        read = subprocess.run(["node", "encoders.mjs"], cwd=ROOT / "tests" / "e2e" / "node", stdin=maker.stdout,
                              capture_output=True, text=True, timeout=900)
    assert read.returncode == 0 and int(read.stdout) == ANSWERS, read.stdout + read.stderr
