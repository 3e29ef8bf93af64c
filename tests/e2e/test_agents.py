"""Coding agents, each in an environment of its own, through what docs/clients says of it: a loop of three rounds with two tools,
streamed, over an upstream that plays the model: it reads a file, writes what it read to another, and answers.
scripts/setup.sh clients-long makes the environments."""
import json
import os

import pytest
from agents import ANSWER, CLIENTS, ENVIRONMENTS, QUESTION, WORD, Agent, rounds, watching
from scripted_upstream import LLAMA31, call, serving_script

pytestmark = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy clients: TENON_LONG")
CODEX = ("exec_command", {"cmd": "cat notes.txt"}), ("exec_command", {"cmd": f"echo {WORD} > answer.txt"})


def read_and_write(read, write, place=None, path="path"):
    """A call that reads the file, and one that writes the other. `place`: the folder, where an agent wants whole paths."""
    where = f"{place}/" if place else ""
    return (read, {path: f"{where}notes.txt"}), (write, {path: f"{where}answer.txt", "content": WORD})


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_llm(tmp_path, api):
    agent = Agent(tmp_path, "llm", "sh", ENVIRONMENTS / "llm" / "bin" / "llm")
    (agent.project / "tools.py").write_text(agent.page.split("```python\n")[1].split("```")[0])
    with serving_script(tmp_path, rounds(*read_and_write("read_file", "write_file"))) as (server, upstream), watching(server) as watch:
        if api == "responses":
            agent.recipe = agent.recipe.replace("--key", "--responses --key")
        agent.check(watch, upstream, agent.run_recipe(watch), is_kept=api == "chat")
        assert {path for path, _ in watch.asked()} == {"/v1/responses" if api == "responses" else "/v1/chat/completions"}


def test_gptme(tmp_path):
    calls = read_and_write("read", "save")
    agent = Agent(tmp_path, "gptme", "sh", ENVIRONMENTS / "gptme" / "bin" / "gptme")
    with serving_script(tmp_path, rounds(*calls, last=f"{ANSWER}\n{call('complete', {})}")) as (server, upstream), watching(server) as watch:
        agent.check(watch, upstream, agent.run_recipe(watch))


def test_aider(tmp_path):
    """It has no tools: it asks for edits as text."""
    def script(prompt):
        known = f"The word is {WORD}." in prompt
        return f"{ANSWER}\n\nanswer.txt\n```\n<<<<<<< SEARCH\n=======\n{WORD}\n>>>>>>> REPLACE\n```\n" if known else "It says nothing."

    agent = Agent(tmp_path, "aider", "sh", ENVIRONMENTS / "aider" / "bin" / "aider")
    with serving_script(tmp_path, script) as (server, upstream), watching(server) as watch:
        agent.check(watch, upstream, agent.run_recipe(watch), rounds=0)


