"""Tool calls and plain text through HTTP beside llama-server: the same GGUF, the same requests, in turn, in one run.

    .venv/bin/python bench/tool_figures.py --llama-server FILE [--tenon build/release/bin/tenon] [--model FILE.gguf]

Measured of each server: plain tokens per second at 1, 4 and 16 requests at once; valid calls per second for ten tool sets of
BFCL, or of our own samples (bench/data.py), at 1 and 8 at once, a call demanded, temperature 0; time to the
first event of a streamed call; CPU time of the server per token that it generates. Of Tenon besides the share of tokens that
the grammar forced. llama-server is the one of the pinned llama-cpp-python source package (scripts/setup.sh llama-server builds it),
with --jinja. Each server is asked `--rounds` times in turn, and the median is told. Prints one JSON object.
"""

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import jsonschema
import requests
from data import DATA, ROOT

sys.path.insert(0, str(ROOT / "tests" / "e2e"))

BFCL = DATA / "formats" / "bfcl_public.jsonl"
ANSWER_TOKENS = 256
SLOTS = 16
# Of Tenon's own /metrics.
COUNTED = [
    "tenon_generated_tokens_total",
    "tenon_mask_forced_tokens_total",
    "tenon_engine_guessed_tokens_total",
    "tenon_engine_accepted_guesses_total",
]
TICKS = os.sysconf("SC_CLK_TCK")


def candidates():
    """Requests that want a call, over one to four tools each, in an order that goes through the whole file."""
    rows = [json.loads(line) for line in BFCL.open()]
    rows = [
        row
        for row in rows
        if row["expected"] and len(row["tools"]) <= 4 and len(row["messages"]) == 1
    ]
    return [rows[i * 7919 % len(rows)] for i in range(len(rows))]


def tool_sets(subjects, most=200):
    """The first ten of them that each server answers with a valid call: the bundled model is small, and many a text of
    words that it never saw has no end, with any server."""
    rows = []
    for row in candidates()[:most]:
        if all(is_good(subject, requests, row, 0, "choice") for subject in subjects):
            rows.append(row)
        if len(rows) == 10:
            break
    return rows


