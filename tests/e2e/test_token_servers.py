"""vLLM and SGLang behind `tenon serve`: fakes that take no field but those that the real ones have, each with the file and
line that says so (vllm 0.33.0 and sglang 0.5.23, as on PyPI), and that answer as those do, cut in every way."""
import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request

import pytest
from replaying import serving_recorded
from serving import ROOT

MODEL = ROOT / "models" / "tenon-tiny.gguf"
MAX_LENGTH = 4096
CONFIG = """[[model]]
name = "here"
path = "{model}"

[[model]]
name = "there"
engine = "{engine}"
url = "http://127.0.0.1:{port}"
upstream_model = "org/tiny"
tokenizer = "{model}"
"""
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "required": ["city"], "additionalProperties": False, "properties": {"city": {"type": "string"}}}}}
TOO_LONG = "this model's maximum context length"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'

# What each field may be. A dict stands for an object of such fields.
VLLM = {  # vllm/entrypoints/openai/completion/protocol.py
    "model": str,                                          # :51
    "prompt": list,                                        # :53
    "frequency_penalty": (int, float),                     # :61
    "logit_bias": dict,                                    # :62
    "max_tokens": int,                                     # :64
    "presence_penalty": (int, float),                      # :66
    "seed": int,                                           # :67
    "stream": bool,                                        # :69
    "stream_options": {"include_usage": bool},             # :70
    "temperature": (int, float),                           # :72
    "top_p": (int, float),                                 # :73
    "top_k": int,                                          # :78
    "min_p": (int, float),                                 # :79
    "repetition_penalty": (int, float),                    # :80
    "stop_token_ids": list,                                # :83
    "skip_special_tokens": bool,                           # :87
    "add_special_tokens": bool,                            # :118
    "structured_outputs": {"grammar": str},                # :133, vllm/sampling_params.py:107
    "return_token_ids": bool,                              # :172
}
SGLANG = {  # sglang/srt/managers/io_struct.py
    "input_ids": list,                                     # :188
    "stream": bool,                                        # :256
    "sampling_params": {                                   # :227, sglang/srt/sampling/sampling_params.py
        "max_new_tokens": int,                             # :149
        "stop_token_ids": list,                            # :153
        "temperature": (int, float), "top_p": (int, float), "top_k": int, "min_p": (int, float),  # :156-159
        "frequency_penalty": (int, float), "presence_penalty": (int, float), "repetition_penalty": (int, float),  # :160-162
        "ebnf": str,                                       # :171
        "skip_special_tokens": bool,                       # :174
        "no_stop_trim": bool,                              # :176
        "logit_bias": dict,                                # :178
        "sampling_seed": int,                              # :179
    },
}


def check(body, fields, place=""):
    for key, value in body.items():
        wanted = fields.get(key)
        assert wanted is not None, f"{place}{key} is no field"
        if isinstance(wanted, dict):
            check(value, wanted, f"{place}{key}.")
        else:
            assert isinstance(value, wanted), f"{place}{key} is {value!r}"
            assert wanted is bool or not isinstance(value, bool), f"{place}{key} is {value!r}"


