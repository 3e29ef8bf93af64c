"""The server as a whole, with the bundled model: start to ready, memory, tokens per second through HTTP.

    .venv/bin/python bench/server_figures.py [--tenon build/release/bin/tenon]

Generation and prompt are measured beside llama-cpp-python's own loop over the same file (bench/engine_peer.py), in turn,
in this run, with prompts of the same length. Prints one JSON object.
"""

import argparse
import concurrent.futures
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

ANSWER_TOKENS = 256
PROMPT_WORDS = 106  # about 500 tokens


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def ask(session, url, words, tokens, no_end, seed):
    """One request; gives the usage it reports. Another `seed` makes another prompt, so that no cache holds it."""
    text = " ".join(f"w{(seed * 7919 + i * 31) % 9973}" for i in range(words))
    body = {
        "model": "tenon-tiny",
        "temperature": 0,
        "max_tokens": tokens,
        "messages": [{"role": "user", "content": text}],
        "logit_bias": no_end,
    }
    answer = session.post(url + "/v1/chat/completions", json=body, timeout=120)
    answer.raise_for_status()
    return answer.json()["usage"]


def rate(url, count, words, tokens, no_end, counted, seconds):
    """Tokens per second of `counted` ("prompt_tokens" or "completion_tokens") with `count` requests at a time."""
    import requests

    sessions = [requests.Session() for _ in range(count)]
    begun, total, seed = time.perf_counter(), 0, 1
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        while time.perf_counter() - begun < seconds:
            waves = pool.map(
                lambda i, s=seed: ask(sessions[i], url, words, tokens, no_end, s + i), range(count)
            )
            total += sum(usage[counted] for usage in waves)
            seed += count
    return total / (time.perf_counter() - begun)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--tenon", default=os.environ.get("TENON_BIN", str(ROOT / "build/release/bin/tenon"))
    )
    arguments.add_argument("--seconds", type=float, default=4.0)
    options = arguments.parse_args()
    os.environ["TENON_BIN"] = options.tenon

    import requests
    from serving import serving

    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "serve.log"
        starts = []
        for _ in range(5):
            begun = time.perf_counter()
            with serving(log, poll_s=0.002):
                starts.append(1000 * (time.perf_counter() - begun))
        figures["start_to_ready_ms"] = round(statistics.median(starts), 1)
        with serving(log) as server:
            figures["rss_idle_mb"] = round(resident_mb(server.process.pid), 1)
            ends = [
                requests.post(
                    server.url + "/tokenize", json={"content": text, "parse_special": True}
                ).json()["tokens"][0]
                for text in ("<|im_end|>", "<|endoftext|>")
            ]
            no_end = {str(token): -100 for token in ends}
            prompt_tokens = ask(requests.Session(), server.url, PROMPT_WORDS, 1, {}, 0)[
                "prompt_tokens"
            ]
            for count in (1, 8):
                figures[f"prompt_tokens_per_s_{count}"] = round(
                    rate(server.url, count, PROMPT_WORDS, 1, {}, "prompt_tokens", options.seconds)
                )
                figures[f"generation_tokens_per_s_{count}"] = round(
                    rate(
                        server.url,
                        count,
                        4,
                        ANSWER_TOKENS,
                        no_end,
                        "completion_tokens",
                        options.seconds,
                    )
                )
            figures["rss_after_mb"] = round(resident_mb(server.process.pid), 1)
    peer = subprocess.run(
        [
            sys.executable,
            str(ROOT / "bench" / "engine_peer.py"),
            "--seconds",
            str(options.seconds),
            "--prompt-tokens",
            str(prompt_tokens),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    print(
        json.dumps(
            {"prompt_tokens": prompt_tokens, "tenon": figures, "peer": json.loads(peer.stdout)},
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
