"""The work of bench/engine_bench.cc with llama-cpp-python's own loop over the same GGUF.

    .venv/bin/python bench/engine_peer.py [model.gguf] [--threads 1] [--prompt-tokens 512]

Prints one JSON object: load time, prompt and generation in tokens per second of wall clock and of
CPU time (the latter is what to compare on a busy machine). llama-cpp-python takes one request at a
time, so its figure for eight is that of eight in turn.
"""

import argparse
import json
import pathlib
import time

import llama_cpp

ANSWER_TOKENS = 256
ROOT = pathlib.Path(__file__).resolve().parent.parent


def prompt_of(model, count, run):
    """`count` text tokens, other ones for another `run`, as engine_bench.cc makes them."""
    state = (run * 2654435761 + 1) & 0xFFFFFFFF
    prompt = []
    while len(prompt) < count:
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        token = (state >> 8) % model.n_vocab()
        if not llama_cpp.llama_vocab_is_control(model._model.vocab, token):
            prompt.append(token)
    return prompt


def answer(model, prompt, count):
    """Generates `count` tokens greedily, whatever they are."""
    model.reset()
    made = 0
    for _ in model.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
        made += 1
        if made == count:
            return


def rates(model, tokens, prompt_tokens, answer_tokens, seconds):
    """Tokens per second of wall clock and of CPU time, over at least `seconds`."""
    runs, begin, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        answer(model, prompt_of(model, prompt_tokens, runs), answer_tokens)
        runs += 1
    made = runs * tokens
    return round(made / (time.perf_counter() - begin)), round(made / (time.process_time() - cpu))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model", nargs="?", default=str(ROOT / "models" / "tenon-tiny.gguf"))
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--prompt-tokens", type=int, default=512)
    arguments.add_argument("--seconds", type=float, default=2.0)
    options = arguments.parse_args()

    begin = time.perf_counter()
    model = llama_cpp.Llama(
        options.model,
        n_ctx=2048,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        verbose=False,
    )
    load_ms = (time.perf_counter() - begin) * 1e3
    answer(model, prompt_of(model, 16, 0), 16)  # warm
    prompt, prompt_cpu = rates(
        model, options.prompt_tokens, options.prompt_tokens, 1, options.seconds
    )
    generation, generation_cpu = rates(model, ANSWER_TOKENS, 16, ANSWER_TOKENS, options.seconds)
    print(
        json.dumps(
            {
                "peer": "llama-cpp-python " + llama_cpp.__version__,
                "load_ms": round(load_ms, 1),
                "prompt_tokens_per_s": prompt,
                "prompt_tokens_per_cpu_s": prompt_cpu,
                "generation_tokens_per_s": generation,
                "generation_tokens_per_cpu_s": generation_cpu,
            }
        )
    )


if __name__ == "__main__":
    main()
