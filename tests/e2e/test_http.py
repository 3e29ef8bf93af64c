"""What the server says to requests that are wrong, hostile, or abandoned."""
import json
import socket
import time

import openai
import pytest
import requests
from tools import GREEDY, WEATHER, endless, settled, user

PATH = "/v1/chat/completions"


def post(server, body, **options):
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return requests.post(server.url + PATH, data=data, timeout=30,
                         headers={"content-type": "application/json", **options.pop("headers", {})}, **options)


def base(**fields):
    return {**GREEDY, "messages": user("hi"), **fields}


# (name, body, status, param, code): None means that the test does not ask.
REFUSALS = [
    ("malformed", "{", 400, None, "invalid_json"),
    ("not_utf8", b'{"model": "\xff"}', 400, None, "invalid_json"),
    ("not_an_object", [1], 400, None, None),
    ("deep", "[" * 100_000, 400, None, "limit_exceeded"),
    ("empty", "", 400, None, "invalid_json"),
    ("model_is_a_number", {"model": 3, "messages": user("hi")}, 400, "model", None),
    ("unknown_model", base(model="nosuch"), 404, "model", "model_not_found"),
    ("no_messages", GREEDY, 400, "messages", None),
    ("messages_empty", base(messages=[]), 400, "messages", None),
    ("messages_is_a_string", base(messages="hi"), 400, "messages", None),
    ("message_is_null", base(messages=[None]), 400, "messages[0]", None),
    ("role_unknown", base(messages=[{"role": "king", "content": "x"}]), 400, "messages[0].role", None),
    ("content_is_a_number", base(messages=[{"role": "user", "content": 1}]), 400, "messages[0].content", None),
    ("temperature_is_a_string", base(temperature="hot"), 400, "temperature", None),
    ("temperature_negative", base(temperature=-1), 400, "temperature", None),
    ("top_p_above_one", base(top_p=1.5), 400, "top_p", None),
    ("max_tokens_negative", base(max_tokens=-5), 400, "max_tokens", None),
    ("n_zero", base(n=0), 400, "n", None),
    ("n_huge", base(n=10**9), 400, "n", None),
    ("stop_is_a_number", base(stop=3), 400, "stop", None),
    ("stream_is_a_string", base(stream="yes"), 400, "stream", None),
    ("tools_is_an_object", base(tools={}), 400, "tools", None),
    ("tool_without_function", base(tools=[{"type": "function"}]), 400, "tools[0].function", None),
    ("tool_name_missing", base(tools=[{"type": "function", "function": {}}]), 400, "tools[0].function.name", None),
    ("tool_choice_unknown", base(tools=[WEATHER], tool_choice="perhaps"), 400, "tool_choice", None),
    ("tool_choice_names_no_tool", base(tools=[WEATHER], tool_choice={
        "type": "function", "function": {"name": "nosuch"}}), 400, "tool_choice", None),
    ("logit_bias_is_a_list", base(logit_bias=[1]), 400, "logit_bias", None),
    ("prompt_too_long", base(messages=user("word " * 40_000)), 400, "messages", "context_length_exceeded"),
]


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row[0])
def test_refusal_says_what_is_wrong(server, row):
    _, body, status, param, code = row
    answer = post(server, body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"] and error["type"]
    assert set(error) >= {"message", "type", "param", "code"}
    if param is not None:
        assert error["param"] == param, error
    if code is not None:
        assert error["code"] == code, error


def test_context_overflow_names_the_numbers(server):
    message = post(server, base(messages=user("word " * 40_000))).json()["error"]["message"]
    assert any(int(number) > 10_000 for number in message.replace(",", " ").split() if number.isdigit()), message


def test_oversized_body_is_413(server):
    answer = post(server, b" " * (40 << 20))
    assert answer.status_code == 413
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("method,path,status", [
    ("GET", "/nowhere", 404), ("GET", PATH, 405), ("DELETE", "/v1/models", 405), ("POST", "/health", 405),
    ("GET", "/v1/models/nosuch", 404)])
def test_wrong_path_or_method(server, method, path, status):
    answer = requests.request(method, server.url + path, timeout=10)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert (status != 405) or answer.headers["allow"]


def test_sdk_maps_errors_to_its_classes(client):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**{**base(), "model": "nosuch"})
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**base(temperature=-1))
    assert error.value.param == "temperature"


