"""Several models in one server, loaded when they are asked for, and their limits (docs/configuration.md)."""
import concurrent.futures
import json
import shutil
import signal
import socket
import time

import pytest
import requests
from serving import ROOT, serving
from tools import endless, user

MODEL = ROOT / "models" / "tenon-tiny.gguf"


def config(folder, models, **server):
    text = "[server]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    for name, fields in models.items():
        table = {"name": name, "path": str(folder / f"{name}.gguf"), "max_tokens": 8, "context_tokens": 512, **fields}
        if "path" not in fields:
            shutil.copy(MODEL, table["path"])
        text += "[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    (folder / "tenon.toml").write_text(text)
    return ["--config", str(folder / "tenon.toml")]


def ask(server, model, **fields):
    body = {"model": model, "messages": user("hi"), "temperature": 0, **fields}
    return requests.post(server.url + "/v1/chat/completions", json=body, timeout=60)


def loaded(server):
    models = requests.get(server.url + "/v1/models", timeout=10).json()["data"]
    return [model["id"] for model in models if model["loaded"]]


def metric(server, name, model):
    text = requests.get(server.url + "/metrics", timeout=10).text
    return float(next(line for line in text.splitlines() if line.startswith(f'{name}{{model="{model}"')).split()[-1])


def wait_for(condition, most_s=10):
    latest = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < latest
        time.sleep(0.05)


def size_of_one(tmp_path, **fields):
    (tmp_path / "size").mkdir()
    with serving(tmp_path / "size.log", *config(tmp_path / "size", {"a": fields})) as server:
        return int(metric(server, "tenon_model_bytes", "a"))


