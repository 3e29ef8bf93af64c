"""The pages of web/: their tests are in Node, with a browser where there is one."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time

import pytest
import requests
from recursive import Policy, turns
from scripted_upstream import CONFIG, TEMPLATE, Upstream, call
from serving import ROOT, serving

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
CHROMIUM = pathlib.Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
HOW = "scripts/setup.sh web installs it"


@pytest.mark.parametrize("name", ["parts", "dist", "pages"])
def test_web(name):
    if shutil.which("node") is None or not (WEB / "node_modules" / "vite").exists():
        pytest.skip(f"web/node_modules is not there: {HOW}")
    if name == "pages" and not CHROMIUM.exists():
        pytest.skip(f"the pages are not tested in a browser, because there is no {CHROMIUM}: {HOW}")
    done = subprocess.run(
        ["node", "--test", "--test-reporter=spec", f"test/{name}.test.mjs"],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]


ATTACK = '<img src=x onerror="window.harmed=1"><script>window.harmed=2</script>\u202e"\'`${1}</pre><svg onload=window.harmed=3>'
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}}}


def said(prompt):
    """What the played model answers."""
    if "attack" in prompt:
        return "Well: " + ATTACK
    if "<tool_response>" in prompt:
        return "It rains."
    if '"look"' in prompt:
        return call("look", {})
    return call("get_weather", {"city": "Rome", "days": "soon"})


@contextlib.contextmanager
def recorded(folder):
    """A server and the names of its recordings, by what happened in the answer."""
    upstream = Upstream(said, TEMPLATE)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    script = turns("```repl\nx = llm_query('hello')\nprint(x)\n```", "FINAL_VAR(x)")
    policy = Policy(lambda model, messages: None if model == "fails" else script(model, messages), ("root", "sub", "fails"))
    (folder / "tools.json").write_text(json.dumps([{**{"type": "function", "function": {
        "name": "look", "parameters": {"type": "object", "properties": {}}}}, "command": ["echo", "heavy rain"]}]))
    (folder / "tenon.toml").write_text(
        f'[server]\nrecord_logprobs = 3\n[[model]]\nname = "tenon-tiny"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n'
        + CONFIG.format(name="scripted", port=upstream.server_port, format="hermes")
        + CONFIG.format(name="runs-tools", port=upstream.server_port, format="hermes") + 'execute = "server"\ntools = "tools.json"\n'
        + "".join(f'[[model]]\nname = "{name}"\nengine = "openai"\nurl = "{policy.url}"\nupstream_model = "{name}"\n'
                  for name in ("root", "sub", "fails"))
        + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n')
    records = folder / "records"

    def ask(model, text, **more):
        answer = requests.post(server.url + "/v1/chat/completions", timeout=120, json={
            "model": model, "messages": [{"role": "user", "content": text}], **more})
        name = answer.headers["x-request-id"]
        for _ in range(200):
            files = list(records.glob(f"*/*-{name}.jsonl"))
            if files and '{"end":' in files[0].read_text():
                return f"{files[0].parent.name}/{files[0].name}"
            time.sleep(0.05)
        raise AssertionError(f"there is no whole recording of {name}: {answer.status_code} {answer.text}")

    try:
        with serving(folder / "serve.log", "--config", str(folder / "tenon.toml"), "--record", str(records)) as server:
            names = {
                "demo": ask("tenon-tiny", "What is the weather in Paris?", tools=[TOOL], tool_choice="required", max_tokens=60),
                "failed": ask("scripted", "What is the weather in Rome?", tools=[TOOL]),
                "rounds": ask("runs-tools", "Look!"),
                "gone": ask("fails", "Hello?"),
                "recursive": ask("rlm", "What is it?"),
                "hostile": ask("scripted", "attack " + ATTACK, tools=[TOOL], stream=True),
            }
            whole = (records / names["demo"]).read_bytes()
            names["cut"] = names["demo"].replace("req_", "req_cut")
            (records / names["cut"]).write_bytes(whole[:len(whole) * 2 // 3])
            yield server, names
    finally:
        upstream.shutdown()
        upstream.server_close()
        policy.close()


def test_the_inspector_of_a_server(tmp_path):
    if shutil.which("node") is None or not (WEB / "node_modules" / "playwright-core").exists() or not CHROMIUM.exists():
        pytest.skip(f"there is no browser or no playwright: {HOW}")
    with recorded(tmp_path) as (server, names):
        done = subprocess.run(["node", "--test", "--test-reporter=spec", "test/server.test.mjs"], cwd=WEB, capture_output=True, text=True,
                              timeout=600, check=False, env={**os.environ, "TENON_URL": server.url, "RECORDINGS": json.dumps(names)})
        assert server.is_alive()
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