class Subject:
    """A server under test."""

    def __init__(self, name, url, pid):
        self.name, self.url, self.pid = name, url, pid
        ends = ["<|im_end|>", "<|endoftext|>"]
        answer = [
            requests.post(url + "/tokenize", json={"content": text, "parse_special": True}).json()[
                "tokens"
            ][0]
            for text in ends
        ]
        self.no_end = {str(token): -100 for token in answer}

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def metric(self, name):
        lines = requests.get(self.url + "/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))

    def model_seconds(self):
        return self.metric("tenon_engine_decode_seconds_total") if self.name == "tenon" else 0.0


@contextlib.contextmanager
def tenon(options, folder):
    os.environ["TENON_BIN"] = options.tenon
    from serving import serving

    config = folder / "tenon.toml"
    config.write_text(
        f'[[model]]\nname = "bench"\npath = "{options.model}"\nmax_concurrent = {SLOTS}\ncontext_tokens = 2048\n'
        f"threads = {options.threads}\n"
    )
    with serving(folder / "tenon.log", "--config", str(config)) as server:
        yield Subject("tenon", server.url, server.process.pid)


@contextlib.contextmanager
def llama_server(options, folder):
    from serving import free_port

    port = free_port()
    command = [
        options.llama_server,
        "--model",
        options.model,
        "--jinja",
        "--port",
        str(port),
        "--parallel",
        str(SLOTS),
        "--ctx-size",
        str(SLOTS * 2048),
        "--threads",
        str(options.threads),
        "--threads-batch",
        str(options.threads),
        "--flash-attn",
        "off",
    ]  # the faster way for small heads, which Tenon finds by itself
    with open(folder / "llama-server.log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with contextlib.suppress(requests.ConnectionError):
                if requests.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    break
            time.sleep(0.05)
        yield Subject("llama-server", f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def together(count, ask, seconds):
    """Calls ask(session, number) from `count` threads for `seconds`; gives the sum of its answers, and the time it took."""
    numbers = itertools.count()
    begun = time.perf_counter()

    def work(_):
        session, total = requests.Session(), 0
        while time.perf_counter() - begun < seconds:
            total += ask(session, next(numbers))
        return total

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        total = sum(pool.map(work, range(count)))
    return total, time.perf_counter() - begun


def plain(subject, count, seconds, salt):
    def ask(session, number):
        body = {
            "model": "bench",
            "temperature": 0,
            "max_tokens": ANSWER_TOKENS,
            "logit_bias": subject.no_end,
            "messages": [{"role": "user", "content": f"Tell me about {salt} and {number}."}],
        }
        answer = session.post(subject.url + "/v1/chat/completions", json=body).json()
        return answer["usage"]["completion_tokens"]

    cpu, model = subject.cpu_seconds(), subject.model_seconds()
    tokens, took = together(count, ask, seconds)
    figures = {
        "tokens_per_s": tokens / took,
        "cpu_us_per_token": 1e6 * (subject.cpu_seconds() - cpu) / tokens,
    }
    if (
        subject.name == "tenon"
    ):  # the time in the model is all of it CPU time where one thread computes
        figures["outside_model_us_per_token"] = (
            figures["cpu_us_per_token"] - 1e6 * (subject.model_seconds() - model) / tokens
        )
    return figures


def call_body(row, number, salt, stream=False):
    [question] = row["messages"]
    return {
        "model": "bench",
        "temperature": 0,
        "max_tokens": 400,
        "tools": row["tools"],
        "tool_choice": "required",
        "stream": stream,
        "parallel_tool_calls": False,
        "messages": [{**question, "content": f"{question['content']} ({salt}-{number})"}],
    }


def is_valid(call, tools):
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    try:
        jsonschema.validate(json.loads(call["arguments"]), schemas[call["name"]])
    except (KeyError, ValueError, jsonschema.ValidationError):
        return False
    return True


def is_good(subject, session, row, number, salt, tally=None):
    """Whether the request is answered with one valid call; `tally` counts its tokens."""
    try:
        answer = session.post(
            subject.url + "/v1/chat/completions", json=call_body(row, number, salt)
        )
    except requests.ConnectionError as error:
        raise RuntimeError(f"{subject.name} broke off at {row['id']}") from error
    if answer.status_code != 200:
        return False
    body = answer.json()
    if tally is not None:
        tally["tokens"] += body["usage"]["completion_tokens"]
    made = body["choices"][0]["message"].get("tool_calls") or []
    return len(made) == 1 and is_valid(made[0]["function"], row["tools"])


def calls(subject, rows, count, seconds, salt):
    tally = {"asked": 0, "tokens": 0}

    def ask(session, number):
        tally["asked"] += 1
        return is_good(subject, session, rows[number % len(rows)], number, salt, tally)

    cpu = subject.cpu_seconds()
    valid, took = together(count, ask, seconds)
    return {
        "valid_calls_per_s": valid / took,
        "valid_share": valid / tally["asked"],
        "tokens_per_call": tally["tokens"] / tally["asked"],
        "cpu_ms_per_call": 1e3 * (subject.cpu_seconds() - cpu) / tally["asked"],
    }


def first_event(subject, rows, salt):
    """Median milliseconds from the request to the first event with something of a call in it, and how many streams broke off."""
    session, times, broken = requests.Session(), [], 0
    for number, row in enumerate(rows * 3):
        begun, first = time.perf_counter(), None
        try:
            with session.post(
                subject.url + "/v1/chat/completions",
                json=call_body(row, number, salt, stream=True),
                stream=True,
            ) as answer:
                for line in answer.iter_lines():
                    if first is None and b'"tool_calls":[' in line:
                        first = 1e3 * (time.perf_counter() - begun)
        except requests.RequestException as error:
            broken += 1
            session = requests.Session()
            print(f"{subject.name}, {row['id']}: {error}", file=sys.stderr)
        if first is not None:
            times.append(first)
    return {"ms": statistics.median(times) if times else float("nan"), "broken_streams": broken}


def measure(subject, rows, options, salt):
    figures = {}
    for count in (1, 4, 16):
        figures[f"plain_{count}"] = plain(subject, count, options.seconds, f"{salt}p{count}")
    for count in (1, 8):
        figures[f"calls_{count}"] = calls(subject, rows, count, options.seconds, f"{salt}c{count}")
    figures["first_event"] = first_event(subject, rows, f"{salt}f")
    if subject.name == "tenon":
        before = [subject.metric(name) for name in COUNTED]
        calls(subject, rows, 1, options.seconds, f"{salt}m")
        generated, forced, guessed, accepted = (
            subject.metric(name) - was for name, was in zip(COUNTED, before)
        )
        figures["tokens"] = {
            "forced_share": forced / generated,
            "accepted_guesses_share": accepted / generated,
            "accepted_of_guessed": accepted / max(guessed, 1),
        }
    return figures


def median_of(rounds):
    return {
        part: {
            figure: round(statistics.median(one[part][figure] for one in rounds), 3)
            for figure in rounds[0][part]
        }
        for part in rounds[0]
    }


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    arguments.add_argument("--llama-server", required=True)
    arguments.add_argument("--model", default=str(ROOT / "models" / "tenon-tiny.gguf"))
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=4.0)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()

    with (
        tempfile.TemporaryDirectory() as name,
        tenon(options, pathlib.Path(name)) as ours,
        llama_server(options, pathlib.Path(name)) as peer,
    ):
        rows = tool_sets((ours, peer))
        print(f"tool sets: {' '.join(row['id'] for row in rows)}", file=sys.stderr)
        rounds = {subject.name: [] for subject in (ours, peer)}
        for salt in range(options.rounds):
            for subject in (ours, peer):
                rounds[subject.name].append(measure(subject, rows, options, salt))
    print(json.dumps({name: median_of(those) for name, those in rounds.items()}, indent=2))


if __name__ == "__main__":
    main()
