"""A real model at a real task: three coding agents are asked to rename a function in three files and to run the tests. The model may
fail, and this test does not ask whether it did; no request may be refused, and no call may break its schema. Prints what came out
(`pytest -s`), for docs/clients/README.md. The model's file comes from scripts/real_models.py; without it the tests are skipped.

    TENON_LONG=1 .venv/bin/python -m pytest -s tests/e2e/test_real_task.py

An agent has TENON_REAL_TASK_S seconds (1500). Its instructions are short and most of its tools are off: two idle cores read some 40
tokens of a prompt in a second, and the agents' own prompts have thousands."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

import agents
import pytest
from agents import CLIENTS, PLACE, Agent, watching
from serving import ROOT, serving

MODEL = "qwen2.5-coder-1.5b"
LIMIT_S = int(os.environ.get("TENON_REAL_TASK_S", "1500"))
CONFIG = """[[model]]
name = "my-model"
path = "{path}"
context_tokens = 16384
max_tokens = 600
"""

OLD, NEW = "area", "rectangle_area"
FILES = {
    "shapes.py": "def area(width, height):\n    return width * height\n",
    "report.py": "from shapes import area\n\n\ndef report(width, height):\n    return f\"{area(width, height)} m2\"\n",
    "test_shapes.py": "import unittest\n\nfrom report import report\nfrom shapes import area\n\n\nclass ShapesTest(unittest.TestCase):\n"
                      "    def test_area(self):\n        self.assertEqual(area(2, 3), 6)\n\n"
                      "    def test_report(self):\n        self.assertEqual(report(2, 3), \"6 m2\")\n",
}
TASK = (f"Rename the function `{OLD}` to `{NEW}` in shapes.py, report.py and test_shapes.py. Then run the tests with "
        "`python3 -m unittest` and tell me whether they pass.")
INSTRUCTIONS = ("You are a coding agent. You see and change files only by calling tools, so begin with a call, make one call at a time, and "
                "wait for its result. Once the tests have run, say what came out.\n")


# ---- The agents, with short prompts -------------------------------------------------------------


def codex(agent, watch):
    home = agent.folder / "codex"
    home.mkdir()
    (home / "config.toml").write_text(with_place(agent.recipe, watch) + "stream_idle_timeout_ms = 1500000\nrequest_max_retries = 0\n")
    (home / "instructions.md").write_text(INSTRUCTIONS)
    options = [f'model_instructions_file="{home / "instructions.md"}"', "include_permissions_instructions=false",
               "skills.include_instructions=false", 'web_search="disabled"']
    return (["exec", *(word for option in options for word in ("-c", option)), "--disable", "multi_agent", "--disable", "goals",
             "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK], {"CODEX_HOME": str(home)})


def opencode(agent, watch):
    config = json.loads(with_place(agent.recipe, watch))
    config["provider"]["tenon"]["options"]["timeout"] = False
    config["agent"] = {"build": {"prompt": INSTRUCTIONS, "tools": {name: name in ("bash", "edit", "read") for name in (
        "bash", "edit", "glob", "grep", "read", "skill", "task", "todowrite", "webfetch", "write")}}, "title": {"disable": True}}
    (agent.project / "opencode.json").write_text(json.dumps(config))
    return (["run", "--model", "tenon/my-model", "--title", "Rename", TASK],
            {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"})


def claude_code(agent, watch):
    variables = dict(re.findall(r"^export (\w+)=(\S+)$", with_place(agent.recipe, watch), re.M))
    return (["-p", TASK, "--bare", "--system-prompt", INSTRUCTIONS, "--tools", "Bash,Edit,Read", "--allowedTools", "Bash,Edit,Read"],
            {**variables, "ANTHROPIC_API_KEY": "none", "API_TIMEOUT_MS": "1500000"})


# By page: the language of its recipe, the program, and what starts it.
AGENTS = {
    "codex": ("toml", "codex/node_modules/.bin/codex", codex),
    "opencode": ("json", "opencode/node_modules/opencode-ai/bin/opencode.exe", opencode),
    "claude-code": ("sh", "claude-code/node_modules/.bin/claude", claude_code),
}


def with_place(recipe, watch):
    return recipe.replace(PLACE, watch.url)


# ---- What came out ------------------------------------------------------------------------------


def metrics(server):
    """Each metric's values, by its labels."""
    text = urllib.request.urlopen(server.url + "/metrics", timeout=60).read().decode()
    found = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M):
        found.setdefault(name, {})[labels] = float(value)
    return found


def labelled(values, label):
    """How many of each value of this label there are."""
    counts = {}
    for labels, count in values.items():
        if count:
            name = re.search(rf'{label}="([^"]*)"', labels)[1]
            counts[name] = counts.get(name, 0) + int(count)
    return counts


def outcome(agent, server, watch):
    seen = metrics(server)
    total = lambda name: int(sum(seen.get(name, {}).values()))  # noqa: E731
    texts = [(agent.project / name).read_text() for name in FILES]
    tests = subprocess.run([sys.executable, "-m", "unittest"], cwd=agent.project, capture_output=True, text=True, timeout=60)
    return {"requests": len(watch.asked()), "answers": total("tenon_answers_total"), "prompt tokens": total("tenon_prompt_tokens_total"),
            "from the cache": total("tenon_prefix_cache_tokens_total"), "answer tokens": total("tenon_generated_tokens_total"),
            "calls": labelled(seen.get("tenon_tool_calls_total", {}), "outcome"), "repairs": labelled(seen.get("tenon_repairs_total", {}), "kind"),
            "files renamed": sum(NEW in text and not re.search(rf"(?<![_\w]){OLD}\b", text) for text in texts),
            "tests pass": tests.returncode == 0}


@pytest.mark.serial
@pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="a real model at a task takes many minutes: TENON_LONG")
@pytest.mark.parametrize("name", AGENTS)
def test_real_task(tmp_path, name):
    spec = importlib.util.spec_from_file_location("real_models", ROOT / "scripts" / "real_models.py")
    models = importlib.util.module_from_spec(spec)
    sys.modules["real_models"] = models
    spec.loader.exec_module(models)
    path = models.path_if_here(MODEL)
    if path is None:
        pytest.skip(models.why_missing(MODEL))
    language, program, start = AGENTS[name]
    agent = Agent(tmp_path, name, language, CLIENTS / program)
    (agent.project / "notes.txt").unlink()
    for file, text in FILES.items():
        (agent.project / file).write_text(text)
    (tmp_path / "tenon.toml").write_text(CONFIG.format(path=path))
    with serving(tmp_path / "serve.log", "--config", str(tmp_path / "tenon.toml")) as server, watching(server, LIMIT_S) as watch:
        arguments, variables = start(agent, watch)
        begun = time.monotonic()
        try:
            said = agents.run([agent.program, *arguments], agent.project, watch.url, LIMIT_S, **agent.environment(), **variables)
        except subprocess.TimeoutExpired as late:
            said = f"no end within {LIMIT_S} s: {(late.stdout or b'').decode()}"
        result = {"agent": name, "seconds": round(time.monotonic() - begun), **outcome(agent, server, watch), "said": said[-600:]}
        print(json.dumps(result, indent=1))
        assert not [one for one in watch.refused() if one[0] == "POST"], watch.refused()
        assert result["answers"] and not result["calls"].get("invalid"), result
        assert server.is_alive()