HOSTILE_BYTES = [
    b"\r\n\r\n", b"GET\r\n\r\n", b"\0" * 1000, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nhost x\r\n\r\n",
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\n",
    b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("raw", HOSTILE_BYTES, ids=range(len(HOSTILE_BYTES)))
def test_hostile_bytes_are_refused_and_the_server_lives(server, raw):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        answer = b""
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            pass  # the server may close before it has read all of it
    assert not answer or answer.split()[1][:1] == b"4", answer[:200]
    assert requests.get(server.url + "/health", timeout=10).json()["status"] == "ok"


def abandoned_answers(server):
    text = requests.get(server.url + "/metrics", timeout=10).text
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("tenon_answers_total{") and 'finish_reason="cancelled"' in line)


def test_a_client_that_goes_away_frees_its_place(server):
    """Every abandoned stream is cancelled, though its model would go on until its context is full."""
    body = json.dumps(base(stream=True, max_tokens=16_000, logit_bias=endless(server))).encode()
    request = (f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
               f"content-length: {len(body)}\r\n\r\n").encode() + body
    before = abandoned_answers(server)
    for _ in range(24):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        connection.sendall(request)
        connection.recv(1000)
        connection.close()
    assert post(server, base(max_tokens=4)).status_code == 200
    deadline = time.monotonic() + 60  # of a test that would hang
    while abandoned_answers(server) < before + 24:
        assert time.monotonic() < deadline, "abandoned streams go on"
        time.sleep(0.05)


def test_stop_string_never_leaks(server, client):
    ask = base(messages=user("Hello!"), logit_bias=endless(server))
    whole = settled(lambda: client.chat.completions.create(**ask).choices[0].message.content)
    assert len(whole) > 4, whole
    stop = whole[2:4]
    choice = client.chat.completions.create(**ask, stop=[stop]).choices[0]
    assert choice.message.content == whole[:whole.index(stop)]
    assert choice.finish_reason == "stop"
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(
        **ask, stop=[stop], stream=True) if chunk.choices)
    assert streamed == choice.message.content


def test_seed_repeats_an_answer(client):
    request = {**base(messages=user("Hello!")), "temperature": 1.5, "seed": 7}
    first, second = (settled(lambda: client.chat.completions.create(**request).choices[0].message.content) for _ in range(2))
    assert first == second


def test_n_gives_that_many_choices(client):
    choices = client.chat.completions.create(**base(n=3)).choices
    assert sorted(choice.index for choice in choices) == [0, 1, 2]


def test_logprobs(server, client):
    request = base(logprobs=True, top_logprobs=3, max_tokens=4, logit_bias=endless(server))
    choice = client.chat.completions.create(**request).choices[0]
    assert len(choice.logprobs.content) == 4
    for entry in choice.logprobs.content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[-1].logprob


def test_models_and_health(server, client):
    assert "tenon-tiny" in [model.id for model in client.models.list()]
    assert client.models.retrieve("tenon-tiny").id == "tenon-tiny"
    health = requests.get(server.url + "/health", timeout=10)
    assert health.status_code == 200 and health.json()["status"] == "ok"
    assert "tenon_" in requests.get(server.url + "/metrics", timeout=10).text


def test_every_answer_has_a_request_id(server):
    for answer in (post(server, base(max_tokens=1)), post(server, "{"), requests.get(server.url + "/nowhere", timeout=10)):
        assert answer.headers["x-request-id"]


def test_wire_format_of_a_stream(server):
    answer = post(server, base(stream=True, max_tokens=8), stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line for line in answer.iter_lines() if line]
    assert all(line.startswith(b"data: ") or line.startswith(b":") for line in events)
    data = [line[6:] for line in events if line.startswith(b"data: ")]
    assert data[-1] == b"[DONE]"
    chunks = [json.loads(piece) for piece in data[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] in ("stop", "length")
