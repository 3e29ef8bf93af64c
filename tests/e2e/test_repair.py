"""Arguments that their schema refuses, over an engine that nothing holds: docs/repair.md."""
import json

import openai
import pytest
from scripted_upstream import call, serving_script
from serving import ROOT, serving
from tools import user

EDIT = {"type": "function", "function": {"name": "edit", "parameters": {
    "type": "object", "properties": {"file_path": {"type": "string"}, "replaceAll": {"type": "boolean"}, "n": {"type": "integer"}},
    "required": ["file_path"], "additionalProperties": False}}}
WRITTEN = {"filePath": "a.txt", "replaceAll": "true", "n": 3}
REPAIRED = {"replaceAll": True, "n": 3, "file_path": "a.txt"}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    with serving_script(tmp_path_factory.mktemp("repair"), lambda prompt: call("edit", WRITTEN)) as (server, upstream):
        yield server, upstream


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(server, **fields):
    return client_of(server).chat.completions.create(model="scripted", messages=user("go"), tools=[EDIT], **fields)


def test_a_call_is_repaired_and_told(spoilt):
    server, _ = spoilt
    answer = ask(server)
    (made,) = answer.choices[0].message.tool_calls
    assert json.loads(made.function.arguments) == REPAIRED
    assert answer.tenon["guarantee"] == "repaired"
    assert [repair["code"] for repair in answer.tenon["repairs"]] == ["type_fixed", "field_renamed"]
    assert '[NORMALIZATION] Fixed replaceAll type: "true" -> true' in server.log.read_text()


def test_a_stream_is_the_same(spoilt):
    server, _ = spoilt
    text = ""
    for chunk in ask(server, stream=True):
        for made in (chunk.choices[0].delta.tool_calls if chunk.choices else None) or []:
            text += made.function.arguments or ""
    assert text == ask(server).choices[0].message.tool_calls[0].function.arguments


def test_a_request_switches_it_off(spoilt):
    server, _ = spoilt
    answer = ask(server, extra_body={"tenon": {"normalize": False}})
    (made,) = answer.choices[0].message.tool_calls
    assert json.loads(made.function.arguments) == WRITTEN
    assert answer.tenon["guarantee"] == "unenforced"
    assert "file_path" in answer.tenon["repairs"][0]["message"]


@pytest.mark.parametrize("name", ["TENON_DISABLE_NORMALIZATION", "EXO_DISABLE_NORMALIZATION"])
def test_environment_switches_it_off(spoilt, tmp_path, name):
    _, upstream = spoilt
    config = tmp_path / "tenon.toml"
    config.write_text(f'[[model]]\nname = "scripted"\nengine = "llama-server"\n'
                      f'url = "http://127.0.0.1:{upstream.server_port}"\ntool_call_format = "hermes"\n')
    with serving(tmp_path / "serve.log", "--config", str(config), env={name: "1"}) as server:
        for fields in ({}, {"extra_body": {"tenon": {"normalize": True}}}):
            (made,) = ask(server, **fields).choices[0].message.tool_calls
            assert json.loads(made.function.arguments) == WRITTEN


def test_rules_of_the_users_own(spoilt, tmp_path):
    _, upstream = spoilt
    (tmp_path / "mine.toml").write_text('[[alias]]\nnames = ["n", "count"]\n')
    config = tmp_path / "tenon.toml"
    config.write_text(f'[[model]]\nname = "scripted"\nengine = "llama-server"\nrepair_rules = "mine.toml"\n'
                      f'url = "http://127.0.0.1:{upstream.server_port}"\ntool_call_format = "hermes"\n')
    counts = {"type": "function", "function": {"name": "edit", "parameters": {
        "properties": {"count": {"type": "string"}}, "required": ["count"]}}}
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        answer = client_of(server).chat.completions.create(model="scripted", messages=user("go"), tools=[counts])
    (made,) = answer.choices[0].message.tool_calls
    assert json.loads(made.function.arguments) == {**WRITTEN, "count": "3"}


def test_a_mistake_in_the_rules_is_refused_at_start(tmp_path):
    (tmp_path / "mine.toml").write_text('[[alias]]\nnames = ["n"]\n')
    config = tmp_path / "tenon.toml"
    config.write_text(f'[[model]]\nname = "m"\nrepair_rules = "mine.toml"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
    with pytest.raises(AssertionError, match="mine.toml:1:"), serving(tmp_path / "serve.log", "--config", str(config)):
        pass
