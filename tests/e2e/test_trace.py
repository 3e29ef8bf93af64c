"""`tenon call --trace` and `tenon chat --trace`: what happened in an answer, in the terminal (docs/inspector.md)."""
import json
import re
import subprocess

import pytest
from scripted_upstream import call
from serving import ROOT, TENON
from test_tools import model

TOOLS = str(ROOT / "examples" / "tools.json")


def tenon(*arguments, stdin=None, timeout=120):
    return subprocess.run([TENON, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL if stdin is None else None)


def test_a_call_is_traced_beside_its_answer():
    run = tenon("call", "--json", "--trace", "--tools", TOOLS, "--tool-choice", "required", "What is the weather in Paris?")
    assert run.returncode == 0, run.stderr
    called = json.loads(run.stdout)["tool_calls"][0]["function"]
    assert re.search(r"^── prompt, \d+ tokens ─+$", run.stderr, re.MULTILINE)
    assert re.search(r'^data     ".*What is the weather in Paris\?', run.stderr, re.MULTILINE)
    assert re.search(r"^template ", run.stderr, re.MULTILINE)
    times = [float(time) for time in re.findall(r"^ +([0-9.]+) ms", run.stderr, re.MULTILINE)]
    assert times == sorted(times) and len(times) > 10
    assert re.search(r'^ +[0-9.]+ ms  ".*"(  control)?  \d+ legal$', run.stderr, re.MULTILINE)
    assert f'-> call 0 begins: "{called["name"]}"' in run.stderr
    spelled = "".join(json.loads(text) for text in re.findall(r'-> call 0 arguments (".*")$', run.stderr, re.MULTILINE))
    assert json.loads(spelled) == json.loads(called["arguments"])
    assert "finish reason tool_calls, guarantee masked" in run.stderr and "\n! " not in run.stderr


def test_why_a_call_was_cut():
    run = tenon("call", "--trace", "--tools", TOOLS, "--tool-choice", "required", "--max-tokens", "12", "Weather in Paris?")
    faults = [line for line in run.stderr.splitlines() if line.startswith("! ")]
    assert faults and re.fullmatch(
        r'! (call 0, ".*", is cut: the answer has reached its limit of 12 tokens|no call: the answer was cut before there was one)',
        faults[-1]), run.stderr


def test_a_traced_server_is_refused():
    run = tenon("call", "--trace", "--url", "http://127.0.0.1:1", "Hello?")
    assert run.returncode == 2 and "tenon serve --record" in run.stderr


@pytest.mark.parametrize("said, why", [
    ("Nothing.", ["! no call: the model chose to answer in words"]),
    (call("get_weather", {"location": 5}), []),  # repaired, and told so
    (call("nowhere", {}), ["! unknown_tool: "]),
    ("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"Pa", ['! call 0, "get_weather", is cut: the model ended']),
])
def test_why_a_played_call_failed(tmp_path, said, why):
    with model(tmp_path, lambda prompt: said) as (config, _):
        run = tenon("call", "--trace", "--config", str(config), "--tools", TOOLS, "Weather?")
    faults = [line for line in run.stderr.splitlines() if line.startswith("! ")]
    for sentence in why:
        assert any(fault.startswith(sentence) for fault in faults), run.stderr
    assert "── timeline, " in run.stderr


def test_every_answer_of_a_conversation_is_traced(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "command": ["echo", "rain \x1b[2J"], "function": {
        "name": "look", "parameters": {"type": "object", "properties": {}}}}]))
    says = lambda prompt: "It rains." if "<tool_response>" in prompt else call("look", {})  # noqa: E731
    with model(tmp_path, says) as (config, _):
        run = tenon("chat", "--trace", "--yes", "--config", str(config), "--tools", str(tmp_path / "tools.json"), stdin="Look!\n")
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("── prompt") == run.stderr.count("── end ") == 2
    assert "finish reason tool_calls" in run.stderr and "finish reason stop" in run.stderr
    assert "\x1b[2J" not in run.stderr.split("── timeline")[0]
