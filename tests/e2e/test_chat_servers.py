"""OpenAI-compatible chat endpoints behind `tenon serve`: a second Tenon, which answers as it does to who asks it directly, and
fakes of OpenAI's API and of EXO that take no field but those that the real ones have, each with the file that says so: the Python
package openai 3.52.0, and exo-explore/exo at 02d266c (types) and 164c081 (adapter)."""
import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from replaying import serving_recorded
from serving import ROOT, TENON, serving

MODEL = ROOT / "models" / "tenon-tiny.gguf"
CONFIG = """[[model]]
name = "there"
engine = "{engine}"
url = "http://127.0.0.1:{port}/v1"
upstream_model = "{model}"
"""
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "required": ["city"], "additionalProperties": False, "properties": {"city": {"type": "string"}}}}}
TIME = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}
LEAKED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}

NUMBER = (int, float)
# What each field may be. A dict stands for an object of such fields, a list for a list of one such thing.
OPENAI_MESSAGE = {  # openai/types/chat/chat_completion_*_message_param.py
    "role": str, "content": (str, list, type(None)), "tool_call_id": str, "name": str, "reasoning_content": str,
    "tool_calls": [{"id": str, "type": str, "function": {"name": str, "arguments": str}}],
}
TOOLS = [{"type": str, "function": dict}]                  # chat_completion_function_tool_param.py
OPENAI = {  # openai/types/chat/completion_create_params.py
    "model": str, "messages": [OPENAI_MESSAGE], "stream": bool, "stream_options": {"include_usage": bool}, "max_tokens": int,
    "temperature": NUMBER, "top_p": NUMBER, "seed": int, "presence_penalty": NUMBER, "frequency_penalty": NUMBER,
    "logit_bias": dict, "reasoning_effort": str, "tools": TOOLS, "tool_choice": (str, dict), "parallel_tool_calls": bool,
    "response_format": dict,
}
EXO = {  # src/exo/api/types/api.py: ChatCompletionRequest; its messages: ChatCompletionMessage
    "model": str, "messages": [OPENAI_MESSAGE], "stream": bool, "stream_options": {"include_usage": bool}, "max_tokens": int,
    "temperature": NUMBER, "top_p": NUMBER, "top_k": int, "min_p": NUMBER, "seed": int, "repetition_penalty": NUMBER,
    "reasoning_effort": str, "enable_thinking": bool, "tools": TOOLS,
}


def check(value, wanted, place):
    if isinstance(wanted, dict):
        assert isinstance(value, dict), place
        for key, member in value.items():
            assert key in wanted, f"{place}.{key} is no field"
            check(member, wanted[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(value, list), place
        for member in value:
            check(member, wanted[0], place)
    else:
        assert isinstance(value, wanted), f"{place} is {value!r}"


class Upstream(http.server.ThreadingHTTPServer):
    """Answers with the events of `script`; `fault`: a number of bytes after which the connection closes."""
    daemon_threads = True

    def __init__(self, kind):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.script, self.bodies, self.fault, self.type = kind, b"", [], None, "text/event-stream"
        self.refuses = None  # (status, retry-after)
        self.says = None  # why it refuses; None: by the key that it is asked with


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_json(self, value, status=200, more={}):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, text in more.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        assert self.path == "/v1/models"
        # openai/types/model.py; EXO: ModelListModel
        more = {"context_length": 4096} if self.server.kind == "exo" else {}
        self.send_json({"object": "list", "data": [{"id": "org/tiny", "object": "model", "created": 1, "owned_by": "x", **more}]})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            assert self.path == "/v1/chat/completions", self.path
            check(body, EXO if server.kind == "exo" else OPENAI, "body")
        except AssertionError as problem:
            return self.send_json({"error": {"message": str(problem), "type": "x", "code": 400}}, 400)
        server.bodies.append(body)
        if server.refuses:
            status, after = server.refuses
            return self.send_json({"error": {"message": server.says or f"no: {self.headers['authorization']}", "type": "x", "code": None}}, status,
                                  {"retry-after": after} if after else {})
        self.send_response(200)
        self.send_header("content-type", server.type)
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(server.script[:server.fault])
        self.close_connection = True


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 2},
         "completion_tokens_details": {"reasoning_tokens": 1}}


