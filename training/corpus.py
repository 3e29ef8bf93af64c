"""Everyday tools with the ways people ask for them, read from `tools/*.txt`.

    python corpus.py tools/*.txt       # says what is malformed or thin or asked for twice, and how much there is

One block a tool, with a blank line between blocks; a line's first character says what it is:

    [topic/part] name another_name ...           names of the tool, the commonest first
    : description | description                  of the tool
    - key key2 : kind : description | ...        a required parameter, the keys it may have, the kind of its values
    ? key key2 : kind : descriptions : tail | .. an optional one, and the words that give it after a request
    > request with {key}                         {key}: the value of a required parameter, by its first key
    !key request                                 a request without the value of that parameter
    = field:kind ...                             what the tool returns
    < sentence with {field} and {key}            the answer that is made of it
    ~ name name                                  tools (by first name) that could serve these requests too

Kinds are the makers of `values.py` and int:1..9, enum:a,b=word for b|other word, words:a,b,c (such texts), list:KIND and
switch:words for true|other words,words for false|other words. An article that such a text begins with, "my" or "our" is said
and not called: "the attic" of words is "attic" in the call.
"""

import argparse
import glob
import os
import re
import sys

from values import MAKERS

HERE = os.path.dirname(os.path.abspath(__file__))
SLOT = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"[a-z][a-z0-9_]*$")


class Malformed(Exception):
    pass


class Kind:
    """The kind of a value: `name` is a maker or int, enum, words, switch, list; `options` are (value, [words])."""

    def __init__(self, text):
        self.name, _, rest = text.strip().partition(":")
        self.low = self.high = self.item = None
        self.options = []
        if self.name == "int":
            match = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", rest)
            if not match or int(match[1]) >= int(match[2]):
                raise Malformed("int wants LOW..HIGH: " + text)
            self.low, self.high = int(match[1]), int(match[2])
        elif self.name in ("enum", "words"):
            for option in rest.split(","):
                value, _, words = option.strip().partition("=")
                if not value:
                    raise Malformed("an empty option: " + text)
                self.options.append(
                    (
                        value,
                        [value.replace("_", " ")]
                        + [w.strip() for w in words.split("|") if w.strip()],
                    )
                )
            if len(self.options) < 2:
                raise Malformed("%s wants at least two values: %s" % (self.name, text))
        elif self.name == "switch":
            sides = [parts(side) for side in rest.split(",")]
            if len(sides) != 2 or not all(sides):
                raise Malformed("switch wants WORDS,WORDS: " + text)
            self.options = [(True, sides[0]), (False, sides[1])]
        elif self.name == "list":
            self.item = Kind(rest)
            if self.item.name in ("list", "enum", "switch", "flag"):
                raise Malformed("list of such a kind: " + text)
        elif self.name not in MAKERS or rest:
            raise Malformed("no such kind: " + text)


class Param:
    """`tails` is None for a required one."""

    def __init__(self, keys, kind, descriptions, tails=None):
        self.keys, self.kind, self.descriptions, self.tails = keys, kind, descriptions, tails


class Intent:
    def __init__(self, topic, names):
        self.topic, self.names = topic, names
        self.first = names[0] if names else ""  # what `~` of others says
        self.descriptions, self.params, self.requests, self.ask = [], [], [], {}
        self.result, self.done, self.clashes = {}, [], set()

    @property
    def required(self):
        return [p for p in self.params if p.tails is None]


def parts(text, separator="|"):
    return [part.strip() for part in text.split(separator) if part.strip()]


def keys_of(text):
    keys = text.split()
    for key in keys:
        if not NAME.match(key):
            raise Malformed("no key: " + key)
    return keys


def read_line(intent, line):
    mark, rest = line[0], line[1:].strip()
    if mark == ":":
        intent.descriptions += parts(rest)
    elif mark in "-?":
        fields = [field.strip() for field in rest.split(" : ")]
        if len(fields) != (3 if mark == "-" else 4):
            raise Malformed(
                "a parameter wants %s"
                % (
                    "keys : kind : descriptions"
                    if mark == "-"
                    else "keys : kind : descriptions : tails"
                )
            )
        tails = None
        if mark == "?":
            tails = [part if part[0] in ",.;:(" else " " + part for part in parts(fields[3])]
            for tail in tails:
                if tail.count("{}") != 1:
                    raise Malformed("a tail wants one {}: " + tail)
        intent.params.append(Param(keys_of(fields[0]), Kind(fields[1]), parts(fields[2]), tails))
    elif mark == ">":
        intent.requests.append(rest)
    elif mark == "!":
        key, _, request = rest.partition(" ")
        intent.ask.setdefault(key, []).append(request.strip())
    elif mark == "=":
        for field in re.findall(
            r"[a-z_0-9]+:(?:enum|words|switch|list):.*?(?= [a-z_0-9]+:|$)|\S+", rest
        ):
            name, _, kind = field.partition(":")
            intent.result[name] = Kind(kind)
    elif mark == "<":
        intent.done.append(rest)
    elif mark == "~":
        intent.clashes.update(rest.split())
    else:
        raise Malformed("no line begins with " + mark)