def test_opencode(tmp_path):
    agent = Agent(tmp_path, "opencode", "json", CLIENTS / "opencode/node_modules/opencode-ai/bin/opencode.exe")
    calls = read_and_write("read", "write", agent.project, "filePath")
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        (agent.project / "opencode.json").write_text(agent.recipe_for(watch.url))
        said = agent.run(watch, "run", "--model", "tenon/scripted", "--format", "json", QUESTION,
                         OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
        agent.check(watch, upstream, said)
    assert max(len(prompt) for prompt in upstream.prompts) > 10_000


def test_opencode_with_two_calls_at_once(tmp_path):
    """Which Llama 3.1's template cannot say: Tenon writes them and their results as it can."""
    def script(prompt):
        if '"bash"' not in prompt:
            return "A title"
        results = prompt.split("returned: ")[1:]
        if not results:
            return "; ".join(json.dumps({"name": "bash", "parameters": {"command": f"echo tenon-$(({number} + 0))", "description": "Says it"}})
                             for number in (41, 42))
        return "It says " + " and ".join(word for word in ("tenon-41", "tenon-42") if any(word in each for each in results))

    agent = Agent(tmp_path, "opencode", "json", CLIENTS / "opencode/node_modules/opencode-ai/bin/opencode.exe")
    with serving_script(tmp_path, script, LLAMA31, "llama3_json") as (server, _), watching(server) as watch:
        (agent.project / "opencode.json").write_text(agent.recipe_for(watch.url))
        said = agent.run(watch, "run", "--model", "tenon/scripted", "--format", "json", "What does it say?",
                         OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
    assert "It says tenon-41 and tenon-42" in said
    assert [event["part"]["tool"] for event in map(json.loads, said.splitlines()) if event["type"] == "tool_use"] == ["bash"] * 2


def test_codex(tmp_path):
    """It sends hosted tools and client_metadata, which no server must refuse. Here a token is a byte, so its own window is too
    small."""
    agent = Agent(tmp_path, "codex", "toml", CLIENTS / "codex/node_modules/.bin/codex")
    calls = CODEX[0], ("get_goal", {}), CODEX[1]
    (tmp_path / "codex").mkdir()
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        (tmp_path / "codex" / "config.toml").write_text(agent.recipe_for(watch.url))
        said = agent.run(watch, "exec", "-c", "model_context_window=1000000", "--json", "--skip-git-repo-check",
                         "--dangerously-bypass-approvals-and-sandbox", QUESTION, CODEX_HOME=str(tmp_path / "codex"))
        agent.check(watch, upstream, said, rounds=4)


def test_claude_code(tmp_path):
    agent = Agent(tmp_path, "claude-code", "sh", CLIENTS / "claude-code/node_modules/.bin/claude")
    agent.words_are_not_free = True
    calls = read_and_write("Read", "Write", agent.project, "file_path")
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        agent.recipe = agent.recipe.rstrip() + f' -p "{QUESTION}" --allowedTools Read,Write --output-format json\n'
        said = agent.run_recipe(watch)
        agent.check(watch, upstream, said)
    result = json.loads(said)
    assert not result["is_error"] and result["num_turns"] == 3, said


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses", "anthropic-messages"])
def test_pi(tmp_path, api):
    """In the page's dialect, from which a fixture is kept, and in the two others."""
    agent = Agent(tmp_path, "pi", "sh", CLIENTS / "pi/node_modules/.bin/pi")
    calls = read_and_write("read", "write")
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        models = agent.write_home(".pi/agent/models.json", "json", watch.url)
        if api != "openai-completions":
            base = watch.url if api == "anthropic-messages" else f"{watch.url}/v1"
            models.write_text(models.read_text().replace("openai-completions", api).replace(f"{watch.url}/v1", base))
        agent.check(watch, upstream, agent.run_recipe(watch), is_kept=api == "openai-completions")


def test_qwen_code(tmp_path):
    agent = Agent(tmp_path, "qwen-code", "sh", CLIENTS / "qwen-code/node_modules/.bin/qwen")
    calls = read_and_write("read_file", "write_file", agent.project, "file_path")
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        agent.check(watch, upstream, agent.run_recipe(watch))


def test_continue(tmp_path):
    agent = Agent(tmp_path, "continue", "sh", CLIENTS / "continue/node_modules/.bin/cn")
    calls = read_and_write("Read", "Write", agent.project, "filepath")
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        agent.write_home(".continue/config.yaml", "yaml", watch.url)
        agent.check(watch, upstream, agent.run_recipe(watch))


def test_cline(tmp_path):
    """It leaves a process of its own behind, which a test has to stop."""
    agent = Agent(tmp_path, "cline", "sh", CLIENTS / "cline/node_modules/.bin/cline")
    calls = (("read_files", {"files": [{"path": str(agent.project / "notes.txt")}]}),
             ("editor", {"path": str(agent.project / "answer.txt"), "new_text": WORD}))
    with serving_script(tmp_path, rounds(*calls)) as (server, upstream), watching(server) as watch:
        try:
            agent.check(watch, upstream, agent.run_recipe(watch))
        finally:
            agent.run(watch, "hub", "stop")


# By name: the page, the language of its recipe, the program, its calls, and the agent's own arguments.
LAUNCHED = {
    "claude": ("claude-code", "sh", "claude-code/node_modules/.bin/claude",
               lambda place: read_and_write("Read", "Write", place, "file_path"), ["-p", QUESTION, "--allowedTools", "Read,Write"]),
    "codex": ("codex", "toml", "codex/node_modules/.bin/codex", lambda _: CODEX,
              ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", QUESTION]),
    "opencode": ("opencode", "json", "opencode/node_modules/opencode-ai/bin/opencode.exe",
                 lambda place: read_and_write("read", "write", place, "filePath"), ["run", QUESTION]),
    "qwen": ("qwen-code", "sh", "qwen-code/node_modules/.bin/qwen",
             lambda place: read_and_write("read_file", "write_file", place, "file_path"), ["--approval-mode", "yolo", "-p", QUESTION]),
    "pi": ("pi", "sh", "pi/node_modules/.bin/pi", lambda _: read_and_write("read", "write"), ["--offline", "--print", QUESTION]),
    "continue": ("continue", "sh", "continue/node_modules/.bin/cn", lambda place: read_and_write("Read", "Write", place, "filepath"),
                 ["--auto", "--print", QUESTION]),
    "cline": ("cline", "sh", "cline/node_modules/.bin/cline",
              lambda place: (("read_files", {"files": [{"path": f"{place}/notes.txt"}]}),
                             ("editor", {"path": f"{place}/answer.txt", "new_text": WORD})), ["--auto-approve", "true", QUESTION]),
    "gptme": ("gptme", "sh", ENVIRONMENTS / "gptme/bin/gptme", lambda _: read_and_write("read", "save"),
              ["--tools", "shell,save,read", "--non-interactive", QUESTION]),
    "llm": ("llm", "sh", ENVIRONMENTS / "llm/bin/llm", lambda _: read_and_write("read_file", "write_file"),
            ["--functions", "tools.py", "--chain-limit", "10", QUESTION]),
}


@pytest.mark.parametrize("name", LAUNCHED)
def test_launched(tmp_path, name):
    """`tenon launch` alone, without a file of the agent's."""
    page, language, program, calls, arguments = LAUNCHED[name]
    agent = Agent(tmp_path, page, language, CLIENTS / program)
    if name == "llm":
        (agent.project / "tools.py").write_text(agent.block("python"))
    last = f"{ANSWER}\n{call('complete', {})}" if name == "gptme" else ANSWER
    with serving_script(tmp_path, rounds(*calls(agent.project), last=last)) as (server, upstream), watching(server) as watch:
        try:
            agent.check(watch, upstream, agent.launch(watch, name, *arguments), is_kept=False)
        finally:
            if name == "cline":
                agent.run(watch, "hub", "stop")