def test_models_come_and_go_by_use_and_memory(tmp_path):
    size = size_of_one(tmp_path)
    assert size > MODEL.stat().st_size
    models = {"a": {}, "b": {"load": "first_use", "alias": ["second"]}, "c": {"load": "first_use"}}
    with serving(tmp_path / "serve.log", *config(tmp_path, models, max_model_bytes=2 * size + size // 2)) as server:
        assert loaded(server) == ["a"]
        # Those who ask at a time wait for one load.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda name: ask(server, name), ["b", "second"] * 4))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert all(answer.json()["usage"]["completion_tokens"] > 0 for answer in answers)
        assert metric(server, "tenon_model_loads_total", "b") == 1
        assert loaded(server) == ["a", "b"]
        ask(server, "a")
        assert ask(server, "c").status_code == 200
        assert loaded(server) == ["a", "c"], "b was used longest ago"
        assert metric(server, "tenon_model_unloads_total", "b") == 1
        assert metric(server, "tenon_model_bytes", "b") == 0
        generated = metric(server, "tenon_engine_decodes_total", "b")
        assert requests.post(server.url + "/tokenize", json={"model": "b", "content": "x"}, timeout=60).status_code == 200
        assert loaded(server) == ["b", "c"]
        assert metric(server, "tenon_engine_decodes_total", "b") == generated, "what an engine has counted stays"
        assert requests.get(server.url + "/v1/models/second", timeout=10).json()["id"] == "b"
        assert ask(server, "nosuch").status_code == 404


def test_a_model_in_use_stays_and_the_request_is_refused_with_numbers(tmp_path):
    size = size_of_one(tmp_path, context_tokens=4096)
    models = {"a": {"context_tokens": 4096}, "b": {"load": "first_use"}}
    arguments = config(tmp_path, models, max_model_bytes=size + MODEL.stat().st_size // 2)
    with serving(tmp_path / "serve.log", *arguments) as server:
        # Streams that do not end by themselves.
        with requests.post(server.url + "/v1/chat/completions", stream=True, timeout=60, json={
                "model": "a", "messages": user("Tell me a story."), "stream": True, "n": 16, "max_tokens": 3900,
                "logit_bias": endless(server, "a")}) as stream:
            lines = stream.iter_lines(chunk_size=1)  # which closes the stream when it goes
            next(lines)
            refused = ask(server, "b")
            assert refused.status_code == 429, refused.text
        error = refused.json()["error"]
        assert error["code"] == "engine_busy"
        assert "model 'b' needs" in error["message"] and "MiB are in use by 'a'" in error["message"]
        wait_for(lambda: ask(server, "b").status_code == 200)
        assert loaded(server) == ["b"]


def test_a_load_that_fails_fails_its_request_alone(tmp_path):
    models = {"a": {}, "b": {"load": "first_use"}}
    with serving(tmp_path / "serve.log", *config(tmp_path, models)) as server:
        (tmp_path / "b.gguf").unlink()
        refused = ask(server, "b")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_error")
        assert refused.json()["error"]["message"] == "model 'b' could not be loaded"
        assert str(tmp_path) in server.log.read_text(), "which file is not the client's to know"
        assert ask(server, "a").status_code == 200
        shutil.copy(MODEL, tmp_path / "b.gguf")
        assert ask(server, "b").status_code == 200


def test_one_more_than_the_queue_holds_is_refused(tmp_path):
    models = {"a": {"max_concurrent": 1, "queue_limit": 1, "context_tokens": 4096, "max_tokens": 3900}}
    with serving(tmp_path / "serve.log", *config(tmp_path, models)) as server:
        bias = endless(server, "a")

        def stream():  # one that does not end by itself
            return requests.post(server.url + "/v1/chat/completions", stream=True, timeout=60, json={
                "model": "a", "messages": user("Tell me a story."), "stream": True,
                "logit_bias": bias})

        def waiting():
            return 'tenon_engine_runs{model="a",state="waiting"} 1' in requests.get(server.url + "/metrics", timeout=60).text

        with stream(), concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: stream().close())  # whose head comes when there is something to say
            wait_for(waiting)
            refused = ask(server, "a")
            assert refused.status_code == 429, refused.text
            assert refused.headers["retry-after"] == "1"
            error = refused.json()["error"]
            assert (error["code"], error["message"]) == ("engine_busy", "the model is busy: 1 requests are waiting already")
        wait_for(lambda: ask(server, "a", max_tokens=4).status_code == 200)


def test_neither_other_models_nor_a_signal_wait_for_a_load(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        models = {"a": {}, "b": {"load": "first_use", "rpc": ["127.0.0.1:%d" % silent.getsockname()[1]]},
                  "c": {"load": "first_use"}}
        with serving(tmp_path / "serve.log", *config(tmp_path, models, drain_timeout_s=1)) as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                waiting = [pool.submit(ask, server, "b") for _ in range(8)]
                peer, _ = silent.accept()
                assert ask(server, "a").status_code == 200
                assert ask(server, "c").status_code == 200
                assert loaded(server) == ["a", "c"]
                begun = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                assert server.process.wait(timeout=10) == 0
                assert time.monotonic() - begun < 5
                for each in waiting:
                    assert each.result().status_code == 503
                    assert each.result().json()["error"]["code"] == "server_stopping"
                peer.close()


def test_the_log_says_which_request_it_is_about(tmp_path):
    tool = {"type": "function", "function": {"name": "pick", "parameters": {
        "type": "object", "properties": {"a": {"type": "string", "pattern": "(a)\\1"}}}}}
    with serving(tmp_path / "serve.log", *config(tmp_path, {"a": {}})) as server:
        body = {"model": "a", "messages": user("hi"), "tools": [tool], "max_tokens": 2}
        answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60,
                               headers={"x-request-id": "asked-for-1"})
        assert answer.status_code == 200
    lines = [line for line in server.log.read_text().splitlines() if "pattern is not enforced" in line]
    assert len(lines) == 1
    assert " asked-for-1 pick#" in lines[0]


@pytest.mark.parametrize(("models", "server", "message"), [
    ({"a": {}, "b": {}}, {"max_model_bytes": 3}, "model 'a' needs"),
    ({"a": {}, "b": {"load": "first_use", "path": "missing.gguf"}}, {}, "missing.gguf"),
], ids=["too_large", "missing"])
def test_what_can_never_be_loaded_is_said_at_the_start(tmp_path, models, server, message):
    with pytest.raises(AssertionError, match=message):
        with serving(tmp_path / "serve.log", *config(tmp_path, models, **server)):
            pass


def test_models_of_the_start_must_fit_together(tmp_path):
    size = size_of_one(tmp_path)
    with pytest.raises(AssertionError, match="the models that are loaded at the start take"):
        with serving(tmp_path / "serve.log", *config(tmp_path, {"a": {}, "b": {}}, max_model_bytes=size + 1)):
            pass
