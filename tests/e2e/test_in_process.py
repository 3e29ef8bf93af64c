"""Services, engines and conversations in a program of one's own: docs/in-process.md, examples/c."""
import json
import re

import pytest
from native import STRICT, run
from serving import ROOT

MODEL = ROOT / "models/tenon-tiny.gguf"


@pytest.fixture(scope="module")
def build(installed, tmp_path_factory):
    """The path of the program that examples/c has under a name."""
    folder = tmp_path_factory.mktemp("in_process")

    def build(name):
        run("cc", "-std=c99", *STRICT, ROOT / f"examples/c/{name}.c", *installed.flags(), "-o", folder / name,
            env=installed.env)
        return folder / name

    return build


def test_an_engine_that_knows_nothing_is_held_to_the_schema(build, installed):
    status, answer = run(build("engine"), MODEL, env=installed.env).split(" ", 1)
    assert status == "200"
    answer = json.loads(answer)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    content = json.loads(choice["message"]["content"])
    assert content["city"] in ("Rome", "Oslo") and isinstance(content["is_warm"], bool) and len(content) == 2
    assert answer["tenon"]["guarantee"] == "masked"


def test_a_conversation_runs_its_tool(build, installed):
    events, turn = run(build("talk"), MODEL, env=installed.env).rstrip("\n").rsplit("\n", 1)
    turn = json.loads(turn)
    calls = [json.loads(arguments) for arguments in re.findall(r"^get_weather (.*)$", events, re.MULTILINE)]
    assert events.startswith("[tool_calls]\nget_weather {") and 2 <= turn["rounds"] <= 4
    assert all(list(call) == ["city"] and isinstance(call["city"], str) for call in calls)
    assert events.endswith((turn["content"] or "") + f"[{turn['finish_reason']}]")
    assert turn["tool_calls"] == [] and turn["finish_reason"] in ("stop", "length")
