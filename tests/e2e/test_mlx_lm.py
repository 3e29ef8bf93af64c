"""mlx-lm's server, on the processor, behind `engine = "openai"`: the bundled model in another engine's format. It knows no
parser for the model's calls, so they come as text, and its list of models may be empty. Only in `make test-long`, which
installs it."""
import json
import pathlib
import subprocess
import sys

import pytest
import requests
from serving import ROOT, free_port, other_server, serving
from tools import MARKERS, WEATHER_CALL, assert_same_but_for_ties, calling, user, without

PYTHON = pathlib.Path(sys.prefix) / "clients" / "mlx-lm" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no mlx-lm: scripts/setup.sh clients-long")

MODEL = ROOT / "models" / "tenon-tiny.gguf"
CONFIG = """[[model]]
name = "here"
path = "{model}"

[[model]]
name = "there"
engine = "openai"
url = "http://127.0.0.1:{port}"
upstream_model = "default_model"
"""
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlx-lm")
    # With its Python: that environment alone has gguf.
    subprocess.run([PYTHON, pathlib.Path(__file__).with_name("mlx_model.py"), MODEL, ROOT / "training" / "state" / "tokenizer.json",
                    folder / "model"], check=True)
    port = free_port()
    command = [PYTHON, "-m", "mlx_lm.server", "--model", folder / "model", "--port", str(port)]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(folder / "none")}
    with other_server(folder / "server.log", command, f"http://127.0.0.1:{port}/health", env=offline):
        config = folder / "tenon.toml"
        config.write_text(CONFIG.format(model=MODEL, port=port))
        with serving(folder / "serve.log", "--config", str(config)) as server:
            yield server.url


def ask(url, model, text, **more):
    answer = requests.post(url + "/v1/chat/completions", timeout=60, json={
        "model": model, "messages": user(text), "temperature": 0, "max_tokens": 80, **more})
    assert answer.status_code == 200, answer.text
    return answer.json() if not more.get("stream") else answer.text


def test_text_is_what_the_same_model_writes_here(url):
    for text in ("Hello", "What is the weather in Paris?"):
        bias = without(url, MARKERS, "here")
        there, here = ask(url, "there", text, logit_bias=bias), ask(url, "here", text, logit_bias=bias, logprobs=True, top_logprobs=5)
        assert_same_but_for_ties(here["choices"][0], there["choices"][0]["message"]["content"] or "")
        assert there["usage"]["prompt_tokens"] == here["usage"]["prompt_tokens"]


def test_a_call_that_comes_as_text_is_found(url):
    answer = ask(url, "there", "What is the weather in Paris?", tools=[WEATHER], logit_bias=calling(url, "here"))
    message = answer["choices"][0]["message"]
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls") or []]
    if not calls:
        assert not WEATHER_CALL.search(message["content"] or ""), answer
        pytest.skip("the model did not call, though it could say little else")
    assert {name for name, _ in calls} == {"get_weather"}
    assert answer["choices"][0]["finish_reason"] in ("tool_calls", "length")
    fits = all(list(arguments) == ["city"] and isinstance(arguments["city"], str) for _, arguments in calls)
    assert answer["tenon"]["guarantee"] == "validated" or not fits or answer["choices"][0]["finish_reason"] == "length", answer


def test_a_stream_says_the_same(url):
    whole = ask(url, "there", "What is the weather in Paris?", tools=[WEATHER])["choices"][0]["message"]
    lines = ask(url, "there", "What is the weather in Paris?", tools=[WEATHER], stream=True).split("\n\n")
    deltas = [choice["delta"] for line in lines if line.startswith("data: {") for choice in json.loads(line[6:])["choices"]]
    pieces = [call["function"] for delta in deltas for call in delta.get("tool_calls", [])]
    functions = [call["function"] for call in whole.get("tool_calls") or []]
    assert [piece["name"] for piece in pieces if piece.get("name")] == [function["name"] for function in functions]
    assert "".join(piece.get("arguments", "") for piece in pieces) == "".join(function["arguments"] for function in functions)
    assert "".join(delta.get("content") or "" for delta in deltas) == (whole["content"] or "")
