"""Requests over tools that training never sees.

    python heldout.py --count 200 > held.jsonl           # a set for `tenon bench model`
    python heldout.py --seen --count 200                 # the same over the tools of training, other samples

Whole topics of `tools/` (`generator.HELD_TOPICS`) are kept from training, and nouns and keys for made-up tools, which
occur in none of the generator's word lists (`check_disjoint`). Sentences of the held-out topics are in no training sample;
those of made-up tools are the generator's own, so only their names and nouns are new.
"""

import argparse
import json
import random
import re
import sys

import generator
import lexicon
import values

KINDS = ("call", "parallel", "ask", "abstain", "final")


def held_noun(r):
    return lexicon.Word(r.choice(generator.HELD_NOUNS), 0)


def tools_of(r):
    """Two to five tools, a third of them made up."""
    tools = []
    library = generator.library(True)
    wanted = r.choice((2, 3, 3, 4, 5))
    while len(tools) < wanted:
        known = [t.intent for t in tools if t.intent]
        if library.intents and generator.maybe(r, 0.67):
            twin = r.choice(known) if known and generator.maybe(r, 0.4) else None
            intent = r.choice(
                library.by_topic[twin.topic.split("/")[0]] if twin else library.intents
            )
            if any(generator.clash(intent, other) for other in known):
                continue
            tool = generator.known_tool(r, intent, False)
        else:
            tool = generator.made_up_tool(r, False, keys=generator.HELD_KEYS, choose=held_noun)
        if all(t.name != tool.name and (not tool.stem or t.stem != tool.stem) for t in tools):
            tools.append(tool)
    return tools


def seen_tools(r):
    while True:
        tools = generator.pick_tools(r)
        if len(tools) > 1:
            return tools


def conversations(kind, count, seed, held=True):
    """`count` of (tool declarations, conversation that ends in the reply to judge)."""
    r = random.Random("%s/%d" % (kind, seed))
    made = []
    while len(made) < count:
        tools = tools_of(r) if held else seen_tools(r)
        declared = [tool.declare(r) for tool in tools]
        if kind == "call":
            found = generator.single_call(r, tools)
        elif kind == "parallel":
            found = (
                generator.same_tool_twice if generator.maybe(r, 0.5) else generator.two_requests
            )(r, tools)
        elif kind == "ask":
            found = generator.ask_for_missing(r, tools)
            found = found and (found[0][:2], None)
        elif kind == "final":
            messages, calls = generator.single_call(r, tools)
            found = (messages + generator.finish(r, calls), calls)
        else:
            found = (generator.unsuitable(r, tools, held), None)
        if found:
            made.append((declared, found[0]))
    return made


def probes(count):
    """Calls that a training run checks itself on, the same for every run: kind -> conversations."""
    return {kind: conversations(kind, count, 12345) for kind in KINDS}


def as_row(identity, category, tools, messages):
    """A line of a set for `tenon bench model`."""
    history, number = [], 0
    for message in messages[:-1]:
        if message.get("tool_calls"):
            made = []
            for call in message["tool_calls"]:
                number += 1
                made.append(
                    {
                        "id": "call_%d" % number,
                        "type": "function",
                        "function": {
                            "name": call["function"]["name"],
                            "arguments": json.dumps(call["function"]["arguments"]),
                        },
                    }
                )
            waiting = [call["id"] for call in made]
            history.append({"role": "assistant", "content": None, "tool_calls": made})
        elif message["role"] == "tool":
            history.append(
                {"role": "tool", "tool_call_id": waiting.pop(0), "content": message["content"]}
            )
        else:
            history.append(message)
    last = messages[-1]
    calls = [
        {
            "name": call["function"]["name"],
            "arguments": {key: [value] for key, value in call["function"]["arguments"].items()},
        }
        for call in last.get("tool_calls", ())
    ]
    expect = {"calls": calls}
    if category == "final":
        expect["mentions"] = [[last["content"]]]
    return {
        "id": identity,
        "category": category,
        "tools": tools,
        "messages": history,
        "expect": expect,
    }


def check_disjoint():
    """No held-out word is in the generator's lists, in WordNet's words as it takes them, or in the tools of training."""
    lists = [
        generator.KEYS,
        generator.VERBS,
        generator.ASPECTS,
        generator.TOPICS,
        generator.ANY_VERB,
        generator.REMARKS,
        generator.OPTIONAL_REMARKS,
        generator.REQUIRED_REMARKS,
        generator.LEADS,
        generator.ASIDES,
        generator.CLOSERS,
        generator.SYSTEM_LINES,
        values.WORDS,
        values.PLACES,
        values.ROOMS,
    ]
    lists += [
        [w.text, w.same, w.above, w.gloss]
        for w in generator.nouns() + generator.verbs() + generator.adjectives()
    ]
    for intent in generator.library().intents:
        lists += [
            intent.names,
            intent.descriptions,
            intent.requests,
            intent.done,
            list(intent.ask.values()),
        ]
        lists += [[p.keys, p.descriptions, p.tails, p.kind.options] for p in intent.params]
    known = set(re.findall(r"[a-z]+", json.dumps(lists).lower()))
    assert not generator.HELD_WORDS & known, "not held out: %s" % (generator.HELD_WORDS & known)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="rows of each kind")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--seen", action="store_true", help="tools of training")
    options = parser.parse_args()
    check_disjoint()
    for kind in KINDS:
        for i, (tools, messages) in enumerate(
            conversations(kind, options.count, options.seed, not options.seen)
        ):
            sys.stdout.write(
                json.dumps(as_row("%s_%03d" % (kind, i), kind, tools, messages), ensure_ascii=False)
                + "\n"
            )


if __name__ == "__main__":
    main()
