"""What ends a turn beside the model's own tokens: docs/formats.md, "Where a turn ends"."""
import json

import requests
from serving import ROOT, serving
from tools import GREEDY, endless, user

FORMAT = """
name = "stopped"
summary = ""
stop = ["</tool_call>", "<nowhere>"]
[[syntax]]
call = "<tool_call>\\n${object}\\n</tool_call>"
"""


DIGIT = {"type": "function", "function": {"name": "digit", "parameters": {
    "type": "object", "properties": {"value": {"enum": [1, 2, 3]}}, "required": ["value"], "additionalProperties": False}}}


def begin_of_a_call(server):
    """Its token."""
    body = {"model": "tenon-tiny", "content": "<tool_call>", "parse_special": True}
    (token,) = requests.post(server.url + "/tokenize", json=body, timeout=10).json()["tokens"]
    return token


def answer(server, model, begin):
    """An answer of a model that calls wherever it may, and goes on for ever."""
    fields = {**GREEDY, "model": model, "messages": user("What now?"), "tools": [DIGIT],
              "logit_bias": {**endless(server, model), str(begin): 100}}
    return requests.post(server.url + "/v1/chat/completions", json=fields, timeout=60).json()


def test_a_generation_config_beside_the_model_names_ends(server, tmp_path):
    begin = begin_of_a_call(server)
    assert answer(server, "tenon-tiny", begin)["choices"][0]["message"]["tool_calls"]
    (tmp_path / "tiny.gguf").symlink_to(ROOT / "models" / "tenon-tiny.gguf")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [begin, 1000000, "x"]}))
    with serving(tmp_path / "serve.log", "--model", str(tmp_path / "tiny.gguf")) as own:
        choice = answer(own, "tiny", begin)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert "tool_calls" not in choice["message"]
        log = own.log.read_text()
    assert "token 1000000 is no control token" in log
    assert 'eos_token_id: "x" is no token' in log


def test_a_format_names_ends(server, tmp_path):
    begin = begin_of_a_call(server)
    (tmp_path / "stopped.toml").write_text(FORMAT)
    (tmp_path / "tenon.toml").write_text(f"""
[[model]]
name = "tiny"
path = "{ROOT / 'models' / 'tenon-tiny.gguf'}"
tool_call_format = "stopped"
""")
    with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml"),
                 "--format-file", str(tmp_path / "stopped.toml")) as own:
        stopped = answer(own, "tiny", begin)
    assert len(answer(server, "tenon-tiny", begin)["choices"][0]["message"]["tool_calls"]) > 1
    assert len(stopped["choices"][0]["message"]["tool_calls"]) == 1, "the first call's end is the turn's"
    assert stopped["choices"][0]["finish_reason"] == "tool_calls" and stopped["tenon"]["guarantee"] == "masked"
