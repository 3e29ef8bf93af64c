"""Recursive models over HTTP: tasks over long texts with a script as the model, the bundled model
through the loop, pauses that outlive the server, and what is told and refused on the way."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zlib

import pytest
from data import LARGE, SAMPLES
from recursive import SEARCH, TOOLS, Policy, ask, config, get, post, recursive, resumed, turns
from serving import ROOT, TENON, free_port, serving
from tools import bearer, make_key

BENCH = LARGE.parent / "rlmbench"
TINY = ROOT / "models" / "tenon-tiny.gguf"


# ---- tasks over long texts

def own_tasks(folder):
    """By name: (question, text, whether an answer is right), and the module that plays the models."""
    import rlm_task as play

    return {name: (question, text, lambda answer, wanted=wanted: play.is_right(wanted, answer))
            for name, (question, text, wanted) in play.make().items()}, play


def large_tasks(folder):
    import policy as play
    import score

    subprocess.run([sys.executable, str(BENCH / "gen.py"), str(folder)], check=True, capture_output=True)
    tasks = {}
    for number, task in enumerate(json.loads((folder / "tasks.json").read_text())):
        text = (folder / f"t{number + 1}.txt").read_text()
        tasks[task["id"].split("-")[0]] = (task["query"], text, lambda answer, task=task: score.score(task, answer) == 1.0)
    return tasks, play


@pytest.fixture(scope="module", params=[
    pytest.param((SAMPLES, own_tasks), id="own"),
    pytest.param((BENCH, large_tasks), id="large", marks=pytest.mark.skipif(
        not (BENCH / "policy.py").exists(), reason=f"NOT TESTED: the large tasks are not at {BENCH}"))])
def tasks(request, tmp_path_factory):
    place, make = request.param
    sys.path.insert(0, str(place))
    try:
        return make(tmp_path_factory.mktemp("tasks"))
    finally:
        sys.path.remove(str(place))


@pytest.mark.parametrize("fails_every", [0, 11])
def test_the_three_tasks_score_1(tasks, tmp_path, fails_every):
    tasks, play = tasks
    seen, largest = set(), {"root": 0, "sub": 0}
    lock = threading.Lock()

    def answer(model, messages):
        kind = "root" if model.startswith("root:") else "sub"
        size = sum(len(message["content"] or "") for message in messages)
        with lock:
            largest[kind] = max(largest[kind], size)
        if kind == "root":
            _, task, protocol = model.split(":")
            return play.root(task, protocol, sum(message["role"] == "assistant" for message in messages), messages)
        prompt = messages[-1]["content"]
        with lock:
            if fails_every and zlib.crc32(prompt.encode()) % fails_every == 0 and prompt not in seen:
                seen.add(prompt)
                return None
        return play.sub(prompt)

    names = [f"root:{task}:{protocol}" for task in tasks for protocol in ("answer", "final")]
    policy = Policy(answer, [*names, "sub"])
    file = tmp_path / "tenon.toml"
    file.write_text(config(policy, [*names, "sub"], "max_body_bytes = 67108864"))
    try:
        with serving(tmp_path / "serve.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
            sub_calls = 0
            for name in names:
                question, text, is_right = tasks[name.split(":")[1]]
                status, reply = post(server, "/v1/chat/completions", {**ask(question, text), "model": name + ":sub"})
                assert status == 200, reply
                assert is_right(reply["choices"][0]["message"]["content"]), name
                sub_calls += reply["tenon"]["rlm"]["sub_calls"]
            assert sub_calls <= 2 * 110  # with one protocol our own tasks take 27, and the large ones 99 to 106
            assert largest["root"] < 20_000 and largest["sub"] < 130_000
    finally:
        policy.close()


# ---- what clients see

def test_is_a_model_in_all_dialects(tmp_path):
    with recursive(tmp_path, turns("```repl\nx = llm_query(context[:3])\nprint(x)\n```", "FINAL_VAR(x)")) as (server, policy):
        _, chat = post(server, "/v1/chat/completions", ask("q"))
        assert chat["choices"][0]["message"]["content"] == "<the>"
        assert chat["choices"][0]["finish_reason"] == "stop"
        assert chat["usage"]["prompt_tokens"] == 30 and chat["usage"]["completion_tokens"] == 3
        assert chat["tenon"]["rlm"]["sub_calls"] == 1 and chat["tenon"]["rlm"]["iterations"] == 2
        _, messages = post(server, "/v1/messages", {"model": "rlm", "max_tokens": 100, "system": "the needle",
                                                    "messages": [{"role": "user", "content": "q"}]})
        assert messages["content"] == [{"type": "text", "text": "<the>"}]
        _, response = post(server, "/v1/responses", {"model": "rlm", "instructions": "the needle", "input": "q"})
        assert response["output"][-1]["content"][0]["text"] == "<the>"
        _, pair = post(server, "/v1/chat/completions", {**ask("q"), "model": "root:sub"})
        assert pair["choices"][0]["message"]["content"] == "<the>"
        assert get(server, "/health")["sandbox"] in ("bubblewrap", "landlock")
        assert "recursive, root root, sub sub, sandbox" in server.log.read_text()
        assert "rlm" in [model["id"] for model in get(server, "/v1/models")["data"]]
        # To the root model goes what there is to know of the context, and not the context.
        assert all("needle" not in message["content"] for call in policy.calls for message in call["messages"])


def test_pairs_are_made_of_models_that_are_not_recursive(tmp_path):
    with recursive(tmp_path, turns("FINAL(ok)")) as (server, _):
        for name in ("rlm:sub", "root:rlm", "rlm:rlm"):
            status, body = post(server, "/v1/chat/completions", {**ask("q"), "model": name})
            assert (status, body["error"]["code"]) == (404, "model_not_found")
            assert f'"{name}" is no pair of models: "rlm" is a recursive model itself' in body["error"]["message"]
        about = get(server, "/v1/models/root:sub")
        assert about["id"] == "root:sub" and about["engine"] == "rlm" and about["capabilities"]["tool_calls"]
        status, body = post(server, "/v1/chat/completions", {**ask("q"), "model": "root:nothing"})
        assert status == 404 and "does not exist" in body["error"]["message"]
        status, body = post(server, "/tokenize", {"model": "root:sub", "content": "a"})
        assert status == 400 and "ask its root model" in body["error"]["message"]


def test_pairs_may_be_switched_off_or_held_to_limits(tmp_path):
    with recursive(tmp_path, turns("FINAL(ok)"), server="recursive_pairs = false") as (server, _):
        status, body = post(server, "/v1/chat/completions", {**ask("q"), "model": "root:sub"})
        assert status == 404 and "not taken here (server.recursive_pairs)" in body["error"]["message"]
    with recursive(tmp_path, turns("FINAL(ok)"), server='recursive_pairs_like = "rlm"', options="max_iterations = 2") as (server, _):
        status, body = post(server, "/v1/chat/completions", {**ask("q"), "model": "root:sub", "rlm": {"max_iterations": 3}})
        assert (status, body["error"]["param"]) == (400, "rlm.max_iterations")
        status, _ = post(server, "/v1/chat/completions", {**ask("q"), "model": "root:sub", "rlm": {"max_iterations": 2}})
        assert status == 200


@pytest.mark.parametrize("turns_of_environment, said, most", [("3", None, 5), ("30", None, 30), ("1000", 'RLM_MAX_ITERATIONS is "1000" and is not taken: it must be a number from 1 to 100', 5)])
def test_the_environment_comes_before_the_configuration(tmp_path, turns_of_environment, said, most):
    never = turns(*["```repl\nx = 1\n```"] * 40)
    with recursive(tmp_path, never, options="max_iterations = 5", env={"RLM_MAX_ITERATIONS": turns_of_environment}) as (server, _):
        _, body = post(server, "/v1/chat/completions", ask("q"))
        assert body["tenon"]["rlm"]["iterations"] == (5 if said else int(turns_of_environment))
        status, _ = post(server, "/v1/chat/completions", ask("q", rlm={"max_iterations": most + 1}))
        assert status == 400
        assert said is None or said in server.log.read_text()


def test_streams_with_what_happens_as_reasoning(tmp_path):
    with recursive(tmp_path, turns("```repl\nprint(6 * 7)\n```", "FINAL(ok)")) as (server, _):
        body = json.dumps({**ask("q"), "stream": True, "rlm": {"events": "reasoning"}}).encode()
        request = urllib.request.Request(server.url + "/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = [line[6:] for line in answer.read().decode().split("\n") if line.startswith("data: ")]
        assert lines[-1] == "[DONE]"
        deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
        assert "".join(delta.get("content") or "" for delta in deltas) == "ok"
        assert "[stdout] 42" in "".join(delta.get("reasoning_content") or "" for delta in deltas)


def test_streams_with_each_event_as_json(tmp_path):
    with recursive(tmp_path, turns("```repl\nprint(6 * 7)\n```", "FINAL(ok)")) as (server, _):
        _, body = post(server, "/v1/chat/completions", ask("q", rlm={"events": "json"}))
    events = [json.loads(line) for line in body["choices"][0]["message"]["reasoning_content"].splitlines()]
    assert [event["type"] for event in events] == ["metadata", "iteration", "cells", "iteration", "final"]
    assert events[2]["cells"][0]["stdout"] == "42\n" and body["choices"][0]["message"]["content"] == "ok"


def test_a_folder_and_packages_by_the_configuration(tmp_path, python_with_numpy):
    """The root model is told what its code may use, and its code may."""
    code = ("```repl\nimport numpy\nwith open('sums.txt', 'w') as file: file.write(str(numpy.arange(4).sum()))\n"
            "print(open('sums.txt').read())\n```")
    options = f'repl_python = "{python_with_numpy}"\nrepl_packages = ["numpy", "Made.Up"]\nrepl_folder_mb = 8\nrepl_memory_mb = 4096'
    if "bubblewrap" not in subprocess.run([TENON, "sandbox", "check"], capture_output=True, text=True).stdout:
        pytest.skip("the tier bubblewrap does not work here")
    with recursive(tmp_path, turns(code, "FINAL(ok)"), server=options) as (server, policy):
        _, body = post(server, "/v1/chat/completions", ask("q", rlm={"events": "json"}))
        told = policy.calls[0]["messages"][0]["content"]
    assert '"stdout":"6\\n"' in body["choices"][0]["message"]["reasoning_content"].replace(" ", ""), body
    assert "Python's standard library, numpy and mdp (Made.Up). There are no other packages, no files but those" in told and "8 MiB" in told


def test_a_package_that_is_missing_is_told_at_the_start(tmp_path):
    with pytest.raises(AssertionError, match="the package no-such-package is not installed for") as told:
        with recursive(tmp_path, turns("FINAL(ok)"), server='repl_packages = ["no-such-package"]'):
            pass
    assert "model 'rlm': " in str(told.value) and "model 'rlm': model 'rlm': " not in str(told.value)


@pytest.mark.parametrize("rlm, param, code", [
    ({"max_iterations": 6}, "rlm.max_iterations", "invalid_value"),
    ({"max_depth": True}, "rlm.max_depth", "invalid_type"),
    ({"nothing": 1}, "rlm.nothing", "unknown_parameter"),
    ({"session": "unknown"}, "rlm.session", "invalid_value"),
])
def test_limits_of_requests_are_within_those_of_the_configuration(tmp_path, rlm, param, code):
    with recursive(tmp_path, turns("FINAL(ok)"), options="max_iterations = 5") as (server, _):
        status, reply = post(server, "/v1/chat/completions", ask("q", rlm=rlm))
        assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, param, code)
        status, reply = post(server, "/v1/chat/completions", ask("q", n=2))
        assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, "n", "unsupported_parameter")
        status, reply = post(server, "/v1/chat/completions", {**ask("q", rlm={}), "model": "root"})
        assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, "rlm", "unsupported_parameter")


def test_environment_of_the_document(tmp_path):
    with recursive(tmp_path, turns("a", "b", "c"), env={"RLM_MAX_ITERATIONS": "2", "RLM_LOGGING": "true"}) as (server, _):
        _, reply = post(server, "/v1/chat/completions", ask("q"))
        assert reply["choices"][0]["message"]["content"] == "c"
        assert "[turn 1]" in server.log.read_text()


# ---- pauses

def test_a_paused_session_outlives_the_server_that_is_killed(tmp_path):
    answer = turns("```repl\nx = llm_query('once')\nprint(x)\n```", [SEARCH], "```repl\nprint(x, tool_results)\n```", "FINAL_VAR(x)")
    policy = Policy(answer)
    file = tmp_path / "tenon.toml"
    file.write_text(config(policy, ["root", "sub"]) + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n')
    body = ask("q", tools=TOOLS)
    try:
        for _ in range(3):
            policy.calls.clear()
            with serving(tmp_path / "first.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
                _, paused = post(server, "/v1/chat/completions", body)
                assert paused["choices"][0]["finish_reason"] == "tool_calls", paused
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
            with serving(tmp_path / "second.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
                for _ in range(2):  # a client that has lost the answer asks again, and gets it
                    status, reply = post(server, "/v1/chat/completions", resumed(body, paused, ["r"]))
                    assert status == 200 and reply["choices"][0]["message"]["content"] == "<once>", reply
                assert policy.count("sub") == 1
                assert policy.count("root") == 4
    finally:
        policy.close()


def test_pauses_in_the_dialect_of_messages(tmp_path):
    with recursive(tmp_path, turns([SEARCH], "```repl\nprint(tool_results)\n```", "FINAL(ok)")) as (server, policy):
        body = {"model": "rlm", "max_tokens": 100, "messages": [{"role": "user", "content": "q"}],
                "tools": [{"name": "search", "input_schema": TOOLS[0]["function"]["parameters"]}]}
        _, paused = post(server, "/v1/messages", body)
        assert paused["stop_reason"] == "tool_use", paused
        call = paused["content"][0]
        assert call["input"] == {"query": "X"}
        result = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ROW"}]
        body["messages"] += [{"role": "assistant", "content": paused["content"]}, {"role": "user", "content": result}]
        _, reply = post(server, "/v1/messages", body)
        assert reply["content"] == [{"type": "text", "text": "ok"}]
        assert "['ROW']" in policy.calls[-1]["messages"][-1]["content"]


def test_a_session_of_another_key_cannot_be_continued(tmp_path):
    mine, line = make_key("mine")
    other, other_line = make_key("other")
    (tmp_path / "keys.txt").write_text(line + other_line)
    script = turns("```repl\nkept = 'secret'\n```", [SEARCH], "FINAL_VAR(kept)")
    with recursive(tmp_path, script, server='api_keys_file = "keys.txt"') as (server, policy):
        body = ask("q", tools=TOOLS)
        _, paused = post(server, "/v1/chat/completions", body, bearer(mine))
        goes_on = resumed(body, paused, ["r"])
        # For another key these calls were not made here, so a new run begins, with all of it as its history.
        policy.answer = turns("```repl\nprint('kept' in globals())\n```", "FINAL(no)")
        _, reply = post(server, "/v1/chat/completions", goes_on, bearer(other))
        assert reply["choices"][0]["message"]["content"] == "no"
        assert any("False" in message["content"] for message in policy.calls[-1]["messages"])
        status, reply = post(server, "/v1/chat/completions",
                             {**goes_on, "rlm": {"session": paused["tenon"]["rlm"]["session"]}}, bearer(other))
        assert (status, reply["error"]["param"]) == (400, "rlm.session")
        policy.answer = script
        _, reply = post(server, "/v1/chat/completions", goes_on, bearer(mine))
        assert reply["choices"][0]["message"]["content"] == "secret"


def test_code_in_the_sandbox_runs_no_tools_of_the_server(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "delete_all", "parameters": {"type": "object"}, "command": ["true"]}]))
    policy = Policy(turns("```repl\nx = llm_query('delete all')\n```", "FINAL_VAR(x)"))
    text = config(policy, ["root", "sub"]) + 'execute = "server"\ntools = "tools.json"\n'
    file = tmp_path / "tenon.toml"
    file.write_text(text + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n')
    try:
        with serving(tmp_path / "serve.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
            _, reply = post(server, "/v1/chat/completions", ask("q"))
            assert reply["choices"][0]["message"]["content"] == "<delete all>"
            post(server, "/v1/chat/completions", {**ask("hello"), "model": "sub"})
            assert ["tools" in call for call in policy.calls if call["model"] == "sub"] == [False, True]
    finally:
        policy.close()


# ---- the example

def example_root(model, messages):
    """Reads the order from its question or its context, looks it up, and says what was found."""
    last = messages[-1]["content"]
    if messages[-1]["role"] == "tool":
        return f"FINAL({last})"
    if "6 times 7" in messages[1]["content"]:
        return "```repl\nFINAL(6 * 7)\n```"
    if "the order is" in last or "ORDER-7" in messages[1]["content"]:
        order = "ORDER-8" if "the order is" in last else "ORDER-7"
        return [{"name": "search_database", "arguments": json.dumps({"query": order})}]
    return "```repl\nprint(len(context.splitlines()), [l for l in context.splitlines() if 'order' in l])\n```"


def test_the_example(tmp_path):
    with recursive(tmp_path, example_root, server="max_body_bytes = 67108864") as (server, policy):
        run = subprocess.run([sys.executable, str(ROOT / "examples/recursive/client.py"), "rlm"], capture_output=True, text=True,
                             env={**os.environ, "OPENAI_BASE_URL": server.url + "/v1", "OPENAI_API_KEY": "none"}, timeout=120)
        assert run.returncode == 0, run.stderr
        assert run.stdout.splitlines() == [
            "  [search_database {'query': 'ORDER-7'}]", "Tools: paid on Monday",
            "  [search_database {'query': 'ORDER-8'}]", "Tools and a million lines: waits for its payment", "No tools: 42"]
        assert any("1000000 ['line 777777: the order is ORDER-8']" in call["messages"][-1]["content"] for call in policy.calls)


# ---- the bundled model, which cannot do it, and breaks nothing

def test_the_bundled_model_goes_through_the_loop(tmp_path):
    file = tmp_path / "tenon.toml"
    file.write_text(f'[[model]]\nname = "tiny"\npath = "{TINY}"\nmax_tokens = 60\n'
                    '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "tiny"\nmax_iterations = 3\n')
    with serving(tmp_path / "serve.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
        for more in ({}, {"tools": TOOLS}):
            status, reply = post(server, "/v1/chat/completions", ask("What is the code?", "line\n" * 5000, **more))
            assert status == 200, reply
            choice = reply["choices"][0]
            assert choice["message"]["content"] or choice["message"]["tool_calls"]
        assert server.is_alive()


# ---- the command

def test_the_command_answers_and_traces(tmp_path):
    (tmp_path / "book.txt").write_text("line\n" * 1000 + "the code is SESAME-42\n")
    policy = Policy(turns("```repl\nimport re\nx = re.search(r'SESAME-\\d+', context).group(0)\nprint(x)\n```", "FINAL_VAR(x)"))
    (tmp_path / "tenon.toml").write_text(config(policy, ["root", "sub"]))
    try:
        line = [str(TENON), "rlm", "--config", str(tmp_path / "tenon.toml"), "--context", str(tmp_path / "book.txt"),
                "--trace", str(tmp_path / "trace.jsonl"), "--model", "root:sub", "What is the code?"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
        assert (done.returncode, done.stdout) == (0, "SESAME-42\n"), done.stderr
        assert "2 turns, 0 sub-calls" in done.stderr
        events = [json.loads(event)["type"] for event in (tmp_path / "trace.jsonl").read_text().splitlines()]
        assert events == ["metadata", "iteration", "cells", "iteration", "final"]
        wrong = subprocess.run([*line[:-2], "nothing", "q"], capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 2 and "neither a model" in wrong.stderr
    finally:
        policy.close()


# ---- the command line

@contextlib.contextmanager
def models(folder, answer, options=""):
    """A configuration of `rlm` over `root` and `sub`, for commands that need no server."""
    policy = Policy(answer)
    file = folder / "tenon.toml"
    file.write_text(config(policy, ["root", "sub"]) +
                    f'[[model]]\nname = "rlm"\nalias = ["deep"]\nengine = "rlm"\nroot = "root"\nsub = "sub"\n{options}\n')
    try:
        yield file, policy
    finally:
        policy.close()


def tenon(*arguments, env=None, stdin=None):
    return subprocess.run([str(TENON), *map(str, arguments)], capture_output=True, text=True, timeout=120, input=stdin,
                          env={**os.environ, **(env or {})})


@pytest.mark.parametrize("options, status, said", [
    (["--model", "rlm"], 0, "2 turns, 1 sub-call, "),
    (["--model", "deep"], 0, "1 sub-call, "),
    (["--model", "root:sub"], 0, "1 sub-call, "),
    (["--model", "root"], 0, "1 sub-call, "),
    ([], 0, "1 sub-call, "),
    (["--model", "rlm:sub"], 2, "neither a model of the configuration nor two of them"),
    (["--root", TINY], 2, "--root is instead of a configuration"),
])
def test_the_command_knows_its_models(tmp_path, options, status, said):
    with models(tmp_path, turns("```repl\nx = llm_query(context[:3])\n```", "FINAL_VAR(x)")) as (file, _):
        run = tenon("rlm", "--config", file, "--context", file, *options, "q")
        assert run.returncode == status and said in run.stderr, run.stderr
        assert status or options == ["--model", "root"] or run.stdout == "<[se>\n"


def test_the_command_takes_values_and_several_questions(tmp_path):
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "b.txt").write_text("beta")
    (tmp_path / "rows.json").write_text('[{"id": 3}, {"id": 4}]')
    files = ["--files", "--context", tmp_path / "a.txt", "--context", tmp_path / "b.txt"]
    answers = turns("```repl\nn = sorted(context.values())\nFINAL(n)\n```", "```repl\nFINAL(n[1])\n```", "```repl\nFINAL(len(context))\n```")
    with models(tmp_path, answers) as (file, policy):
        run = tenon("rlm", "--config", file, *files, "Which words?", "The last?", "How many?")
        assert (run.returncode, run.stdout) == (0, "['alpha', 'beta']\nbeta\n2\n"), run.stderr
        assert "a dict of 2 keys" in policy.calls[0]["messages"][1]["content"] and "alpha" not in json.dumps(policy.calls[0])
        assert "The last?" in policy.calls[1]["messages"][-1]["content"]
        run = tenon("rlm", "--config", file, *files, "Which words?", " ")
        assert run.returncode == 2 and "a question is empty" in run.stderr
    with models(tmp_path, turns("```repl\nFINAL(sum(row['id'] for row in context))\n```")) as (file, policy):
        run = tenon("rlm", "--config", file, "--json-context", tmp_path / "rows.json", "--json", "The sum?")
        assert run.returncode == 0 and json.loads(run.stdout)["answer"] == "7", run.stderr
        assert "a list of 2 items; the first is a dict of 1 key" in policy.calls[0]["messages"][1]["content"]
        run = tenon("rlm", "--config", file, "--json-context", tmp_path / "a.txt", "q")
        assert run.returncode == 3 and "a.txt" in run.stderr


def test_a_session_takes_another_question(tmp_path):
    with recursive(tmp_path, turns("```repl\nn = len(context)\nFINAL(n)\n```", "```repl\nFINAL(n + 1)\n```")) as (server, _):
        body = {"model": "rlm", "messages": [{"role": "user", "content": "How many?"}], "rlm": {"keep": True, "context": {"a": 1, "b": 2}}}
        status, first = post(server, "/v1/chat/completions", body)
        assert status == 200 and first["choices"][0]["message"]["content"] == "2", first
        body = {"model": "rlm", "messages": [{"role": "user", "content": "And one more?"}], "rlm": {"session": first["tenon"]["rlm"]["session"]}}
        status, second = post(server, "/v1/chat/completions", body)
        assert status == 200 and second["choices"][0]["message"]["content"] == "3", second
        status, refused = post(server, "/v1/chat/completions", body)
        assert (status, refused["error"]["param"]) == (400, "rlm.session"), "it was not kept again"


def test_the_command_needs_something_to_do(tmp_path):
    run = tenon("rlm", " ")
    assert run.returncode == 2 and "a question is empty" in run.stderr
    run = tenon("rlm", "--root", TINY, "--model", "a:b", "q")
    assert run.returncode == 2 and "names a model of a configuration, but no configuration is given beside --root" in run.stderr


def test_a_demanded_answer_is_told_by_the_exit_status(tmp_path):
    with models(tmp_path, turns("```repl\nx = 1\n```", "I do not know")) as (file, _):
        run = tenon("rlm", "--config", file, "--max-iterations", "1", "q")
        assert (run.returncode, run.stdout) == (1, "I do not know\n")
        assert "; the answer was demanded: max_iterations)" in run.stderr
        run = tenon("rlm", "--config", file, "--max-iterations", "1", "--json", "q")
        assert run.returncode == 1 and json.loads(run.stdout)["forced"] == "max_iterations"


def test_the_command_writes_a_trace_for_its_owner_alone(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("old\n")
    trace.unlink()
    with models(tmp_path, turns("FINAL(ok)"), f'trajectory_dir = "{tmp_path}/a/b"') as (file, _):
        for _ in range(2):
            assert tenon("rlm", "--config", file, "--trace", trace, "q").returncode == 0
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        assert [line["type"] for line in lines] == ["metadata", "iteration", "final"]
        assert all(line["time"] > 1.7e9 for line in lines) and trace.stat().st_mode & 0o777 == 0o600
        run = tenon("rlm", "--config", file, "--trace", tmp_path / "no" / "trace", "q")
        assert run.returncode == 3 and "trace: No such file" in run.stderr


def test_a_run_that_takes_long_shows_that_it_goes_on(tmp_path):
    def answer(model, messages):
        time.sleep(4)
        return "FINAL(ok)"

    with models(tmp_path, answer) as (file, _):
        run = tenon("rlm", "--config", file, "q", env={"RLM_MAX_ITERATIONS": "abc"})
        assert run.returncode == 0 and "at work for 3 s, 0 turns so far" in run.stderr, run.stderr
        assert 'RLM_MAX_ITERATIONS is "abc" and is not taken: it must be a number from 1 to 100' in run.stderr
        run = tenon("rlm", "--config", file, "-q", "q")
        assert (run.returncode, run.stdout, run.stderr) == (0, "ok\n", "")


def test_ctrl_c_ends_the_command_and_tells_what_was_spent(tmp_path):
    trace = tmp_path / "trace.jsonl"
    begun = threading.Event()

    def answer(model, messages):
        if len(messages) > 2:
            begun.set()
            time.sleep(5)
        return "```repl\nprint(1)\n```"

    with models(tmp_path, answer) as (file, _):
        run = subprocess.Popen([str(TENON), "rlm", "--config", str(file), "--trace", str(trace), "q"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert begun.wait(60)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=30)
        spent = re.search(r"ended by a signal \(1 turn, 0 sub-calls, (\d+) tokens\)", said)
        assert run.returncode == 130 and int(spent[1]) > 11, said  # 11 of the first turn, and those of the second until then
        assert json.loads(trace.read_text().splitlines()[-1])["type"] == "error"


@pytest.mark.parametrize("name", ["rlm", "root:sub"])
def test_chat_and_call_take_recursive_models(tmp_path, name):
    said = turns("```repl\nx = llm_query(context[:3])\n```", "FINAL_VAR(x)")
    with models(tmp_path, said) as (file, _):
        run = tenon("call", "--config", file, "--model", name, "--system", "the needle", "q")
        assert (run.returncode, run.stdout) == (1, "<the>\n"), run.stderr  # 1: no tool was called
        run = tenon("chat", "--config", file, "--model", name, "--system", "the needle", stdin="q\n")
        assert run.returncode == 0 and "<the>" in run.stdout, run.stderr
        run = tenon("call", "--config", file, "--model", name, "--threads", "2", "q")
        assert run.returncode == 2 and "belong to a single model" in run.stderr


def test_chat_runs_the_tools_that_a_recursive_model_calls(tmp_path):
    tools = json.loads((ROOT / "examples/tools/tools.json").read_text())
    name = next(tool["function"]["name"] for tool in tools if "calculat" in json.dumps(tool))

    def answer(model, messages):
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if results:
            return f"FINAL(it is {json.loads(results[0]) if results[0].isdigit() else results[0]})"
        return [{"name": name, "arguments": json.dumps({"expression": "6 * 7"})}]

    with models(tmp_path, answer) as (file, _):
        run = tenon("chat", "--config", file, "--model", "rlm", "--tools", ROOT / "examples/tools/tools.json", "--yes", stdin="q\n")
        assert run.returncode == 0 and "42" in run.stdout.splitlines()[-1], (run.stdout, run.stderr)


def test_doctor_tells_of_parts_and_limits(tmp_path):
    with models(tmp_path, turns("FINAL(ok)"), f'max_iterations = 7\ntrajectory_dir = "{tmp_path}/traces"') as (file, _):
        run = tenon("doctor", "--config", file, "--json")
        about = next(one for one in map(json.loads, run.stdout.splitlines()) if one["model"] == "rlm")
        assert (about["root"], about["sub"], about["limits"]["max_iterations"]) == ("root", "sub", 7)
        file.write_text(file.read_text().replace("/traces", "/tenon.toml/traces"))
        run = tenon("doctor", "--config", file, "--json")
        assert run.returncode == 4 and "tenon.toml is no folder" in run.stdout


@pytest.mark.parametrize("sessions, said", [("/proc/nope/s.db", "server.sessions: /proc/nope/s.db"),
                                            ("tenon.toml", "tenon.toml: file is not a database: name another file")])
def test_a_file_of_sessions_that_is_none_is_told_at_the_start(tmp_path, sessions, said):
    with models(tmp_path, turns("FINAL(ok)")) as (file, _):
        file.write_text(file.read_text().replace("[server]", f'[server]\nport = 0\nsessions = "{sessions}"'))
        run = tenon("serve", "--config", file)
        assert run.returncode == 3 and said in run.stderr, run.stderr


def test_the_example_finds_its_needle(tmp_path):
    port, context = free_port(), tmp_path / "haystack.txt"
    folder = ROOT / "examples" / "recursive"
    file = tmp_path / "tenon.toml"
    file.write_text((folder / "tenon.toml").read_text().replace(":8099", f":{port}"))
    stand_in = subprocess.Popen([sys.executable, str(folder / "stand_in.py"), "--make", str(context), "--port", str(port)],
                                stdout=subprocess.PIPE, text=True)
    try:
        assert "root and sub are at" in stand_in.stdout.readline()
        code = re.search(r"The code of the vault is (\d+)", context.read_text()).group(1)
        assert context.stat().st_size > 10_000_000
        run = tenon("rlm", "--config", file, "--context", context, "What is the code of the vault?")
        assert (run.returncode, run.stdout) == (0, code + "\n"), run.stderr
        assert re.search(r"3 turns, 5\d sub-calls", run.stderr)
    finally:
        stand_in.terminate()
        stand_in.wait()
