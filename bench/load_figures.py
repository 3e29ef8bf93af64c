"""What Tenon costs between a client and a model, beside nginx and LiteLLM relaying the same bytes in the same run.

    .venv/bin/python bench/load_figures.py [--tenon build/release/bin/tenon] [--load build/release/bin/tenon_load]
                                           [--rows 1,100,1000,5000] [--rounds 1] [--kinds tenon,nginx,direct,litellm]

`tenon_load` (bench/load.cc) plays the llama-server and the clients. Tenon gets the model's text and writes chunks; nginx
(one process, proxy_buffering off) gets those chunks and passes them on, and so does LiteLLM's proxy (one worker; `scripts/setup.sh bench`
installs it), which is asked for by --kinds, with fewer requests, since it takes minutes; `direct` has nothing between the two ends and shows what they
take themselves. --round-trip-ms puts the player that far away from what stands before it. Each row has a fresh server, warmed by one stream. CPU is the server process's own, so that work of others on the machine
changes it little; delays are wall time and want a quiet machine. Prints a table and writes build/bench/load.json; exits with 1 where a
byte was wrong or a stream did not come to its end, because such figures are worthless.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

# streams, tokens a second of each (0: as fast as they go), tokens of each
ROWS = {
    "1": (1, 30, 100),
    "100": (100, 30, 100),
    "1000": (1000, 10, 100),
    "5000": (5000, 2, 100),
    "fast": (100, 0, 1000),
}
REQUESTS, CONNECTIONS = 10_000, 16
REQUESTS_OF_LITELLM = 300

NGINX = """daemon off; master_process off; pid {folder}/pid; error_log {folder}/log; worker_rlimit_nofile 20000;
events {{ worker_connections 20000; }}
http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; keepalive_requests 1000000000;
  upstream origin {{ server 127.0.0.1:{origin}; keepalive 64; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 300s; }} }} }}
