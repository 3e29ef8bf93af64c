"""llama-cpp-python's own server, a real endpoint of Chat Completions, behind `engine = "openai"`: its chat handler knows no
tool format, so a call of its model comes as text without its markers; calls of a tool that the request names come in both
fields that OpenAI has had for them."""
import json
import pathlib
import sys
import sysconfig
import urllib.error
import urllib.request

import pytest
from replaying import serving_recorded
from serving import ROOT, free_port, other_server
from tools import MARKERS, WEATHER_CALL, assert_same_but_for_ties, calling, without

PYTHON = pathlib.Path(sys.prefix) / "clients" / "llama-cpp-server" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no llama-cpp-python server: scripts/setup.sh clients")

MODEL = ROOT / "models" / "tenon-tiny.gguf"
# The server's own packages first, llama_cpp from where it was built.
START = """import runpy, site, sys
site.addsitedir(sys.argv.pop(1))
sys.argv[0] = "llama_cpp.server"
runpy.run_module("llama_cpp.server", run_name="__main__")"""
CONFIG = """[[model]]
name = "here"
path = "{model}"

[[model]]
name = "there"
engine = "openai"
url = "http://127.0.0.1:{port}"
"""
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama-cpp-python")
    port = free_port()
    command = [PYTHON, "-c", START, sysconfig.get_paths()["purelib"], "--model", MODEL, "--port", str(port), "--n_ctx", "4096"]
    with other_server(folder / "server.log", command, f"http://localhost:{port}/v1/models"):
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(model=MODEL, port=port))
        with serving_recorded(folder, "--config", str(config)) as server:
            yield server.url


def ask(url, model, **more):
    body = {"model": model, "messages": QUESTION, "temperature": 0, "max_tokens": 60, **more}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return 200, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def calls_of(answer):
    return [(call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in answer["choices"][0]["message"].get("tool_calls", [])]


def test_text_is_what_the_same_model_writes_here(url):
    bias = without(url, MARKERS, "here")
    _, there = ask(url, "there", logit_bias=bias)
    _, here = ask(url, "here", logit_bias=bias, logprobs=True, top_logprobs=5)
    # That server holds tokens back that have come already (repeat_penalty), so its ties are wider.
    assert_same_but_for_ties(here["choices"][0], there["choices"][0]["message"]["content"] or "", tie=2)
    assert there["usage"]["completion_tokens"] > 0  # though the server tells none of a stream


def test_a_call_that_comes_as_text_without_its_markers_is_found(url):
    status, answer = ask(url, "there", tools=[WEATHER], logit_bias=calling(url, "here"))
    choice, calls = answer["choices"][0], calls_of(answer)
    assert status == 200 and answer["tenon"]["taint"] == "unenforced"
    if not calls:
        assert not WEATHER_CALL.search(choice["message"]["content"] or ""), answer
        pytest.skip("the model did not call, though it could say little else")
    assert {name for name, _ in calls} == {"get_weather"} and choice["finish_reason"] in ("tool_calls", "length")
    assert "fallback_format" in [repair["code"] for repair in answer["tenon"]["repairs"]]
    fits = all(list(arguments) == ["city"] and isinstance(arguments["city"], str) for _, arguments in calls)
    assert answer["tenon"]["guarantee"] == "validated" or not fits or choice["finish_reason"] == "length", answer


def test_a_call_of_the_tool_that_was_named_is_one_call(url):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    status, answer = ask(url, "there", tools=[WEATHER], tool_choice=choice)
    message = answer["choices"][0]["message"]
    assert status == 200 and [call["function"]["name"] for call in message["tool_calls"]] == ["get_weather"]
    arguments = message["tool_calls"][0]["function"]["arguments"]
    assert arguments.count('"city"') == 1 and answer["usage"]["completion_tokens"] > 1, answer
    # The server's grammar holds the call, unless it was cut: what the tiny model writes without its markers may not end.
    assert answer["tenon"]["guarantee"] in ("validated", "unenforced")


def test_json_that_the_server_was_asked_for_is_looked_at(url):
    status, answer = ask(url, "there", response_format={"type": "json_object"}, max_tokens=300)
    assert status == 200
    choice, told = answer["choices"][0], answer["tenon"]
    try:
        fits = choice["finish_reason"] == "stop" and isinstance(json.loads(choice["message"]["content"]), dict)
    except ValueError:
        fits = False
    assert told["guarantee"] == ("upstream" if fits else "unenforced"), answer
