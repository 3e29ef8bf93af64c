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
from tools import user

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
        there, here = (ask(url, model, text) for model in ("there", "here"))
        assert there["choices"][0]["message"]["content"] == here["choices"][0]["message"]["content"]
        assert there["usage"]["prompt_tokens"] == here["usage"]["prompt_tokens"]


def test_a_call_that_comes_as_text_is_found(url):
    answer = ask(url, "there", "What is the weather in Paris?", tools=[WEATHER])
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls] == [
        ("get_weather", {"city": "Paris"})]
    assert answer["choices"][0]["finish_reason"] == "tool_calls" and answer["tenon"]["guarantee"] == "validated"


def test_a_stream_says_the_same(url):
    lines = ask(url, "there", "What is the weather in Paris?", tools=[WEATHER], stream=True).split("\n\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    pieces = [call["function"] for chunk in chunks for choice in chunk["choices"]
              for call in choice["delta"].get("tool_calls", [])]
    assert pieces[0]["name"] == "get_weather"
    assert json.loads("".join(piece.get("arguments", "") for piece in pieces)) == {"city": "Paris"}
