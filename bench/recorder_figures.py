#!/usr/bin/env python3
"""What recordings and spans cost a server: its CPU time for the same answers with and without them;
and how much faster a replay is than the model.

    .venv/bin/python bench/recorder_figures.py [--model FILE] [--upstream] [--answers 40] [--tokens 200] [--rounds 5]

The servers run side by side and are asked in turn, so that other work on the machine meets all of them alike. The figure of a
server is the median of its rounds, for as many events as the first one has sent; the difference is the median of the rounds' differences, with their quartiles.

With --upstream the servers do not have the model themselves: they ask another one that does, as an OpenAI-compatible upstream. What
is measured is the work before it, with which a recording has to be compared there.

Then `tenon replay --expect` makes the recorded answers of the last round again, each in a process of its own, whose start counts.
"""

import argparse
import contextlib
import http.server
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from serving import TENON, serving  # noqa: E402


def cpu_seconds(pid):
    # The clock of another process in nanoseconds (clock_getcpuclockid); /proc counts in hundredths of a second.
    return time.clock_gettime((~pid << 3) | 2)


class Sink(http.server.BaseHTTPRequestHandler):
    """A receiver of OpenTelemetry that takes everything."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def ask(server, seed, options):
    # A list of numbers, as a text or as a call's argument, so that every answer is long and events are many.
    numbers = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 99},
        "minItems": options.tokens // 4,
        "maxItems": options.tokens // 4,
    }
    kinds = [
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": numbers},
            }
        },
        {
            "tool_choice": "required",
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "note",
                        "parameters": {
                            "type": "object",
                            "properties": {"numbers": numbers},
                            "required": ["numbers"],
                        },
                    },
                }
            ],
        },
    ]
    body = {
        "messages": [{"role": "user", "content": f"Count, number {seed}."}],
        "seed": seed,
        "temperature": 1,
        "stream": True,
        **kinds[seed % 2],
    }
    request = urllib.request.Request(
        server.url + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return answer.read().count(b"data: ")


def replay(file):
    """Seconds that the model took for a recorded answer, and that its replay takes."""
    made = json.loads(file.read_text().splitlines()[-1])["at"] / 1e6
    began = time.perf_counter()
    subprocess.run([TENON, "replay", "--expect", file], check=True, capture_output=True)
    return made, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=str(ROOT / "models" / "tenon-tiny.gguf"))
    parser.add_argument("--upstream", action="store_true")
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    spans = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{sink.server_port}"}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        kinds = {
            "plain": ([], "", {}),
            "recorded": (["--record", str(folder / "a")], "", {}),
            "recorded, 5 logprobs": (["--record", str(folder / "b")], "record_logprobs = 5\n", {}),
            "spans": ([], "", spans),
        }
        about = f'name = "m"\npath = "{options.model}"\nthreads = 1\n'
        if options.upstream:
            upstream = folder / "upstream.toml"
            upstream.write_text(f"[[model]]\n{about}")
            behind = stack.enter_context(
                serving(folder / "upstream.log", "--config", str(upstream))
            )
            about = f'name = "m"\nengine = "openai"\nurl = "{behind.url}"\n'
            del kinds["recorded, 5 logprobs"]  # an upstream tells none that were not asked for
        servers = {}
        for kind, (arguments, lines, env) in kinds.items():
            config = folder / f"{len(servers)}.toml"
            config.write_text(f"[server]\n{lines}[[model]]\n{about}")
            servers[kind] = stack.enter_context(
                serving(
                    folder / f"{len(servers)}.log", "--config", str(config), *arguments, env=env
                )
            )
            ask(servers[kind], 0, options)  # what is made once is not counted
        took = {kind: [] for kind in servers}
        events = {kind: 0 for kind in servers}
        for round_number in range(options.rounds):
            before = {kind: cpu_seconds(server.process.pid) for kind, server in servers.items()}
            had = dict(events)
            for number in range(options.answers):
                for kind, server in servers.items():
                    events[kind] += ask(
                        server, 1 + round_number * options.answers + number, options
                    )
            for kind, server in servers.items():
                # A model's numbers depend on what its cache still has, so answers may differ by some tokens.
                share = (events["plain"] - had["plain"]) / (events[kind] - had[kind])
                took[kind].append((cpu_seconds(server.process.pid) - before[kind]) * share)
        files = sorted((folder / "a").glob("*/*.jsonl"))[-options.answers :]
        replays = [replay(file) for file in files]
    count = options.answers
    print(
        f"{pathlib.Path(options.model).name}: {options.rounds} rounds of {count} answers, {events['plain'] / options.rounds / count:.0f} "
        f"events each; CPU time of the server for one answer\n"
    )
    print("| server | CPU ms | more than plain |\n|---|---|---|")
    for kind, rounds in took.items():
        shares = [100 * (mine - plain) / plain for mine, plain in zip(rounds, took["plain"])]
        quartiles = statistics.quantiles(shares, n=4) if len(shares) > 1 else shares * 3
        print(
            f"| {kind} | {1000 * statistics.median(rounds) / count:.2f} | "
            + (
                ""
                if kind == "plain"
                else f"{statistics.median(shares):+.1f} % ({quartiles[0]:+.1f} to {quartiles[2]:+.1f})"
            )
            + " |"
        )
    made, again = (statistics.median(times) for times in zip(*replays))
    print(
        f"\nreplay: {1000 * made:.0f} ms by the model, {1000 * again:.0f} ms again: {made / again:.0f} times faster "
        f"(medians of {len(replays)} answers)"
    )


if __name__ == "__main__":
    main()
