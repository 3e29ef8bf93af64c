"""Holds what the conversations of `generator.py` say against what they call.

    python check_generator.py [--count 1000]

Every text that a call carries stands in what the user said, no two calls of a turn are equal, every required argument is
there and no undeclared one. The exit status is 1 where a tree breaks one of these.
"""

import argparse
import json
import random
import re
import sys

import generator
import values

NOT_AS_SAID = set(values.CURRENCY_WORDS.values())  # "dollars" for USD
NUMBER = re.compile(r"-?\d+(\.\d+)?")  # which words may say: "twelve"


def wrong_calls(declared, messages):
    """A sentence for each mistake in a conversation."""
    functions = {
        tool["function"]["name"]: tool["function"]["parameters"] for tool in declared or ()
    }
    said = "\n".join(message["content"] for message in messages if message["role"] == "user")
    if generator.BEGIN in said or generator.END in said:
        yield "a mark is left in: " + said
    for message in messages:
        made = message.get("tool_calls", [])
        if len({json.dumps(call) for call in made}) < len(made):
            yield "two equal calls for: " + said
        for call in made:
            schema, arguments = functions[call["function"]["name"]], call["function"]["arguments"]
            for key in set(schema.get("required", [])) - arguments.keys():
                yield "no %s for: %s" % (key, said)
            for key, value in arguments.items():
                if key not in schema["properties"]:
                    yield "%s is not declared: %s" % (key, said)
                elif "enum" not in schema["properties"][key]:
                    for text in value if isinstance(value, list) else [value]:
                        if (
                            isinstance(text, str)
                            and text not in said
                            and text not in NOT_AS_SAID
                            and not NUMBER.fullmatch(text)
                        ):
                            yield "nobody said %r: %s" % (text, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="trees")
    options = parser.parse_args()
    talks, found = 0, []
    for number in range(options.count):
        declared, _, conversations = generator.tree(random.Random(number))
        talks += len(conversations)
        found += [
            sentence for messages in conversations for sentence in wrong_calls(declared, messages)
        ]
    for sentence in found[:20]:
        print(sentence)
    print("%d conversations, %d mistakes" % (talks, len(found)))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