def check(intent):
    """Raises for a block that cannot be used."""
    required = [p.keys[0] for p in intent.required]
    if not intent.descriptions or not intent.requests:
        raise Malformed("no description or no request")
    firsts = [p.keys[0] for p in intent.params]
    if len(set(firsts)) < len(firsts):
        raise Malformed("two parameters with the same first key")
    for request in intent.requests:
        if sorted(SLOT.findall(request)) != sorted(required):
            raise Malformed("a request wants each of %s once: %s" % (required, request))
    for key, requests in intent.ask.items():
        if key not in required:
            raise Malformed("!%s is no required parameter" % key)
        for request in requests:
            if not request:
                raise Malformed("!%s has no request" % key)
            if sorted(SLOT.findall(request)) != sorted(k for k in required if k != key):
                raise Malformed(
                    "a request without %s wants the other required ones: %s" % (key, request)
                )
    for sentence in intent.done:
        for name in SLOT.findall(sentence):
            if name not in intent.result and name not in required:
                raise Malformed(
                    "{%s} is neither a field nor a required parameter: %s" % (name, sentence)
                )


def read(path):
    """The intents of a file; raises Malformed with the place: of the line, or of the block's first."""
    found, begins = [], []
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            line = line.strip()
            try:
                if not line:
                    continue
                if line[0] == "[":
                    topic, _, names = line[1:].partition("]")
                    intent = Intent(topic.strip(), names.split())
                    for name in intent.names:
                        if not NAME.match(name):
                            raise Malformed("no name: " + name)
                    if not intent.names or "/" not in topic:
                        raise Malformed("a block begins with [topic/part] names")
                    found.append(intent)
                    begins.append(number)
                elif not found:
                    raise Malformed("a line before the first block")
                else:
                    read_line(found[-1], line)
            except Malformed as error:
                raise Malformed("%s:%d: %s" % (path, number, error)) from None
    for intent, begun in zip(found, begins):
        try:
            check(intent)
        except Malformed as error:
            raise Malformed("%s:%d: %s" % (path, begun, error)) from None
    return found


def shape(request):
    """The words of a request, without values."""
    return re.sub(r"\W+", " ", SLOT.sub("_", request)).strip().lower()


def load():
    """All intents of `tools/`; clashes hold both ways, and between tools that are asked for in the same words."""
    found = [
        intent
        for path in sorted(glob.glob(os.path.join(HERE, "tools", "*.txt")))
        for intent in read(path)
    ]
    by_name, by_request = {}, {}
    for intent in found:
        for name in intent.names:
            by_name.setdefault(name, []).append(intent)
        for request in intent.requests:
            other = by_request.setdefault(shape(request), intent)
            intent.clashes.add(other.first)
    for intent in found:
        for name in list(intent.clashes):
            for other in by_name.get(name, ()):
                other.clashes.add(intent.first)
                intent.clashes.add(other.first)
    return found


def thin(intent):
    """What a block has too little of."""
    lacks = []
    if len(intent.names) < 4:
        lacks.append("%d names" % len(intent.names))
    if len(intent.descriptions) < 4:
        lacks.append("%d descriptions" % len(intent.descriptions))
    if len(intent.requests) < 12:
        lacks.append("%d requests" % len(intent.requests))
    if intent.required and not intent.ask:
        lacks.append("no request with a missing value")
    if intent.result and not intent.done:
        lacks.append("no sentence for the result")
    return lacks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    intents, requests = [], {}
    try:
        for path in parser.parse_args().files:
            intents += read(path)
        names = {name for intent in intents + load() for name in intent.names}
    except (Malformed, OSError, UnicodeDecodeError) as error:
        print(error)
        return 1
    wrong = not intents
    for intent in intents:
        lacks = thin(intent)
        if lacks:
            print("thin: %s has %s" % (intent.names[0], ", ".join(lacks)))
        for name in sorted(intent.clashes - names):
            print("no such tool: %s (~ of %s)" % (name, intent.names[0]))
            wrong = True
        for request in intent.requests:
            same = shape(request)
            if same in requests:
                print("twice: %r (%s, %s)" % (request, requests[same], intent.names[0]))
            requests[same] = intent.names[0]
    print(
        "%d tools, %d requests, %d names, %d different words"
        % (
            len(intents),
            sum(len(i.requests) for i in intents),
            sum(len(i.names) for i in intents),
            len(
                {
                    w
                    for i in intents
                    for text in i.requests + i.descriptions
                    for w in re.findall(r"[a-z]+", text.lower())
                }
            ),
        )
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