"""


class Load:
    """The two ends."""

    faults = []  # of all of them

    def __init__(self, program, round_trip_ms):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())
        self.process.stdin.write(f"far {round_trip_ms}\n")

    def do(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        asked = answer.get("streams", answer.get("requests"))
        if answer["finished"] < asked and not answer["fault"]:
            answer["fault"] = f"{asked - answer['finished']} of {asked} did not come to their end"
        if answer["fault"]:
            print(f"FAULT: {words}: {answer['fault']}", flush=True)
            self.faults.append(answer["fault"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def wait_for_port(port, seconds=4):
    for _ in range(50 * seconds):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise RuntimeError(f"no server listens at {port}")


@contextlib.contextmanager
def stopping(process):
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@contextlib.contextmanager
def tenon(program, load_port, folder):
    config = folder / "tenon.toml"
    config.write_text(
        f'[server]\nport = 0\nlog_level = "warn"\n[[model]]\nname = "m"\nengine = "llama-server"\n'
        f'url = "http://127.0.0.1:{load_port}"\ntool_call_format = "hermes"\n'
        f'chat_template = "{ROOT / "bench" / "load.jinja"}"\n'
    )
    process = subprocess.Popen(
        [program, "serve", "--config", config], stdout=subprocess.PIPE, text=True
    )
    with stopping(process):
        yield int(re.search(r":(\d+)/", process.stdout.readline()).group(1)), process.pid


@contextlib.contextmanager
def nginx(load_port, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, origin=load_port, port=port))
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    process = subprocess.Popen([program, "-p", folder, "-c", config])
    with stopping(process):
        wait_for_port(port)
        yield port, process.pid


@contextlib.contextmanager
def litellm(program, load_port, folder):
    """Without logs, data base and callbacks: what it does of itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "litellm.json"  # JSON is YAML
    config.write_text(
        json.dumps(
            {
                "model_list": [
                    {
                        "model_name": "m",
                        "litellm_params": {
                            "model": "openai/m",
                            "api_base": f"http://127.0.0.1:{load_port}/v1",
                            "api_key": "none",
                        },
                    }
                ],
                "litellm_settings": {
                    "set_verbose": False,
                    "telemetry": False,
                    "request_timeout": 600,
                },
            }
        )
    )
    environment = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [program, "--config", config, "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )
    with stopping(process):
        wait_for_port(port, 60)
        yield port, process.pid


@contextlib.contextmanager
def between(kind, options, load, folder):
    """(port to ask, process to measure or 0)"""
    if kind == "direct":
        yield load.port, 0
    elif kind == "nginx":
        with nginx(load.port, folder) as found:
            yield found
    elif kind == "litellm":
        with litellm(options.litellm, load.port, folder) as found:
            yield found
    else:
        with tenon(options.tenon, load.port, folder) as found:
            yield found


def measure(kind, options, *command):
    with tempfile.TemporaryDirectory() as folder:
        load = Load(options.load, options.round_trip_ms)
        with between(kind, options, load, pathlib.Path(folder)) as (port, pid):
            load.do("run", port, pid, 1, 0, 8)  # warm
            figures = load.do(command[0], port, pid, *command[1:])
        load.close()
    return figures


def medians(rounds):
    """The median of the figures, and the first of the faults."""
    return {
        key: statistics.median(r[key] for r in rounds)
        if isinstance(rounds[0][key], (int, float))
        else next((r[key] for r in rounds if r[key]), "")
        for key in rounds[0]
    }


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    arguments.add_argument("--load", default=str(ROOT / "build/release/bin/tenon_load"))
    arguments.add_argument("--litellm", default=str(ROOT / ".venv/peers/litellm/bin/litellm"))
    arguments.add_argument("--rows", default="requests,1,100,1000,5000,fast")
    arguments.add_argument("--kinds", default="tenon,nginx,direct")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--round-trip-ms", type=float, default=0)
    arguments.add_argument("--connections", type=int, default=CONNECTIONS)
    arguments.add_argument("--requests", type=int, default=REQUESTS)
    arguments.add_argument("--out", default=str(ROOT / "build/bench/load.json"))
    options = arguments.parse_args()
    kinds = options.kinds.split(",")
    if "nginx" in kinds and shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") is None:
        print(
            "nginx is missing: WITH_NGINX=1 scripts/setup.sh bench installs it. Measured without it."
        )
        kinds.remove("nginx")

    figures = {}
    for row in options.rows.split(","):

        def command(kind):
            count = REQUESTS_OF_LITELLM if kind == "litellm" else options.requests
            return (
                ("requests", options.connections, count)
                if row == "requests"
                else ("run", *ROWS[row])
            )

        rounds = {kind: [] for kind in kinds}
        for _ in range(options.rounds):  # in turn
            for kind in kinds:
                rounds[kind].append(measure(kind, options, *command(kind)))
        for kind in kinds:
            figures[f"{row} {kind}"] = found = medians(rounds[kind])
            print(row, kind, json.dumps(found), flush=True)
    pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(options.out).write_text(json.dumps(figures, indent=1))
    print_table(figures)
    return 1 if Load.faults else 0


def print_table(figures):
    print(
        "\n| streams @ tokens/s each | | CPU per token | memory per stream | delay p50 / p99 | whole |"
    )
    print("|---|---|---|---|---|---|")
    for key, f in figures.items():
        row, kind = key.split()
        if row == "requests":
            continue
        streams, rate, tokens = ROWS[row]
        cpu = f["cpu_us_per_token"] if rate else f["cpu_us_per_stream"] / tokens
        pace = rate or f"full speed, {tokens} tokens"
        print(
            f"| {streams:,} @ {pace} | {kind} | {cpu:.1f} us | {f['kb_per_stream']:.1f} KB | "
            f"{f['delay_ms_p50']:.2f} / {f['delay_ms_p99']:.2f} ms | {f['finished']:,.0f} |"
        )
    for key, f in figures.items():
        if key.startswith("requests") and "direct" not in key:
            print(
                f"CPU per request, {key.split()[1]}: {f['cpu_us_per_request']:.1f} us "
                f"({f['requests'] / f['seconds']:,.0f} requests/s)"
            )


if __name__ == "__main__":
    sys.exit(main())
