#!/usr/bin/env python3
"""Which tool a model calls among many, and how many tokens that costs, with tool search and without it.

    .venv/bin/python bench/tool_search_figures.py --model FILE [--tools 80 500] [--questions 20] [--choice auto]

Questions and tools are those of BFCL's public half: questions for which one call is due, their own tools, and tools of other
rows up to the number, in an order drawn by a seed. All questions have the same list of tools. "prompt" is what the engine got as
prompt tokens over all rounds of an answer, "not cached" the part that it had to compute, both as means.
"""

import argparse
import contextlib
import json
import pathlib
import random
import statistics
import sys
import tempfile
import urllib.error
import urllib.request

from data import DATA

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from serving import serving  # noqa: E402


def drawn(seed, questions):
    """Questions with the name of the tool that is due, and all tools by name, in the order drawn."""
    with (DATA / "formats" / "bfcl_public.jsonl").open() as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row.get("valid", True)]
    random.Random(seed).shuffle(rows)
    asked, tools = [], {}
    for row in rows:
        functions = [tool["function"] for tool in row["tools"]]
        is_single = len(functions) == 1 and len(row["expected"] or []) == 1
        if len(asked) < questions and is_single and functions[0]["name"] not in tools:
            asked.append((row["messages"], functions[0]["name"]))
        for function in functions:
            tools.setdefault(function["name"], function)
    return asked, tools


def ask(server, messages, tools, options):
    body = {
        "messages": messages,
        "tools": tools,
        "tool_choice": options.choice,
        "temperature": 0,
        "max_tokens": 256,
    }
    request = urllib.request.Request(
        server.url + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--tools", type=int, nargs="+", default=[80, 500])
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--choice", default="auto", choices=["auto", "required"])
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--context", type=int, default=32768)
    options = parser.parse_args()
    asked, functions = drawn(options.seed, options.questions)
    print(f"{pathlib.Path(options.model).name}, {len(asked)} questions, {options.choice}\n")
    print("| tools | search | right tool | another | no call | prompt | not cached |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for count in options.tools:
        names = [name for _, name in asked]
        names += [name for name in functions if name not in set(names)][: count - len(names)]
        random.Random(options.seed).shuffle(names)
        tools = [{"type": "function", "function": functions[name]} for name in names]
        for search in ("off", "auto"):
            right = other = none = 0
            prompts, computed = [], []
            with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
                config = pathlib.Path(name) / "tenon.toml"
                config.write_text(
                    f'[[model]]\nname = "m"\npath = "{options.model}"\ncontext_tokens = {options.context}\n'
                    f'max_concurrent = 1\ntool_search = "{search}"\ntool_search_from = 10\n'
                )
                server = stack.enter_context(
                    serving(pathlib.Path(name) / "log", "--config", str(config))
                )
                try:
                    for messages, wanted in asked:
                        answer = ask(server, messages, tools, options)
                        calls = answer["choices"][0]["message"].get("tool_calls") or []
                        called = [call["function"]["name"] for call in calls]
                        right += called[:1] == [wanted]
                        other += called[:1] not in ([], [wanted])
                        none += not called
                        usage = answer["usage"]
                        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
                        prompts.append(usage["prompt_tokens"])
                        computed.append(usage["prompt_tokens"] - cached)
                except urllib.error.HTTPError as error:
                    said = json.load(error)["error"]["message"]
                    print(f"| {count} | {search} | {said} | | | | |", flush=True)
                    continue
            of = len(asked)
            print(
                f"| {count} | {search} | {right} of {of} | {other} | {none} | {statistics.mean(prompts):,.0f} "
                f"| {statistics.mean(computed):,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
