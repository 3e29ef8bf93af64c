"""What is killed: the server in the middle of its traffic, and the Python processes of recursive models. With TENON_LONG=1
the server dies 200 times, and 10,000 processes do."""
import collections
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import random
import signal
import threading
import time

import pytest
from recursive import TOOLS, Policy, ask, config, get, post, recursive, resumed
from serving import serving

IS_LONG = bool(os.environ.get("TENON_LONG"))
SERVERS = 200 if IS_LONG else 6
WORKERS = 10_000 if IS_LONG else 60
GONE = (OSError, http.client.HTTPException, json.JSONDecodeError)  # how a server's end looks to a client


# ---- the server

def played(model, messages):
    """The root notes its question's number in the REPL, calls a tool, and answers with both; the sub-model echoes."""
    if model == "sub":
        return "<" + messages[-1]["content"] + ">"
    turn = sum(message["role"] == "assistant" for message in messages)
    return ["```repl\nkept = llm_query(context)\n```", [{"name": "search", "arguments": '{"query": "X"}'}],
            "```repl\nanswer_text = kept + tool_results[0]\n```", "FINAL_VAR(answer_text)"][turn]


class Traffic:
    """Clients of one server until it is gone, and what they were told before."""

    def __init__(self, server, numbers):
        self.server, self.numbers = server, numbers
        self.paused, self.answered, self.stored = [], [], []

    def sessions(self):
        while True:
            number = next(self.numbers)
            body = ask("q", context=f"number {number}", tools=TOOLS)
            _, pause = post(self.server, "/v1/chat/completions", body)
            assert pause["choices"][0]["finish_reason"] == "tool_calls", pause
            goes_on = resumed(body, pause, [f" and {number}"])
            self.paused.append((number, goes_on))
            if number % 2:
                continue
            _, reply = post(self.server, "/v1/chat/completions", goes_on)
            assert reply["choices"][0]["message"]["content"] == f"<number {number}> and {number}", reply
            self.answered.append((number, goes_on))

    def responses(self):
        before = None
        while True:
            number = next(self.numbers)
            body = {"model": "sub", "input": f"number {number}"}
            _, reply = post(self.server, "/v1/responses", {**body, "previous_response_id": before} if before else body)
            assert reply["output"][-1]["content"][0]["text"] == f"<number {number}>", reply
            before = reply["id"]
            self.stored.append((number, before))

    def run(self, until):
        def client(work):
            with contextlib.suppress(*GONE):
                work()

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            clients = [pool.submit(client, work) for work in [self.sessions] * 4 + [self.responses] * 2]
            until()
            for each in clients:
                each.result()


def repeated(server, path, body):
    """As clients do: again after 429, which comes while the run that has just answered puts its session away."""
    for _ in range(100):
        status, reply = post(server, path, body)
        if status != 429:
            break
        time.sleep(0.05)
    return status, reply


def holds(server, before):
    """All that the clients of the server before were told is there."""
    for number, goes_on in before.paused:
        for _ in range(2):
            status, reply = repeated(server, "/v1/chat/completions", goes_on)
            assert status == 200, reply
            assert reply["choices"][0]["message"]["content"] == f"<number {number}> and {number}", reply
    for number, name in before.stored:
        assert get(server, f"/v1/responses/{name}")["output"][-1]["content"][0]["text"] == f"<number {number}>"


def test_no_turn_that_was_told_is_lost_when_the_server_is_killed(tmp_path):
    policy = Policy(played)
    file = tmp_path / "tenon.toml"
    file.write_text(config(policy, ["root", "sub"], f'store = "{tmp_path / "responses.db"}"')
                    + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n')
    numbers, before, told = itertools.count(), None, 0
    chance = random.Random(7)
    signals = itertools.cycle([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    try:
        for _ in range(SERVERS):
            with contextlib.suppress(ProcessLookupError), serving(tmp_path / "serve.log", "--config", str(file),
                                                                  env={"HOME": str(tmp_path)}) as server:
                if before:
                    holds(server, before)
                asked = policy.count("sub")
                before = Traffic(server, numbers)

                def kill(server=server, by=next(signals)):
                    time.sleep(chance.uniform(0.05, 0.6))
                    server.process.send_signal(by)
                    server.process.wait()

                before.run(kill)
                told += len(before.paused) + len(before.answered) + len(before.stored)
                assert policy.count("sub") >= asked
        with serving(tmp_path / "serve.log", "--config", str(file), env={"HOME": str(tmp_path)}) as server:
            asked = policy.count("sub")
            holds(server, before)
            assert policy.count("sub") == asked  # what has been answered is not asked again
        assert told > 3 * SERVERS
    finally:
        policy.close()


# ---- the workers

def children(pid):
    """Process ids of all that `pid` has started, and what those have."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [int(child), *children(int(child))]
    return found


def workers(server):
    for pid in children(server.process.pid):
        with contextlib.suppress(OSError):
            if "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe")):
                yield pid


@pytest.mark.serial  # who is killed how often is a matter of time
def test_the_server_outlives_its_workers(tmp_path):
    told = threading.Event()

    def plays(model, messages):
        if "A new Python process has been started" in messages[-1]["content"]:
            told.set()
        turn = sum(message["role"] == "assistant" for message in messages)
        return f"```repl\nimport time\nfor _ in range(20):\n    time.sleep(0.01)\nprint({turn})\n```" if turn < 30 else "FINAL(done)"

    chance = random.Random(11)
    killed = 0
    with recursive(tmp_path, plays, options="max_iterations = 40") as (server, _):
        begun = time.monotonic()
        post(server, "/v1/chat/completions", ask("q"))  # what is opened once is open now
        pace = (time.monotonic() - begun) / 60  # a tenth of a second; more where the machine has other things to do
        descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        is_over = threading.Event()

        def client():
            ends = collections.Counter()
            while not is_over.is_set():
                status, reply = post(server, "/v1/chat/completions", ask("q"))
                if status == 200:
                    assert reply["choices"][0]["message"]["content"] == "done", reply
                else:  # it died four times before it could do anything
                    assert status == 503 and "worker is gone" in reply["error"]["message"], reply
                ends[status] += 1
            return ends

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            clients = [pool.submit(client) for _ in range(3)]
            while killed < WORKERS and server.is_alive() and not any(each.done() for each in clients):
                alive = list(workers(server))
                if alive:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(alive), signal.SIGKILL)
                        killed += 1
                time.sleep(chance.uniform(0, pace))
            is_over.set()
            ends = sum((each.result() for each in clients), collections.Counter())
        assert ends[200] > ends[503]
        assert killed == WORKERS and server.is_alive()
        assert told.is_set()  # the root model knows that its variables are gone
        _, reply = post(server, "/v1/chat/completions", ask("q"))
        assert reply["choices"][0]["message"]["content"] == "done"
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and len(os.listdir(f"/proc/{server.process.pid}/fd")) > descriptors + 10:
            time.sleep(0.1)
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors + 10
        assert len(list(workers(server))) <= 4
