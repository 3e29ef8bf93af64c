"""Judges a model file through llama.cpp: greedy, unconstrained, one thread.

    python evaluate.py --model ../models/tenon-tiny.gguf --count 100

Splits: `seen` (new samples of the generator), `held` (nouns and keys that are
in none of its lists, its sentences), `everyday` (tools under their usual
names, new values), `hand` and the demo questions, written by hand. A call
counts as right only if names, arguments, number and order are all right.
Needs llama-cpp-python, which may live in another environment.
"""

import argparse
import json
import os
import random
import re

from llama_cpp import Llama

import chatml
import generator
import heldout
import intents

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join(HERE, "..", "models", "demo_questions.json")
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)


class Judge:
    def __init__(self, path):
        self.model = Llama(path, n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
        self.end = self.model.token_eos()

    def reply(self, tools, messages, system="", limit=160):
        """The text of the model's next turn."""
        prompt = chatml.render_prefix(tools, system) + "".join(t for t, _ in chatml.render_messages(messages))
        ids = self.model.tokenize((prompt + "<|im_start|>assistant\n").encode(), add_bos=False, special=True)
        made = []
        for token in self.model.generate(ids, temp=0.0, repeat_penalty=1.0):
            if token == self.end or len(made) == limit:
                break
            made.append(token)
        return self.model.detokenize(made, special=True).decode(errors="replace")


def read_calls(text):
    """[(name, arguments)] of a reply; None where the JSON is broken."""
    try:
        found = [json.loads(body) for body in CALL.findall(text)]
        return [(call["name"], call["arguments"]) for call in found]
    except (ValueError, KeyError, TypeError):
        return None


def score(judge, conversations):
    """Right replies and right names among (tools, conversation) pairs; failures as text."""
    right = names = 0
    failures = []
    for tools, messages in conversations:
        *before, last = messages
        said = judge.reply(tools, before)
        if last.get("tool_calls"):
            wanted = [(c["function"]["name"], c["function"]["arguments"]) for c in last["tool_calls"]]
            made = read_calls(said)
            names += bool(made) and [n for n, _ in made] == [n for n, _ in wanted]
            good = made == wanted
        else:
            good = said == last["content"]
        right += good
        if not good:
            expected = chatml.render_calls(last["tool_calls"]) if last.get("tool_calls") else last["content"]
            failures.append("user: %s\n  want %r\n  said %r" % (before[-1]["content"], expected, said))
    return right, names, failures


def kind_of(messages):
    last = messages[-1]
    if last.get("tool_calls"):
        return "parallel" if len(last["tool_calls"]) > 1 else "call"
    if messages[-2]["role"] == "tool":
        return "final"
    if last["content"] == generator.NO_TOOL:
        return "abstain"
    return "ask" if last["content"].startswith("Please tell me the ") else "chat"


def seen(count, seed):
    """Turns of new generator samples by kind, at most `count` of each, and the tools each turn had."""
    r = random.Random("seen/%d" % seed)
    kinds = {k: [] for k in ("call", "parallel", "ask", "abstain", "final", "chat")}
    while any(len(v) < count for v in kinds.values()):
        tools, _, talks = generator.tree(r)
        for messages in talks:
            for end, message in enumerate(messages):
                kind = message["role"] == "assistant" and kind_of(messages[:end + 1])
                if kind and len(kinds[kind]) < count:
                    kinds[kind].append((tools, messages[:end + 1]))
    return kinds


def everyday(count, seed):
    """Single calls of everyday tools under usual names, two or three tools each."""
    r = random.Random("everyday/%d" % seed)
    made = []
    while len(made) < count:
        chosen = r.sample(intents.INTENTS, r.choice((2, 3)))
        if any(intents.clash(a.topic, b.topic) for a in chosen for b in chosen if a is not b):
            continue
        tools = [generator.everyday_tool(r, intent, False) for intent in chosen]
        declared = [tool.declare(r, False) for tool in tools]
        made.append((declared, generator.single_call(r, tools)[0]))
    return made


def hand_written():
    """(requests that need calls, requests that need none) of `heldout.HAND_WRITTEN`."""
    calls, none = [], []
    for tools, request, wanted in heldout.HAND_WRITTEN:
        if wanted:
            made = generator.calls(*({"type": "function", "function": {"name": n, "arguments": a}} for n, a in wanted))
            calls.append((tools, [generator.user(request), made]))
        else:
            none.append((tools, [generator.user(request)]))
    return calls, none


def check_demo(demo, samples=20000):
    """No demo question, and no text like it but for case, comes out of the generator."""
    questions = {q["question"].lower() for q in demo["questions"]}
    r = random.Random(99)
    for _ in range(samples):
        for messages in generator.tree(r)[2]:
            for message in messages:
                assert message["role"] != "user" or message["content"].lower() not in questions, message


def run_demo(judge, demo, show):
    """Each question: the call, then the final sentence on the canned result."""
    right = 0
    for q in demo["questions"]:
        messages = [generator.user(q["question"])]
        said = judge.reply(demo["tools"], messages)
        wanted = [(c["name"], c["arguments"]) for c in q["calls"]]
        good, final = (read_calls(said) or []) == wanted, ""
        if good and wanted:
            messages.append(generator.calls(*({"type": "function", "function": c} for c in q["calls"])))
            messages += [{"role": "tool", "content": result if isinstance(result, str) else chatml.dumps(result)}
                         for result in q["results"]]
            final = judge.reply(demo["tools"], messages)
        elif not wanted:
            good, final = not CALL.search(said), said
        good = good and all(part in final for part in q["final_contains"])
        right += good
        if show or not good:
            print("  %s %s\n     %r\n     %r" % ("right" if good else "WRONG", q["question"], said, final))
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=60, help="items per row")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--failures", type=int, default=0, help="wrong replies to print per row")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    heldout.check_disjoint()
    judge = Judge(options.model)
    rows = [("seen " + kind, items) for kind, items in seen(options.count, options.seed).items()]
    rows.append(("everyday call", everyday(options.count, options.seed)))
    rows += [("held " + kind, heldout.conversations(kind, options.count, options.seed)) for kind in ("call", "parallel", "ask", "abstain", "final")]
    hand_calls, hand_none = hand_written()
    rows.append(("hand call", hand_calls))
    print("%-15s %4s %6s %6s %s" % ("row", "n", "right", "names", "chance of the name"))
    for name, items in rows:
        if options.only not in name:
            continue
        right, names, failures = score(judge, items)
        calls = any(m[-1].get("tool_calls") for _, m in items)
        chance = sum(1 / len(tools or [1]) for tools, _ in items) / len(items)
        print("%-15s %4d %6.2f %s" % (name, len(items), right / len(items), "%6.2f %.2f" % (names / len(items), chance) if calls else ""), flush=True)
        for failure in failures[:options.failures]:
            print("  " + failure)
    if options.only in "hand none":
        silent = sum(not CALL.search(judge.reply(tools, messages)) for tools, messages in hand_none)
        print("%-15s %4d %6.2f" % ("hand no call", len(hand_none), silent / len(hand_none)))
    if os.path.exists(DEMO) and options.only in "demo":
        with open(DEMO, encoding="utf-8") as source:
            demo = json.load(source)
        check_demo(demo)
        print("%-15s %4d %6.2f" % ("demo", len(demo["questions"]), run_demo(judge, demo, options.failures > 0) / len(demo["questions"])))


if __name__ == "__main__":
    main()
