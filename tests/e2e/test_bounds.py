"""Values under a mask have an end, unless `tenon.bounds` lifts it (docs/constrained.md)."""
import json

import jsonschema
import pytest
import requests
from serving import ROOT, serving
from tools import user

QUESTION = "Write Python code that prints all prime numbers below 100, and explain it."
SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}, "explanation": {"type": "string"}},
          "required": ["code", "explanation"], "additionalProperties": False}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bounds")
    (folder / "tenon.toml").write_text("".join(
        f'[[model]]\nname = "{name}"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n{line}\n'
        for name, line in (("bounded", ""), ("unbounded", 'bounds = "none"'))))
    with serving(folder / "serve.log", "--config", str(folder / "tenon.toml")) as running:
        yield running


def ask_chat(server, **fields):
    answer = requests.post(server.url + "/v1/chat/completions", timeout=60, json={
        "model": "bounded", "messages": user(QUESTION), "temperature": 0, "max_tokens": 600, **fields,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}).json()
    choice = answer["choices"][0]
    return choice["message"]["content"], choice["finish_reason"] == "length", answer["tenon"]["repairs"]


def ask_responses(server, **fields):
    answer = requests.post(server.url + "/v1/responses", timeout=60, json={
        "model": "bounded", "input": QUESTION, "temperature": 0, "max_output_tokens": 600, **fields,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}).json()
    return answer["output"][0]["content"][0]["text"], answer["status"] == "incomplete", answer["tenon"]["repairs"]


def ask_messages(server, **fields):
    answer = requests.post(server.url + "/v1/messages", timeout=60, json={
        "model": "bounded", "messages": user(QUESTION), "temperature": 0, "max_tokens": 600, **fields,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}).json()
    return answer["content"][0]["text"], answer["stop_reason"] == "max_tokens", answer["tenon"]["repairs"]


@pytest.mark.parametrize("ask", [ask_chat, ask_responses, ask_messages])
def test_a_repetition_is_closed_and_told(server, ask):
    text, is_cut, repairs = ask(server)
    assert not is_cut
    jsonschema.validate(json.loads(text), SCHEMA)
    assert [repair["code"] for repair in repairs] == ["repetition_closed"]
    for fields in ({"tenon": {"bounds": "none"}}, {"model": "unbounded"}):
        endless, is_cut, repairs = ask(server, **fields)
        assert is_cut and repairs == []
        assert endless[:100] == text[:100]
    again, is_cut, _ = ask(server, model="unbounded", tenon={"bounds": "default"})
    assert again == text and not is_cut


def test_closed_repetitions_are_counted(server):
    ask_chat(server)
    metrics = requests.get(server.url + "/metrics", timeout=60).text
    count = next(line for line in metrics.splitlines() if line.startswith('tenon_mask_closed_repetitions_total{model="bounded"}'))
    assert float(count.split()[-1]) >= 1


def test_an_unknown_word_is_refused(server):
    answer = requests.post(server.url + "/v1/chat/completions", timeout=60, json={
        "model": "bounded", "messages": user("Hi"), "tenon": {"bounds": "some"}})
    assert answer.status_code == 400 and "tenon.bounds" in answer.text
