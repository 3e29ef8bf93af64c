"""The clients that people use, each in an environment of its own, through what docs/clients says of it: the loop of a
question, a call, its result and an answer, streamed and not. scripts/setup.sh makes the environments."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from scripted_upstream import LLAMA31, TEMPLATE, call, serving_script
from serving import ROOT, TENON

CLIENTS = ROOT / "tests" / "e2e" / "clients"
ENVIRONMENTS = pathlib.Path(sys.prefix) / "clients"
PYTHON = [("langchain-openai", "check_langchain.py"), ("pydantic-ai", "check_pydantic_ai.py"),
          ("instructor", "check_instructor.py"), ("openai-agents", "check_openai_agents.py")]
long = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy clients: TENON_LONG")


def run(command, folder, url, timeout=300, **variables):
    """What the command says; it must succeed."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE", "OPENAI"))}
    env = {**outer, "TENON_URL": url, "PWD": str(folder), **variables}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_python(name, script, url, **variables):
    python = ENVIRONMENTS / name / "bin" / "python"
    assert python.exists(), f"{name} is not installed: scripts/setup.sh clients-long"
    return run([python, CLIENTS / script], CLIENTS, url, **variables)


# Calls that are demanded, and what fits a schema, come from the bundled model; loops, in which a model has to choose, from one that is
# played.


def test_pages_of_the_official_sdks(server, played):
    """Those for Node run with their other tests (test_node_sdks)."""
    run([sys.executable, CLIENTS / "check_sdks.py"], CLIENTS, server.url, TENON_SCRIPTED=played.url)


@pytest.mark.parametrize("name,script", PYTHON, ids=[name for name, _ in PYTHON])
def test_python_client(server, played, name, script):
    run_python(name, script, server.url, TENON_SCRIPTED=played.url)


def test_ai_sdk(server, played):
    run(["node", "--test", "--test-reporter=tap"], CLIENTS / "ai-sdk", server.url, TENON_SCRIPTED=played.url)


@long
def test_llama_index(server, played):
    run_python("llama-index", "check_llama_index.py", server.url, TENON_SCRIPTED=played.url)


@long
def test_crewai(server, tmp_path):
    def script(prompt):
        if "<tool_response>" not in prompt:
            return call("get_weather", {"location": "Ljubljana"})
        return "It is 18 degrees and cloudy." if "cloudy" in prompt.split("<tool_response>")[1] else "Nobody knows."

    with serving_script(tmp_path, script) as (scripted, _):
        run_python("crewai", "check_crewai.py", server.url, TENON_SCRIPTED=scripted.url, HOME=str(tmp_path))


def shell(number):
    """Arguments of a call of an agent's shell."""
    return {"command": f"echo tenon-$(({number} + 0))", "description": "Says it"}


def as_hermes(tool):
    def script(prompt):
        if "<tools>" not in prompt:
            return "A title"
        if "<tool_response>" not in prompt:
            return "Let me see.\n" + call(tool, shell(41))
        return "It says tenon-41." if "tenon-41" in prompt.split("<tool_response>")[1] else "It says nothing."
    return script


def as_llama31(prompt):
    """Two calls at once, which its template cannot say: Tenon writes them and their results as it can."""
    if '"bash"' not in prompt:
        return "A title"
    if "returned: " not in prompt:
        return "; ".join(json.dumps({"name": "bash", "parameters": shell(number)}) for number in (41, 42))
    results = prompt.split("returned: ")[1:]
    return "It says " + " and ".join(word for word in ("tenon-41", "tenon-42") if any(word in each for each in results))


class Agent:
    """A coding agent in an empty project and an empty home, over an upstream that plays its model: its prompt does not
    fit into the bundled one."""

    def __init__(self, folder, page, language, program):
        self.folder, self.program = folder, CLIENTS / program
        assert self.program.exists(), f"{program} is not installed: scripts/setup.sh clients-long"
        (folder / "project").mkdir()
        self.recipe = (ROOT / "docs" / "clients" / page).read_text().split(f"```{language}\n")[1].split("```")[0]
        assert "http://127.0.0.1:8080" in self.recipe and "my-model" in self.recipe

    def recipe_for(self, server):
        """The page's own, for this server."""
        return self.recipe.replace("http://127.0.0.1:8080", server.url).replace("my-model", "scripted")

    def run(self, server, *arguments, **variables):
        return run([self.program, *arguments], self.folder / "project", server.url, **self.home(), **variables)

    def home(self):
        return {name: str(self.folder / name) for name in
                ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}

    def launch(self, name, server, *arguments, **variables):
        """By `tenon launch`, without the page's file."""
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / name).symlink_to(self.program)
        return run([TENON, "launch", name, "--url", server.url, "--", *arguments], self.folder / "project", server.url,
                   PATH=f"{programs}:{os.environ['PATH']}", **self.home(), **variables)


