#!/usr/bin/env python3
"""Time to parse the generated public cases with vLLM's Python parsers, each text whole, beside `format_bench
--benchmark_filter=corpus` in the same run, which parses them in pieces of four bytes.

    python bench/format_peer.py [build/release/bin/format_bench]

Needs a Python in which `vllm.tool_parsers` can be imported; no model and no GPU. The tokenizer is a stub in whose
vocabulary every marker is, since most parsers look theirs up there. Best of three, in milliseconds.
"""

import json
import logging
import os
import subprocess
import sys
import time

from data import DATA, ROOT

CASES = DATA / "formats" / "public.jsonl"
NAMES = {
    "qwen3": "hermes",
    "mistral_v11": "mistral",
    "mistral_v3_id": "mistral",
    "internlm2": "internlm",
    "granite3": "granite",
    "granite_20b_fc": "granite-20b-fc",
    "phi4_mini": "phi4_mini_json",
    "hunyuan_v3": "hy_v3",
    "llama32_pythonic": "pythonic",
}


class Vocabulary(dict):
    def __missing__(self, marker):
        self[marker] = len(self) + 1
        return self[marker]

    def get(self, marker, default=None):
        return self[marker]

    def __contains__(self, marker):
        return True


class Tokenizer:
    def __init__(self):
        self.vocabulary = Vocabulary()
        self.all_special_tokens = self.all_special_ids = []

    def get_vocab(self):
        return self.vocabulary

    def encode(self, text, **kwargs):
        return [self.vocabulary[text]]

    def decode(self, ids, **kwargs):
        return ""

    def convert_tokens_to_ids(self, token):
        return self.vocabulary[token]


def main():
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    logging.disable(logging.CRITICAL)
    offered = set(ToolParserManager.list_registered())
    texts = []
    for line in CASES.read_text().splitlines():
        row = json.loads(line)
        name = NAMES.get(row["format"], row["format"])
        if row["set"] == "generated" and name in offered:
            request = ChatCompletionRequest(
                model="m", messages=[{"role": "user", "content": "q"}], tools=row["tools"]
            )
            texts.append((name, row["text"], request))
    best, failed = float("inf"), set()
    for _ in range(3):
        begin = time.perf_counter()
        for name, text, request in texts:
            try:
                parser = ToolParserManager.get_tool_parser(name)(Tokenizer(), request.tools)
                parser.extract_tool_calls(text, request)
            except Exception as error:  # a parser that cannot do without a real tokenizer
                failed.add(f"{name}: {type(error).__name__}")
        best = min(best, time.perf_counter() - begin)
    size = sum(len(text.encode()) for _, text, _ in texts)
    print(
        f"vLLM, whole texts: {len(texts)} cases, {size} bytes, {len({t[0] for t in texts})} parsers: {1000 * best:.1f} ms"
    )
    print("not able:", ", ".join(sorted(failed)) or "none")
    program = (
        sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release" / "bin" / "format_bench"
    )
    subprocess.run([program, "--benchmark_filter=corpus", "--benchmark_min_time=0.2"], check=True)


if __name__ == "__main__":
    main()