def chunk(delta, finish=None, **more):
    """openai/types/chat/chat_completion_chunk.py; EXO writes every member, null or not (chunk_to_response)"""
    return b"data: " + json.dumps({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "org/tiny", "choices": [
        {"index": 0, "delta": {"role": "assistant", "content": None, **delta}, "logprobs": None, "finish_reason": finish}],
        **more}).encode() + b"\n\n"


def openai_answer(text="", calls=()):
    events = [chunk({"content": text[at:at + 3]}) for at in range(0, len(text), 3)]
    for at, (name, arguments) in enumerate(calls):
        events.append(chunk({"tool_calls": [
            {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": ""}}]}))
        events += [chunk({"tool_calls": [{"index": at, "function": {"arguments": arguments[i:i + 2]}}]})
                   for i in range(0, len(arguments), 2)]
    usage = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "org/tiny", "choices": [], "usage": USAGE}
    return b"".join(events) + chunk({}, "tool_calls" if calls else "stop") + \
        b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n"


def exo_answer(text="", calls=()):
    """src/exo/api/adapters/chat_completions.py: generate_chat_stream; src/exo/api/keepalive.py"""
    events = [b": keep-alive\n\n: prefill_progress {\"processed_tokens\":1}\n\n", chunk({"reasoning_content": "hm"})]
    events += [chunk({"content": text[at:at + 3]}) for at in range(0, len(text), 3)]
    if calls:
        deltas = [{"id": f"u{at}", "index": at, "type": "function", "function": {"id": f"u{at}", "name": name, "arguments": arguments}}
                  for at, (name, arguments) in enumerate(calls)]
        events.append(chunk({"tool_calls": deltas}, "tool_calls", usage=USAGE))
    else:
        events.append(chunk({"content": ""}, "stop", usage=USAGE))
    return b"".join(events) + b": generation_stats {}\n\ndata: [DONE]\n\n"


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Setting:
    def __init__(self, url, upstream, config):
        self.url, self.upstream, self.config = url, upstream, config
        self.answer = exo_answer if upstream.kind == "exo" else openai_answer

    def ask(self, **fields):
        return post(f"{self.url}/v1/chat/completions", {
            "model": "there", "messages": [{"role": "user", "content": "What is the weather in Paris?"}], **fields})


@pytest.fixture(scope="module", params=["openai", "exo"])
def setting(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    upstream = Upstream(request.param)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(engine=request.param, port=upstream.server_port, model="org/tiny"))
        with serving_recorded(folder, "--config", str(config)) as server:
            yield Setting(server.url, upstream, config)
    finally:
        upstream.shutdown()
        upstream.server_close()


@pytest.fixture
def there(setting):
    setting.upstream.fault, setting.upstream.type, setting.upstream.refuses = None, "text/event-stream", None
    setting.upstream.script = setting.answer("Hi!")
    return setting


def calls_of(answer):
    return [(call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in answer["choices"][0]["message"].get("tool_calls") or []]


def test_calls_come_through(there):
    there.upstream.script = there.answer("Let me see.", [("get_weather", '{"city": "Paris"}'), ("get_time", "")])
    status, answer = there.ask(tools=[WEATHER, TIME])
    assert status == 200, answer
    assert calls_of(answer) == [("get_weather", {"city": "Paris"}), ("get_time", {})]
    assert answer["choices"][0]["message"]["content"] == "Let me see." and answer["choices"][0]["finish_reason"] == "tool_calls"
    ids = [call["id"] for call in answer["choices"][0]["message"]["tool_calls"]]
    assert all(one.startswith("call_") and len(one) > 20 for one in ids) and len(set(ids)) == 2
    assert answer["tenon"] == {"guarantee": "validated", "repairs": [], "format": "tool_calls", "taint": "unenforced"}
    assert answer["usage"]["prompt_tokens"] == 5 and answer["usage"]["completion_tokens"] == 7
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 2


def test_doctor_makes_nothing_up(there):
    command = [str(TENON), "doctor", "--config", str(there.config)]
    report = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=60).stdout)
    assert report["prompt"] == "messages" and report["tool_call_format"] is None
    assert report["holding"] == ("none" if there.upstream.kind == "exo" else "json_schema")
    assert report["context_tokens"] == (4096 if there.upstream.kind == "exo" else None)
    assert report["max_concurrent_is"] == "assumed"
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "  tool_call_format: not known\n" in shown and ("  context_tokens: not known\n" in shown) == (there.upstream.kind != "exo")


def test_leaked_calls_are_calls(there):
    there.upstream.script = there.answer(LEAKED)
    status, answer = there.ask(tools=[WEATHER])
    assert status == 200 and calls_of(answer) == [("get_weather", {"city": "Paris"})]
    assert answer["choices"][0]["message"]["content"] is None and answer["choices"][0]["finish_reason"] == "tool_calls"
    assert answer["tenon"]["guarantee"] == "validated" and answer["tenon"]["format"] != "tool_calls"
    status, answer = there.ask()
    assert answer["choices"][0]["message"]["content"] == LEAKED and not calls_of(answer)


# What leaks and what the server tells are calls of one answer.
def test_leaked_calls_stand_beside_others(there):
    there.upstream.script = there.answer(LEAKED, [("get_time", "{}")])
    status, answer = there.ask(tools=[WEATHER, TIME])
    assert status == 200 and calls_of(answer) == [("get_weather", {"city": "Paris"}), ("get_time", {})]
    there.upstream.script = there.answer("Both at once.", [("get_time", "{}")])
    status, answer = there.ask(tools=[WEATHER, TIME], n=2)
    assert [choice["message"]["tool_calls"][0]["function"]["name"] for choice in answer["choices"]] == ["get_time"] * 2


def test_other_dialects_are_answered(there):
    there.upstream.script = there.answer("Let me see.", [("get_weather", '{"city": "Paris"}')])
    schema = WEATHER["function"]["parameters"]
    status, answer = post(f"{there.url}/v1/messages", {
        "model": "there", "max_tokens": 50, "messages": [{"role": "user", "content": "?"}],
        "tools": [{"name": "get_weather", "input_schema": schema}]})
    assert status == 200 and answer["stop_reason"] == "tool_use"
    assert [block["type"] for block in answer["content"] if block["type"] != "thinking"] == ["text", "tool_use"]
    assert answer["content"][-1]["input"] == {"city": "Paris"} and answer["content"][-1]["id"].startswith("toolu_")
    status, answer = post(f"{there.url}/v1/responses", {
        "model": "there", "input": "?", "tools": [{"type": "function", "name": "get_weather", "parameters": schema}]})
    assert status == 200
    assert [item["type"] for item in answer["output"] if item["type"] != "reasoning"] == ["message", "function_call"]


def test_calls_are_validated_and_repaired(there):
    there.upstream.script = there.answer("", [("get_weather", '{"city": 5}')])
    answer = there.ask(tools=[WEATHER])[1]
    assert answer["tenon"]["guarantee"] in ("unenforced", "repaired")
    there.upstream.script = there.answer("", [("getWeather", '{"city": "Paris"}')])
    answer = there.ask(tools=[WEATHER])[1]
    assert not calls_of(answer) and json.loads(answer["choices"][0]["message"]["content"]) == {
        "name": "getWeather", "arguments": {"city": "Paris"}}
    assert [one["code"] for one in answer["tenon"]["repairs"]] == ["unknown_tool"]
    there.upstream.script = there.answer("", [("get_weather", '{"city": "Paris"}'), ("get_time", "{}")])
    assert len(calls_of(there.ask(tools=[WEATHER, TIME], parallel_tool_calls=False)[1])) == 1


def test_what_is_asked_is_passed_on(there):
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|im_end|>x"},
               {"role": "assistant", "content": None, "tool_calls": [
                   {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}]},
               {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
    status, answer = there.ask(messages=history, tools=[WEATHER, TIME], temperature=0.5, seed=7, max_tokens=9, stop=["zz"],
                               tool_choice={"type": "function", "function": {"name": "get_weather"}}, parallel_tool_calls=False)
    assert status == 200, answer
    body = there.upstream.bodies[-1]
    assert body["messages"] == history
    assert (body["temperature"], body["seed"], body["max_tokens"], "stop" in body) == (0.5, 7, 9, False)
    is_exo = there.upstream.kind == "exo"
    assert body["tools"] == ([WEATHER] if is_exo else [WEATHER, TIME])
    assert body.get("tool_choice") == (None if is_exo else {"type": "function", "function": {"name": "get_weather"}})
    assert body.get("parallel_tool_calls") == (None if is_exo else False)
    assert [one["code"] for one in answer["tenon"]["repairs"]] == (["not_held"] if is_exo else [])
    assert there.ask(tools=[WEATHER], tool_choice="none")[0] == 200 and "tools" not in there.upstream.bodies[-1]
    there.ask(stop=["i"])
    assert there.ask(stop=["i"])[1]["choices"][0]["message"]["content"] == "H"


def test_a_response_format_is_passed_on_or_refused(there):
    there.upstream.script = there.answer('{"n": 1}')
    status, answer = there.ask(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}})
    if there.upstream.kind == "exo":
        assert status == 400 and answer["error"]["param"] == "response_format"
        return
    assert status == 200 and answer["choices"][0]["message"]["content"] == '{"n": 1}'
    assert there.upstream.bodies[-1]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert answer["tenon"]["guarantee"] == "upstream"


def test_reasoning_is_reasoning(there):
    if there.upstream.kind == "openai":
        there.upstream.script = chunk({"reasoning": "hm"}) + there.answer("Hi!")
    message = there.ask()[1]["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "Hi!")


def test_a_stream_is_the_same(there):
    there.upstream.script = there.answer("Let me see.", [("get_weather", '{"city": "Paris"}')])
    request = urllib.request.Request(f"{there.url}/v1/chat/completions", json.dumps({
        "model": "there", "messages": [{"role": "user", "content": "?"}], "tools": [WEATHER], "stream": True}).encode(),
        {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [line[6:].strip() for line in answer if line.startswith(b"data: ")]
    assert lines[-1] == b"[DONE]"
    deltas = [json.loads(line)["choices"][0] for line in lines[:-1]]
    assert "".join(each["delta"].get("content") or "" for each in deltas) == "Let me see."
    pieces = [piece for each in deltas for piece in each["delta"].get("tool_calls", [])]
    assert json.loads("".join(piece["function"].get("arguments", "") for piece in pieces)) == {"city": "Paris"}
    assert {piece["index"] for piece in pieces} == {0} and deltas[-1]["finish_reason"] == "tool_calls"


def test_a_document_is_an_answer_too(there):
    there.upstream.type = "application/json"
    there.upstream.script = json.dumps({"id": "c1", "object": "chat.completion", "created": 1, "model": "org/tiny", "choices": [{
        "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Let me see.", "tool_calls": [{
            "id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]}}],
        "usage": USAGE}).encode()
    answer = there.ask(tools=[WEATHER])[1]
    assert calls_of(answer) == [("get_weather", {"city": "Paris"})]
    assert answer["choices"][0]["message"]["content"] == "Let me see." and answer["usage"]["completion_tokens"] == 7


def test_one_of_several_nodes_is_heard(there):
    if there.upstream.kind != "exo":
        return
    other = there.answer("Hi!", [("get_weather", '{"city": "Paris"}')]).replace(b'"c1"', b'"c2"')
    mine = there.answer("Hi!", [("get_weather", '{"city": "Paris"}')])
    events = [event + b"\n\n" for pair in zip(mine.split(b"\n\n"), other.split(b"\n\n"), strict=True) for event in pair]
    there.upstream.script = b"".join(events).replace(b"data: [DONE]\n\n", b"", 1)
    answer = there.ask(tools=[WEATHER])[1]
    assert calls_of(answer) == [("get_weather", {"city": "Paris"})]
    assert answer["choices"][0]["message"]["content"] == "Hi!"


def test_prompts_and_tokens_are_refused(there):
    for path, body in (("/v1/completions", {"prompt": "x"}), ("/v1/completions", {"prompt": "x", "echo": True}),
                       ("/tokenize", {"content": "x"}), ("/detokenize", {"tokens": [1]}),
                       ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "x"}]})):
        status, answer = post(there.url + path, {"model": "there", **body})
        assert status == 400 and "takes messages" in answer["error"]["message"], (path, answer)
    for fields in ({"logprobs": True}, {"tenon": {"close_calls": True}}):
        assert there.ask(**fields)[0] == 400
    status, answer = there.ask(presence_penalty=1)
    assert (status, answer.get("error", {}).get("param")) == ((400, "presence_penalty") if there.upstream.kind == "exo" else (200, None))
    status, models = 200, json.load(urllib.request.urlopen(there.url + "/v1/models"))
    assert models["data"][0]["capabilities"]["tool_calls"] is True


def test_errors_are_told(there):
    there.upstream.script = chunk({"content": "a"}) + b'data: {"error": {"message": "a node is gone", "code": 500}}\n\ndata: [DONE]\n\n'
    status, answer = there.ask()
    assert status >= 500, answer


# Whose fault it is decides what a client does then. What is said of a key is not for clients.
@pytest.mark.parametrize("upstream, after, status, code, told_after", [
    (401, None, 502, "engine_denied", None), (403, None, 502, "engine_denied", None), (404, None, 502, "engine_denied", None),
    (429, "17", 429, "engine_busy", "17"), (429, None, 429, "engine_busy", "1"),
    (503, "9", 503, "engine_error", "9"), (500, None, 503, "engine_error", "1"), (400, None, 400, "invalid_value", None)])
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_server_refuses_has_its_own_status(there, upstream, after, status, code, told_after, stream):
    there.upstream.refuses = (upstream, after)
    body = json.dumps({"model": "there", "stream": stream, "messages": [{"role": "user", "content": "?"}]}).encode()
    request = urllib.request.Request(f"{there.url}/v1/chat/completions", body, {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    error = json.load(refused.value)["error"]
    assert (refused.value.code, error["code"], refused.value.headers["retry-after"]) == (status, code, told_after)
    assert ("no: " in error["message"]) == (upstream not in (401, 403)), error


# Usage of an answer that was not counted, and of one that is ended early, in every dialect.
@pytest.mark.parametrize("stop", [None, "!"])
def test_usage_that_was_not_told_is_estimated(there, stop):
    whole = there.upstream.script
    there.upstream.script = whole if stop else b"".join(
        chunk({"content": text}) for text in ("Hi", "!")) + chunk({}, "stop") + b"data: [DONE]\n\n"
    if stop:  # what would tell is never read
        there.upstream.script = chunk({"content": "Hi"}) + chunk({"content": "!"}) + chunk({"content": "more"}) * 10000
    ways = [("chat/completions", {"messages": [{"role": "user", "content": "?"}]}, {"stop": stop}, "completion_tokens"),
            ("messages", {"max_tokens": 50, "messages": [{"role": "user", "content": "?"}]}, {"stop_sequences": [stop]}, "output_tokens"),
            ("responses", {"input": "?"}, None, "output_tokens")]
    for path, body, stops, counted in ways:
        if stop and stops is None:
            continue
        status, answer = post(f"{there.url}/v1/{path}", {"model": "there", **body, **(stops if stop else {})})
        assert status == 200, answer
        assert answer["tenon"]["usage"] == "estimated" and answer["usage"][counted] >= 2, answer
        assert answer["usage"].get("prompt_tokens", answer["usage"].get("input_tokens")) > 10
    there.upstream.script = whole
    assert "usage" not in there.ask()[1]["tenon"]


# Cut anywhere, an answer is whole, or an error.
def test_an_answer_may_break_off_at_every_byte(there):
    there.upstream.script = there.answer("", [("get_weather", '{"city": "Paris"}')])
    whole = 0
    for cut in range(0, len(there.upstream.script) + 1, 37):
        there.upstream.fault = cut
        status, answer = there.ask(tools=[WEATHER])
        assert status == 200 or (status >= 500 and answer["error"]["message"]), (cut, status, answer)
        if status == 200:
            whole += 1
            assert calls_of(answer) == [("get_weather", {"city": "Paris"})]
    assert whole > 0


QUESTIONS = [{}, {"tools": [WEATHER]}, {"tools": [WEATHER, TIME], "tool_choice": "required"},
             {"tools": [WEATHER, TIME], "tool_choice": {"type": "function", "function": {"name": "get_time"}}},
             {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}}]


def test_a_second_tenon_answers_as_it_does_directly(tmp_path):
    with serving(tmp_path / "behind.log", "--model", str(MODEL)) as behind:
        name = json.load(urllib.request.urlopen(behind.url + "/v1/models"))["data"][0]["id"]
        config = tmp_path / "tenon.toml"
        config.write_text(CONFIG.format(engine="openai", port=behind.port, model=name))
        with serving(tmp_path / "front.log", "--config", str(config)) as front:
            for fields in QUESTIONS:
                for question in ("What is the weather in Paris?", "Hello!"):
                    answers = []
                    for url, model in ((behind.url, name), (behind.url, name), (front.url, "there")):
                        status, answer = post(f"{url}/v1/chat/completions", {
                            "model": model, "messages": [{"role": "user", "content": question}], "temperature": 0,
                            "max_tokens": 100, **fields})
                        assert status == 200, answer
                        choice = answer["choices"][0]
                        answers.append((choice["message"]["content"], [
                            (call["function"]["name"], call["function"]["arguments"])
                            for call in choice["message"].get("tool_calls") or []], choice["finish_reason"], answer["usage"]["prompt_tokens"]))
                    assert answers[1] == answers[2], fields  # the first one settles the cache (tools.settled)


CANARY = "heron-word-3"


def error_event(error):
    return b"data: " + json.dumps(error).encode() + b"\n\n"


# What an upstream says that must stand in no line of the log, on each way that it may take into one.
SAID = {
    "unknown_tool": openai_answer(calls=[(CANARY, '{"to": "x"}')]),
    "unknown_tool_as_text": openai_answer(f'<tool_call>\n{{"name": "{CANARY}", "arguments": {{}}}}\n</tool_call>'),
    "near_miss": openai_answer(f'{{"name": "{CANARY}", "parameters": {{"x": 1}}}}'),
    "invalid_arguments": openai_answer(calls=[("get_weather", json.dumps({"city": {CANARY: 1}, "more": CANARY}))]),
    "mended_arguments": openai_answer(calls=[("get_weather", json.dumps({"city": "Paris", CANARY: "1"}))]),
    "spoilt_call": openai_answer(calls=[("get_weather", '{"city": "' + CANARY)]),
    "no_json": openai_answer(calls=[("get_weather", CANARY)]),
    "error_in_the_stream": chunk({"content": "a"}) + error_event({"error": {"message": CANARY, "code": 503}}),
    "denied_in_the_stream": error_event({"error": {"message": CANARY, "code": 401}}),
    "finish_reason": chunk({"content": CANARY}, "error"),
    "no_json_at_all": f"data: <{CANARY}>\n\n".encode(),
    "cut": chunk({"content": CANARY}),
    "cut_in_a_call": chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": CANARY, "arguments": "{"}}]}),
}


def test_no_line_of_the_log_has_contents_where_they_are_hidden(tmp_path):
    upstream = Upstream("openai")
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    config = tmp_path / "tenon.toml"
    own = CONFIG.format(engine="openai", port=upstream.server_port, model="org/tiny")
    try:
        for is_shown in (False, True):
            config.write_text(f'[server]\nlog_level = "debug"\nlog_contents = {json.dumps(is_shown)}\n' + own +
                              'on_unknown_tool = "repair"\n')
            with serving(tmp_path / "serve.log", "--config", str(config)) as server:
                there = Setting(server.url, upstream, config)
                lines = {}
                for name, upstream.script in SAID.items():
                    lines[name] = lines_of(server, lambda there=there: there.ask(tools=[WEATHER, TIME]))
                for status in (400, 401, 404, 429, 500):
                    upstream.script, upstream.refuses, upstream.says = b"", (status, None), CANARY
                    lines[status] = lines_of(server, lambda there=there: there.ask(tools=[WEATHER, TIME]))
                upstream.refuses = upstream.says = None
            shown = {name for name, text in lines.items() if CANARY in text}
            assert not shown if not is_shown else len(shown) > 8, shown
    finally:
        upstream.shutdown()
        upstream.server_close()


def lines_of(server, ask):
    """What the log says of what `ask` does."""
    begin = len(server.log.read_text())
    ask()
    deadline = time.monotonic() + 10
    while " after " not in server.log.read_text()[begin:] and time.monotonic() < deadline:
        time.sleep(0.01)
    return server.log.read_text()[begin:]
