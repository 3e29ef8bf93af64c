"""The recursive model as a whole, beside the `rlms` package: what a turn, a sub-call and 10 MB of context cost, over the same
scripted model; then 100 sessions at a time, and what a paused one keeps.

    .venv/bin/python bench/rlm_figures.py [--tenon build/release/bin/tenon] [--peer-python .venv/peers/rlms/bin/python]

The model is a process of its own whose answers are there at once. It writes down when a question came and when it was answered: a turn
costs what lies between an answer to the root model's question and its next one, a sub-call what lies between those to the other model,
so that neither the model's own time nor beginning and end of a run are in it (rlms ends a run by waiting up to 0.5 s for a thread).
Both sides run in turn, in this run; the clock is the machine's, one for all processes. Prints one JSON object.
"""

import argparse
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

SCRIPTS = ("turns-1", "turns-41", "calls-1", "calls-201", "batch-201", "mixed-10", "tool-1")
TOOLS = [
    {
        "type": "function",
        "function": {"name": "search", "parameters": {"type": "object", "properties": {}}},
    }
]


# ---- the model


def answer_of(model, messages):
    """By its name: so many turns, or so many questions in one cell, and then the answer, as both sides read it."""
    kind, _, count = model.partition("-")
    turn = sum(message["role"] == "assistant" for message in messages)
    cells = {
        "turns": ["x = 1"] * int(count or 0),
        "calls": [f"for i in range({count}): x = llm_query('q')"],
        "batch": [f"x = llm_query_batched(['q'] * {count})"],
        "mixed": ["x = llm_query_batched(['q'] * 4)"] * int(count or 0),
        "tool": ["x = 1"],
    }.get(kind)
    if cells is None:
        return "an answer"
    if turn < len(cells):
        return f"```repl\n{cells[turn]}\n```"
    if kind == "tool" and turn == len(cells):
        return None
    return '```repl\nanswer["content"] = "done"\nanswer["ready"] = True\n```'


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def send(self, kind, body):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    log = []  # (model, came, answered) of each question since it was last asked for

    def do_GET(self):
        if self.path == "/log":
            log, Model.log = Model.log, []
            return self.send("application/json", json.dumps(log).encode())
        self.send(
            "application/json",
            json.dumps(
                {"object": "list", "data": [{"id": name} for name in (*SCRIPTS, "sub")]}
            ).encode(),
        )

    def do_POST(self):
        came = time.perf_counter()
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = answer_of(asked["model"], asked["messages"])
        call = [
            {
                "index": 0,
                "id": "c",
                "type": "function",
                "function": {"name": "search", "arguments": "{}"},
            }
        ]
        message = (
            {"role": "assistant", "content": text}
            if text is not None
            else {"role": "assistant", "tool_calls": call}
        )
        choice = {"index": 0, "finish_reason": "stop" if text is not None else "tool_calls"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        head = {"id": "x", "created": 1, "model": asked["model"], "usage": usage}
        if asked.get("stream"):
            chunk = {
                **head,
                "object": "chat.completion.chunk",
                "choices": [{**choice, "delta": message}],
            }
            kind, body = "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        else:
            whole = {
                **head,
                "object": "chat.completion",
                "choices": [{**choice, "message": message}],
            }
            kind, body = "application/json", json.dumps(whole)
        entry = [asked["model"], came, 0.0]
        Model.log.append(entry)  # before the answer, after which the next question may come
        entry[2] = time.perf_counter()
        self.send(kind, body.encode())


def serve_model():
    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 1024
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Model)
    print(server.server_address[1], flush=True)
    server.serve_forever()


# ---- the two sides, by (script, context) -> seconds


class Client:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)

    def log(self):
        self.connection.request("GET", "/log")
        return json.loads(self.connection.getresponse().read())

    def ask(self, model, messages, **more):
        begun = time.perf_counter()
        self.connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps({"model": model, "messages": messages, **more}),
            {"content-type": "application/json"},
        )
        answer = self.connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == 200, body
        return time.perf_counter() - begun, body


PEER = """
import json, sys, time
from rlm import RLM
url = sys.argv[1]
for line in sys.stdin:
    script, size = line.split()
    rlm = RLM(backend="openai", backend_kwargs=dict(model_name=script, base_url=url + "/v1", api_key="x"), other_backends=["openai"],
              other_backend_kwargs=[dict(model_name="sub", base_url=url + "/v1", api_key="x")], max_iterations=1000)
    context = "x" * int(size)
    begun = time.perf_counter()
    answer = rlm.completion(context, root_prompt="q").response
    took = time.perf_counter() - begun
    assert answer == "done", answer
    print("TOOK", took, flush=True)
"""