OPENCODE = [("hermes", as_hermes("bash"), TEMPLATE, "hermes", 1, "It says tenon-41"),
            ("llama-3.1", as_llama31, LLAMA31, "llama3_json", 2, "It says tenon-41 and tenon-42")]


@long
@pytest.mark.parametrize("script,template,tool_format,calls,answer", [row[1:] for row in OPENCODE],
                         ids=[row[0] for row in OPENCODE])
def test_opencode(tmp_path, script, template, tool_format, calls, answer):
    agent = Agent(tmp_path, "opencode.md", "json", "opencode/node_modules/opencode-ai/bin/opencode.exe")
    with serving_script(tmp_path, script, template, tool_format) as (server, upstream):
        config = {**json.loads(agent.recipe_for(server)), "permission": {"bash": "allow"}}
        (tmp_path / "project" / "opencode.json").write_text(json.dumps(config))
        said = agent.run(server, "run", "--model", "tenon/scripted", "--format", "json", "What does it say?",
                         OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert answer in "".join(event["part"].get("text", "") for event in events if event["type"] == "text"), said
    assert [event["part"]["tool"] for event in events if event["type"] == "tool_use"] == ["bash"] * calls, said
    assert max(len(prompt) for prompt in upstream.prompts) > 10_000


@long
def test_codex(tmp_path):
    """It sends hosted tools and client_metadata, which no server must refuse. Here a token is a byte, so its own window is too small."""
    def script(prompt):
        if "<tool_response>" not in prompt:
            return "Let me see.\n" + call("exec_command", {"cmd": shell(41)["command"]})
        return "It says tenon-41." if "tenon-41" in prompt.split("<tool_response>")[1] else "It says nothing."

    agent = Agent(tmp_path, "codex.md", "toml", "codex/node_modules/.bin/codex")
    (tmp_path / "codex").mkdir()
    with serving_script(tmp_path, script) as (server, upstream):
        (tmp_path / "codex" / "config.toml").write_text(agent.recipe_for(server))
        said = agent.run(server, "exec", "-c", "model_context_window=1000000", "--json", "--skip-git-repo-check",
                         "--dangerously-bypass-approvals-and-sandbox", "What does it say?", CODEX_HOME=str(tmp_path / "codex"))
    items = [event["item"] for event in map(json.loads, said.splitlines()) if event["type"] == "item.completed"]
    assert [item["text"] for item in items if item["type"] == "agent_message"][-1] == "It says tenon-41.", said
    assert [item["exit_code"] for item in items if item["type"] == "command_execution"] == [0], said
    assert len(upstream.prompts) == 2 and '"name": "exec_command"' in upstream.prompts[0]


@long
def test_claude_code(tmp_path):
    agent = Agent(tmp_path, "claude-code.md", "sh", "claude-code/node_modules/.bin/claude")
    with serving_script(tmp_path, as_hermes("Bash")) as (server, upstream):
        variables = dict(line.removeprefix("export ").split("=", 1)
                         for line in agent.recipe_for(server).splitlines() if line.startswith("export "))
        said = agent.run(server, "-p", "What does it say?", "--allowedTools", "Bash", "--output-format", "json", **variables)
    result = json.loads(said)
    assert result["result"] == "It says tenon-41." and not result["is_error"] and result["num_turns"] == 2, said
    assert max(len(prompt) for prompt in upstream.prompts) > 10_000


# name, page, language of its recipe, program, tool, arguments of its call, the agent's arguments
LAUNCHED = [("claude", "claude-code.md", "sh", "claude-code/node_modules/.bin/claude", "Bash", shell(41),
             ["-p", "What does it say?", "--allowedTools", "Bash"]),
            ("codex", "codex.md", "toml", "codex/node_modules/.bin/codex", "exec_command", {"cmd": shell(41)["command"]},
             ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "What does it say?"]),
            ("opencode", "opencode.md", "json", "opencode/node_modules/opencode-ai/bin/opencode.exe", "bash", shell(41),
             ["run", "What does it say?"])]


@long
@pytest.mark.parametrize("name,page,language,program,tool,call_of,arguments", LAUNCHED, ids=[row[0] for row in LAUNCHED])
def test_launched(tmp_path, name, page, language, program, tool, call_of, arguments):
    def script(prompt):
        if "<tools>" not in prompt:
            return "A title"
        if "<tool_response>" not in prompt:
            return call(tool, call_of)
        return "It says tenon-41." if "tenon-41" in prompt.split("<tool_response>")[1] else "It says nothing."

    agent = Agent(tmp_path, page, language, program)
    with serving_script(tmp_path, script) as (server, upstream):
        said = agent.launch(name, server, *arguments)
    assert "It says tenon-41." in said, said
    assert max(len(prompt) for prompt in upstream.prompts) > 10_000