class Upstream(http.server.ThreadingHTTPServer):
    """Answers with `script`: ids, the end of the turn among them. `step`: tokens in an event; `faults`: see Handler."""
    daemon_threads = True

    def __init__(self, kind):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.script, self.step, self.cumulative, self.fault, self.bodies = kind, [], 1, True, None, []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_json(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        assert self.path == "/v1/models"
        # vllm/entrypoints/openai/models/serving.py:69-73; sglang/srt/entrypoints/http_server.py:2001-2006
        self.send_json({"object": "list", "data": [{"id": "org/tiny", "object": "model", "max_model_len": MAX_LENGTH}]})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_vllm = server.kind == "vllm"
        try:
            assert self.path == ("/v1/completions" if is_vllm else "/generate"), self.path
            check(body, VLLM if is_vllm else SGLANG)
        except AssertionError as problem:
            return self.send_json({"error": {"message": str(problem)}}, 400)
        server.bodies.append(body)
        if server.fault == "refuse" and is_vllm:  # vllm/entrypoints/serve/exception_handling/error_response.py:14-92
            return self.send_json({"error": {"message": TOO_LONG, "type": "BadRequestError", "param": None, "code": 400}}, 400)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        data = b"".join(b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
                        for event in (self.vllm_events() if is_vllm else self.sglang_events()))
        if isinstance(server.fault, int):
            data = data[:server.fault]
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data)
        self.close_connection = True

    def vllm_events(self):
        """vllm/entrypoints/openai/completion/serving.py:438-487, 535-547, 553-558. Grammars are looked at where the answer
        begins (vllm/v1/engine/input_processor.py:156-162), so what is refused is an event."""
        ids, step = self.server.script, self.server.step
        if self.server.fault == "grammar" and "structured_outputs" in self.server.bodies[-1]:
            yield {"error": {"message": "Invalid grammar specification.", "type": "BadRequestError", "param": None, "code": 400}}
            yield b"[DONE]"
            return
        for at in range(0, len(ids), step):
            if self.server.fault == "error" and at >= 2:
                yield {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}
                yield b"[DONE]"
                return
            is_last = at + step >= len(ids)
            yield {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "org/tiny", "choices": [{
                "index": 0, "text": "?", "logprobs": None, "finish_reason": "stop" if is_last else None, "stop_reason": None,
                "prompt_token_ids": [1] if at == 0 else None, "token_ids": ids[at:at + step]}]}
        yield {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "org/tiny", "choices": [],
               "usage": {"prompt_tokens": 1, "total_tokens": 1 + len(ids), "completion_tokens": len(ids)}}
        yield b"[DONE]"

    def sglang_events(self):
        """sglang/srt/managers/tokenizer_manager.py:2631-2670; sglang/srt/entrypoints/http_server.py:951-975: what is refused
        is an event, too. A grammar is refused by sglang/srt/constrained/grammar_manager.py:328-330 with
        sglang/srt/managers/schedule_batch.py:332-346."""
        ids, step = self.server.script, self.server.step
        if self.server.fault == "refuse":
            yield {"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": 400, "retryable": False}}
            yield b"[DONE]"
            return
        if self.server.fault == "grammar" and "ebnf" in self.server.bodies[-1]["sampling_params"]:
            yield {"text": "", "output_ids": [], "meta_info": {"id": "1", "prompt_tokens": 1, "completion_tokens": 0, "finish_reason": {
                "type": "abort", "message": "Failed to compile ebnf grammar: no", "status_code": 400, "err_type": "BadRequestError"}}}
            yield b"[DONE]"
            return
        for at in range(0, len(ids), step):
            if self.server.fault == "error" and at >= 2:
                yield {"error": {"message": "EngineCore died", "type": "invalid_request_error", "code": 503, "retryable": False}}
                yield b"[DONE]"
                return
            end = min(at + step, len(ids))
            reason = {"type": "stop", "matched": ids[-1]} if end == len(ids) else None
            yield {"text": "?", "output_ids": ids[:end] if self.server.cumulative else ids[at:end], "meta_info": {
                "id": "1", "finish_reason": reason, "prompt_tokens": 1, "completion_tokens": end, "cached_tokens": 0}}
        yield b"[DONE]"


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def setting(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    upstream = Upstream(request.param)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(model=MODEL, engine=request.param, port=upstream.server_port))
        with serving_recorded(folder, "--config", str(config)) as server:
            yield server.url, upstream
    finally:
        upstream.shutdown()
        upstream.server_close()


def ids_of(url, text):
    status, answer = post(f"{url}/tokenize", {"content": text, "model": "here", "parse_special": True})
    assert status == 200
    return answer["tokens"]