class Peer:
    def __init__(self, python, url):
        self.process = subprocess.Popen(
            [python, "-c", PEER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script, size):
        self.process.stdin.write(f"{script} {size}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("TOOK "):
                return float(line.split()[1])
        raise RuntimeError("the peer has ended")


def figures(run, model, rounds):
    """Each figure from its best round, in milliseconds. `run(script, size)` is one run, `model` a client of the model."""

    def log_of(script, size=1000):
        model.log()
        begun = time.perf_counter()
        run(script, size)
        return begun, time.perf_counter(), model.log()

    def gaps(script, name):
        """From an answer to the next question of this model, the mean."""
        asked = [entry for entry in log_of(script)[2] if entry[0] == name]
        return statistics.mean(after[1] - before[2] for before, after in zip(asked, asked[1:]))

    def batch(count):
        asked = [entry for entry in log_of(f"batch-{count}")[2] if entry[0] == "sub"]
        return (max(entry[2] for entry in asked) - min(entry[1] for entry in asked)) / count

    def to_first_question(size):
        begun, _, log = log_of("turns-1", size)
        return log[0][1] - begun

    def whole():
        begun, ended, _ = log_of("turns-1")
        return ended - begun

    def least(measure, *of):
        return 1000 * min(measure(*of) for _ in range(rounds))

    return {
        "turn_ms": least(gaps, "turns-41", "turns-41"),
        "sub_call_ms": least(gaps, "calls-201", "sub"),
        "batched_sub_call_ms": least(batch, 201),
        "run_of_one_cell_ms": least(whole),
        "context_10_mb_ms": least(to_first_question, 10_000_000) - least(to_first_question, 1000),
    }


# ---- the server alone


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def sessions_at_a_time(server, count):
    clients = [Client(server.url) for _ in range(count)]
    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        took = sorted(
            pool.map(lambda client: client.ask("mixed-10:sub", messages(1000))[0], clients)
        )
    return {
        "sessions": count,
        "turns_each": 11,
        "sub_calls_each": 40,
        "wall_s": time.perf_counter() - begun,
        "p50_s": statistics.median(took),
        "most_s": took[-1],
    }


def messages(size):
    return [{"role": "system", "content": "x" * size}, {"role": "user", "content": "q"}]


def paused(server, folder, count, size):
    """What `count` sessions keep that wait for results, 32 of them with a REPL."""
    client = Client(server.url)
    client.ask("tool-1:sub", messages(size), tools=TOOLS)
    files = lambda: sum(file.stat().st_size for file in folder.rglob("sessions.db*"))
    disk, memory = files(), resident(server.process.pid)
    for _ in range(count):
        _, body = client.ask("tool-1:sub", messages(size), tools=TOOLS)
        assert body["choices"][0]["finish_reason"] == "tool_calls", body
    return {
        "sessions": count,
        "context_bytes": size,
        "disk_bytes_each": (files() - disk) / count,
        "server_memory_bytes_each": (resident(server.process.pid) - memory) / count,
    }


def main():
    from serving import serving

    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--tenon", default=os.environ.get("TENON_BIN", str(ROOT / "build/release/bin/tenon"))
    )
    arguments.add_argument("--peer-python", default=str(ROOT / ".venv/peers/rlms/bin/python"))
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    if (
        pathlib.Path(chosen.tenon).resolve()
        != pathlib.Path(os.environ.get("TENON_BIN", "")).resolve()
    ):
        os.environ["TENON_BIN"] = chosen.tenon
        import serving as starter

        starter.TENON = pathlib.Path(chosen.tenon).resolve()

    model = subprocess.Popen(
        [sys.executable, __file__, "--model"], stdout=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{int(model.stdout.readline())}"
    try:
        bare = Client(url)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            config = "[server]\nmax_recursive_runs = 256\n" + "".join(
                f'[[model]]\nname = "{script}"\nengine = "openai"\nurl = "{url}"\nupstream_model = "{script}"\n'
                for script in (*SCRIPTS, "sub")
            )
            (folder / "tenon.toml").write_text(config)
            out = {}
            with serving(
                folder / "log", "--config", str(folder / "tenon.toml"), env={"HOME": name}
            ) as server:
                client = Client(server.url)

                def run(script, size):
                    took, body = client.ask(
                        f"{script}:sub", messages(size), rlm={"max_iterations": 100}
                    )
                    assert body["choices"][0]["message"]["content"] == "done", body
                    return took

                run("turns-1", 1000)
                out["tenon"] = figures(run, bare, chosen.rounds)
                out["concurrent"] = sessions_at_a_time(server, 100)
                out["paused"] = [
                    paused(server, folder, 32, 1000),
                    paused(server, folder, 200, 1000),
                    paused(server, folder, 20, 1_000_000),
                ]
        if pathlib.Path(chosen.peer_python).exists():
            peer = Peer(chosen.peer_python, url)
            peer.run("turns-1", 1000)
            out["rlms"] = figures(peer.run, bare, chosen.rounds)
            peer.process.stdin.close()
            out["times"] = {key: out["rlms"][key] / out["tenon"][key] for key in out["tenon"]}
        else:
            print(
                f"no {chosen.peer_python}: without the peer (scripts/setup.sh bench)",
                file=sys.stderr,
            )
        print(json.dumps(out, indent=1))
    finally:
        model.terminate()


if __name__ == "__main__":
    if sys.argv[1:] == ["--model"]:
        serve_model()
    else:
        main()