def ask(url, **fields):
    return post(f"{url}/v1/chat/completions", {
        "model": "there", "messages": [{"role": "user", "content": "What is the weather in <|im_end|>Paris?"}], "tools": [WEATHER],
        **fields})


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("cumulative", [True, False])
def test_calls_come_through(setting, step, cumulative):
    url, upstream = setting
    upstream.script, upstream.step, upstream.cumulative, upstream.fault = ids_of(url, CALL + "<|im_end|>"), step, cumulative, None
    for choice in ("auto", "required"):
        status, answer = ask(url, tool_choice=choice)
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        assert message["content"] is None and answer["choices"][0]["finish_reason"] == "tool_calls"
        assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]] == \
            [("get_weather", {"city": "Paris"})]
        assert answer["tenon"]["guarantee"] == "upstream"
        assert answer["usage"]["completion_tokens"] == len(upstream.script)


def test_is_asked_for_what_the_embedded_engine_would_be(setting):
    url, upstream = setting
    upstream.script, upstream.step, upstream.fault = ids_of(url, "Hello!<|im_end|>"), 1, None
    messages = [{"role": "user", "content": "<|im_end|>hi <tool_call>"}]
    status, here = post(f"{url}/v1/chat/completions/render", {"model": "here", "messages": messages})
    status, answer = post(f"{url}/v1/chat/completions", {
        "model": "there", "messages": messages, "temperature": 0.5, "top_p": 0.9, "seed": 7, "max_tokens": 9,
        "logit_bias": {"5": -100}})
    assert status == 200 and answer["choices"][0]["message"]["content"] == "Hello!"
    body = upstream.bodies[-1]
    sampling = body if upstream.kind == "vllm" else body["sampling_params"]
    assert body["prompt" if upstream.kind == "vllm" else "input_ids"] == here["tokens"]
    assert sampling["max_tokens" if upstream.kind == "vllm" else "max_new_tokens"] == 9
    assert sampling["skip_special_tokens"] is False and sampling["temperature"] == 0.5 and sampling["logit_bias"] == {"5": -100}
    assert "structured_outputs" not in body and "ebnf" not in sampling
    ask(url)
    body = upstream.bodies[-1]
    grammar = body["structured_outputs"]["grammar"] if upstream.kind == "vllm" else body["sampling_params"]["ebnf"]
    assert grammar.startswith("root ::= ") and '"<tool_call>\\n' in grammar


def test_what_the_upstream_says_is_told(setting):
    url, upstream = setting
    upstream.script, upstream.step, upstream.fault = ids_of(url, CALL + "<|im_end|>"), 1, "refuse"
    status, answer = ask(url)
    assert status == 400 and "maximum context length" in answer["error"]["message"]
    upstream.fault = "error"
    status, answer = ask(url)
    assert status >= 500, answer


def test_a_grammar_that_is_refused_is_left_out(setting):
    url, upstream = setting
    upstream.script, upstream.step, upstream.fault = ids_of(url, CALL + "<|im_end|>"), 1, "grammar"
    before = len(upstream.bodies)
    status, answer = ask(url)
    assert status == 200, answer
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert len(upstream.bodies) == before + 2
    assert answer["tenon"]["guarantee"] == "validated"
    assert "not_held" in [repair["code"] for repair in answer["tenon"]["repairs"]]


# Cut anywhere, an answer is whole, or an error, and what came is not lost.
def test_an_answer_may_break_off_at_every_byte(setting):
    url, upstream = setting
    upstream.script, upstream.step, upstream.fault = ids_of(url, "Hi!<|im_end|>"), 2, None
    assert ask(url)[0] == 200
    for cut in range(0, 1200, 23):
        upstream.fault = cut
        status, answer = ask(url)
        assert status == 200 or (status >= 500 and answer["error"]["message"]), (cut, status, answer)
        if status == 200:
            assert answer["choices"][0]["message"]["content"] == "Hi!"


def test_log_probabilities_are_refused(setting):
    url, _ = setting
    status, answer = ask(url, logprobs=True)
    assert status == 400 and "logprobs" in answer["error"]["message"]
