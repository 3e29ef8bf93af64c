"""Provable differences of masks: Tenon beside llguidance and xgrammar, over real schemas, in one run.

    PYTHON bench/mask_proofs.py [--per-source 20] [--seed 1] [--show 3] [--engines tenon llguidance xgrammar]

PYTHON has the packages of the engines and `jsonschema` (docs/benchmarks.md says how to make it). The schemas and the vocabulary are those of the
large reference data (tests/samples/README.md).

Each schema is followed by texts: its valid instances; its invalid ones; random walks through each engine's own masks, brought to an end by the
shortest tokens that the mask allows; and, along the valid texts, tokens about which the engines disagree, each brought to an end in the same way by
the engines that allow it. `jsonschema` judges each text that has ended; it shares no code with any engine. Then each text is followed in each
engine. Two things are proofs against an engine:

    forbids   a token of a valid text is not in the mask: it is forbidden, though this text completes it and validates
    allows    an invalid text was written to its end, each token in the mask before it: the end token is allowed, though the text does not validate
    stuck     a mask, in a walk of the engine's own, has no token at all

A valid text that is forbidden is told apart by whether the engine allows the same value as `json.dumps` writes it, with its members in their order:
then only another spelling of the value is forbidden (white space, escapes, exponents), which an engine may choose to bound; else the value is.

No proof is made of texts on which readers of JSON Schema differ: a `format` (a text is valid only if all formats hold, and invalid only if it is so
without them), members that come twice, numbers of more than 15 digits or beyond a double, and texts for which jsonschema needs more than a second. The table tells at
what kind of place a valid value was forbidden; `order` is where another order of the members is allowed.
"""

import argparse
import collections
import gc
import json
import random
import signal
import sys
import time

import jsonschema
import numpy
import tokenizers
from data import DATA, VOCABULARIES

VOCABULARY = DATA / "vocab" / VOCABULARIES[0]
COMPILE_S = 20
INF = float("inf")
MOST_TOKENS = 160
# Behind a walk: the first of these that the mask allows brings the text nearer to its end.
TO_END = [
    '"',
    "}",
    "]",
    '":',
    ":",
    "0",
    "1",
    "null",
    "true",
    "a",
    " ",
    ",",
    "[",
    "{",
    "e",
    "-",
    ".",
]


class TooLong(Exception):
    pass


class within:
    """Raises TooLong in the block after so many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def stop(*_):
            raise TooLong

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)


class Tenon:
    def __init__(self, size, end):
        import tenon

        self.tenon = tenon
        self.version = tenon.__version__
        self.vocab = tenon.Vocab.load(str(VOCABULARY / "tokenizer.json")).with_ends([end])

    def compile(self, schema):
        return self.tenon.Grammar(self.vocab, {"schema": schema, "assert_format": True})

    def start(self, grammar):
        return self.tenon.Matcher(grammar)

    def fill(self, matcher, words):
        try:
            matcher.fill_mask(words[: matcher.mask_words])
        except self.tenon.UnsatisfiableError:
            words[:] = 0

    def accept(self, matcher, token):
        return matcher.accept(token)


class LLGuidance:
    def __init__(self, size, end):
        import importlib.metadata

        import llguidance

        self.llguidance = llguidance
        self.version = importlib.metadata.version("llguidance")
        self.tokenizer = llguidance.LLTokenizer(
            str(VOCABULARY / "tokenizer.json"), n_vocab=size, eos_token=end
        )

    def compile(self, schema):
        matcher = self.llguidance.LLMatcher(
            self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0
        )
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, grammar):
        return grammar.deep_copy()

    def fill(self, matcher, words):
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)

    def accept(self, matcher, token):
        return matcher.consume_token(token)


class XGrammar:
    def __init__(self, size, end):
        import importlib.metadata

        import xgrammar

        self.xgrammar = xgrammar
        self.version = importlib.metadata.version("xgrammar")
        data = tokenizers.Tokenizer.from_file(str(VOCABULARY / "tokenizer.json")).get_vocab()
        texts = [text for text, _ in sorted(data.items(), key=lambda pair: pair[1])]
        info = xgrammar.TokenizerInfo(
            texts,
            vocab_type=xgrammar.VocabType.BYTE_LEVEL,
            vocab_size=len(texts),
            stop_token_ids=[end],
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=1 << 30)
        self.bitmask = xgrammar.allocate_token_bitmask(1, len(texts))

    def compile(self, schema):
        return self.compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=True, strict_mode=False
        )

    def start(self, grammar):
        return self.xgrammar.GrammarMatcher(grammar)

    def fill(self, matcher, words):
        needs = matcher.fill_next_token_bitmask(self.bitmask)
        words[:] = self.bitmask.numpy()[0] if needs else -1

    def accept(self, matcher, token):
        return matcher.accept_token(token)


ENGINES = {"tenon": Tenon, "llguidance": LLGuidance, "xgrammar": XGrammar}


def has(words, token):
    return bool(int(words[token >> 5]) >> (token & 31) & 1)


class Judge:
    """What jsonschema says of a text: True, False, or None where no proof is made of it."""

    def __init__(self, schema):
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        self.loose = kind(schema)
        self.strict = kind(schema, format_checker=kind.FORMAT_CHECKER)

    def __call__(self, text):
        class Twice(Exception):
            pass

        def members(pairs):
            if len({name for name, _ in pairs}) < len(pairs):
                raise Twice
            return dict(pairs)

        def number(kind):
            def read(digits):
                if sum(c.isdigit() for c in digits) > 15 or float(digits) in (INF, -INF):
                    raise Twice
                return kind(digits)

            return read

        try:
            value = json.loads(
                text, object_pairs_hook=members, parse_int=number(int), parse_float=number(float)
            )
        except Twice:
            return None
        except (ValueError, RecursionError):
            return False  # no JSON at all
        try:
            with within(1):
                if not self.loose.is_valid(value):
                    return False
                return True if self.strict.is_valid(value) else None
        except (TooLong, RecursionError):
            return None
        except Exception:  # a schema that jsonschema cannot read (a $ref to elsewhere)
            return None


class Follower:
    """One engine, with one schema."""

    def __init__(self, engine, grammar, words):
        self.engine, self.grammar, self.words = engine, grammar, words

    def start(self):
        return self.engine.start(self.grammar)

    def mask(self, matcher):
        self.engine.fill(matcher, self.words)
        return self.words

    def follow(self, tokens):
        """The place of the first token that is not in the mask; None: all are."""
        matcher = self.start()
        for place, token in enumerate(tokens):
            if not has(self.mask(matcher), token):
                return place
            if place + 1 < len(tokens) and not self.engine.accept(matcher, token):
                return place
        return None

    def complete(self, matcher, tokens, to_end, end, controls):
        """`tokens`, which the matcher has read, and what brings them to an end; None: it found none."""
        tokens = list(tokens)
        while len(tokens) < MOST_TOKENS + 60:
            words = self.mask(matcher)
            if has(words, end):
                return tokens
            token = next((t for t in to_end if has(words, t)), None)
            if token is None:
                allowed = [token for token in allowed_of(words) if token not in controls]
                if not allowed:
                    return None
                token = int(allowed[0])
            if not self.engine.accept(matcher, token):
                return None
            tokens.append(token)
        return None


def allowed_of(words):
    return numpy.flatnonzero(numpy.unpackbits(words.view(numpy.uint8), bitorder="little"))


def place_of(text):
    """What kind of place in JSON the end of `text` is."""
    inside, escaped, stack, last = False, False, [], ""
    for c in text:
        if inside:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == '"':
                inside = False
            continue
        if c == '"':
            inside = True
            is_key = stack[-1:] == ["{"] and last in "{,"
            last = "key" if is_key else "text"
        elif c in "{[":
            stack.append(c)
            last = c
        elif c in "}]":
            stack[-1:] = []
            last = c
        elif not c.isspace():
            last = c
    if inside:
        return "key" if last == "key" else "text"
    if stack[-1:] == ["{"] and last in ("{", ","):
        return "key"
    return "number" if last.isdigit() or last in "-.eE" else "value"


class Proofs:
    def __init__(self, arguments):
        self.arguments = arguments
        self.end = json.loads((VOCABULARY / "meta.json").read_text())["eos"]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(VOCABULARY / "tokenizer.json"))
        self.size = self.tokenizer.get_vocab_size()
        self.words = {
            name: numpy.zeros((self.size + 31) // 32, numpy.int32) for name in arguments.engines
        }
        self.engines = {name: ENGINES[name](self.size, self.end) for name in arguments.engines}
        self.to_end = [self.tokenizer.token_to_id(text) for text in TO_END if text != " "]
        self.to_end = [token for token in self.to_end if token is not None]
        # An engine may end a text by other tokens, too; a walk does not choose them.
        self.controls = {
            token
            for token, each in self.tokenizer.get_added_tokens_decoder().items()
            if each.special
        } - {self.end}
        self.random = random.Random(arguments.seed)
        self.counts = collections.defaultdict(collections.Counter)
        self.places = collections.defaultdict(collections.Counter)
        self.examples = collections.defaultdict(list)

    def text_of(self, tokens):
        return self.tokenizer.decode(tokens, skip_special_tokens=False)

    def encoded(self, value):
        text = json.dumps(value, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            text = json.dumps(value)
        return text, self.tokenizer.encode(text, add_special_tokens=False).ids

    def walks(self, follower):
        for _ in range(self.arguments.walks):
            matcher, tokens = follower.start(), []
            most = self.random.randrange(1, 40)
            while len(tokens) < most:
                words = follower.mask(matcher)
                allowed = allowed_of(words)
                if not len(allowed):
                    yield tokens, True
                    break
                # Half of the tokens are of those that end something, or the walk stays in its first text.
                ends = [token for token in self.to_end if has(words, token)]
                token = (
                    self.random.choice(ends)
                    if ends and self.random.random() < 0.5
                    else int(self.random.choice(allowed))
                )
                if token in self.controls:
                    continue
                if token == self.end:
                    break
                if not follower.engine.accept(matcher, token):
                    yield tokens, True
                    break
                tokens.append(token)
            else:
                done = follower.complete(matcher, tokens, self.to_end, self.end, self.controls)
                yield (done, False) if done is not None else (tokens, None)
                continue
            if has(follower.mask(matcher), self.end):
                yield tokens, False

    def disagreements(self, followers, tokens):
        """Along a text that all read: tokens about which they disagree, completed by one that allows them."""
        if len(followers) < 2:
            return
        matchers = {name: each.start() for name, each in followers.items()}
        chosen = set(
            self.random.sample(range(len(tokens) + 1), min(len(tokens) + 1, self.arguments.steps))
        )
        for place in range(len(tokens) + 1):
            if place in chosen:
                masks = {
                    name: followers[name].mask(matcher).copy() for name, matcher in matchers.items()
                }
                self.counts["all"]["masks compared"] += 1
                names = list(masks)
                differ = masks[names[0]] ^ masks[names[0]]
                for name in names[1:]:
                    differ |= masks[names[0]] ^ masks[name]
                # A control token has a text of its own, which is data here.
                found = [token for token in allowed_of(differ) if token not in self.controls]
                self.counts["all"]["tokens that differ"] += len(found)
                for token in self.random.sample(
                    list(map(int, found)), min(len(found), self.arguments.tokens)
                ):
                    if token == self.end:
                        yield tokens[:place]
                        continue
                    for name in names:
                        if not has(masks[name], token):
                            continue
                        matcher = followers[name].start()
                        if all(
                            followers[name].engine.accept(matcher, t)
                            for t in [*tokens[:place], token]
                        ):
                            done = followers[name].complete(
                                matcher,
                                [*tokens[:place], token],
                                self.to_end,
                                self.end,
                                self.controls,
                            )
                            if done is not None:
                                yield done
            if place < len(tokens):
                for name, matcher in matchers.items():
                    if not followers[name].engine.accept(matcher, tokens[place]):
                        return

    def note(self, name, what, schema_id, text, place):
        self.counts[name][what] += 1
        key = (name, what)
        if len(self.examples[key]) < 400:
            self.examples[key].append((schema_id, text[-200:], place))

    def schema(self, case):
        followers = {}
        for name, engine in self.engines.items():
            try:
                with within(COMPILE_S):
                    followers[name] = Follower(
                        engine, engine.compile(case["schema"]), self.words[name]
                    )
                    self.counts[name]["schemas compiled"] += 1
            except Exception as error:
                self.counts[name]["refused"] += 1
                if isinstance(error, TooLong):
                    self.counts[name]["no grammar in 20 s"] += 1
        self.counts["all"]["schemas"] += 1
        if not followers:
            return
        try:
            judge = Judge(case["schema"])
        except Exception:
            return
        texts = {}
        for test in case["tests"]:
            text, tokens = self.encoded(test["data"])
            if len(tokens) <= 4 * MOST_TOKENS:
                texts[text] = tokens
        for name, follower in followers.items():
            for tokens, is_stuck in self.walks(follower):
                if is_stuck:
                    self.note(name, "stuck", case["id"], self.text_of(tokens), "")
                elif is_stuck is False:
                    texts.setdefault(self.text_of(tokens), tokens)
        valid = [text for text in texts if judge(text)]
        for text in valid[:3]:
            for tokens in self.disagreements(followers, texts[text]):
                texts.setdefault(self.text_of(tokens), tokens)
        for text, tokens in texts.items():
            verdict = judge(text)
            if verdict is None:
                self.counts["all"]["texts without a verdict"] += 1
                continue
            self.counts["all"]["valid texts" if verdict else "invalid texts"] += 1
            for name, follower in followers.items():
                place = follower.follow([*tokens, self.end])
                self.counts[name]["texts followed"] += 1
                self.counts[name]["masks"] += len(tokens) + 1 if place is None else place + 1
                if verdict and place is not None:
                    before = self.text_of(tokens[:place])
                    if self.is_spelling(follower, text):
                        self.note(name, "forbids a spelling", case["id"], text, before[-60:])
                        continue
                    at = place_of(before)
                    if at in ("key", "value") and self.is_order(follower, text):
                        at = "order"
                    self.places[name][at] += 1
                    self.note(name, "forbids a value", case["id"], text, before[-60:])
                elif not verdict and place is None:
                    self.note(name, "allows", case["id"], text, "")

    def is_spelling(self, follower, text):
        """Whether the engine allows the value of a text as json.dumps writes it."""
        value = json.loads(text)
        for separators in ((", ", ": "), (",", ":")):
            written = json.dumps(value, ensure_ascii=False, separators=separators)
            try:
                tokens = self.tokenizer.encode(written, add_special_tokens=False).ids
            except UnicodeEncodeError:  # a lone surrogate
                return False
            if follower.follow([*tokens, self.end]) is None:
                return True
        return False

    def is_order(self, follower, text):
        """Whether the engine reads the same members in some other order."""
        value = json.loads(text)

        def shuffled(part):
            if isinstance(part, dict):
                items = [(name, shuffled(each)) for name, each in part.items()]
                self.random.shuffle(items)
                return dict(items)
            return [shuffled(each) for each in part] if isinstance(part, list) else part

        for _ in range(12):
            _, tokens = self.encoded(shuffled(value))
            if follower.follow([*tokens, self.end]) is None:
                return True
        return False

    def show(self):
        names = list(self.engines)
        rows = [
            "schemas compiled",
            "refused",
            "no grammar in 20 s",
            "texts followed",
            "masks",
            "forbids a value",
            "forbids a spelling",
            "allows",
            "stuck",
        ]
        print("all:", dict(self.counts["all"]), "\n")
        print("| | " + " | ".join(f"{name} {self.engines[name].version}" for name in names) + " |")
        print("|---|" + "---|" * len(names))
        for row in rows:
            print(
                f"| {row} | " + " | ".join(f"{self.counts[name][row]:,}" for name in names) + " |"
            )
        for at in ("order", "key", "value", "text", "number"):
            print(
                f"| forbids a value, {at} | "
                + " | ".join(f"{self.places[name][at]:,}" for name in names)
                + " |"
            )
        for (name, what), found in self.examples.items():
            for example in found[: self.arguments.show]:
                print(f"\n{name} {what}: {example}")


def cases_of(per_source):
    chosen = []
    for path in sorted((DATA / "masks" / "public").glob("*.jsonl")):
        if path.stem.startswith("JSTS"):
            continue
        lines = path.read_text().rstrip("\n").split("\n")
        step = max(1, len(lines) // per_source)
        chosen += [
            (place / per_source, json.loads(line))
            for place, line in enumerate(lines[::step][:per_source])
        ]
    return [case for _, case in sorted(chosen, key=lambda pair: pair[0])]


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--per-source", default=20, type=int)
    options.add_argument("--seed", default=1, type=int)
    options.add_argument("--walks", default=3, type=int, help="of each engine and schema")
    options.add_argument(
        "--steps", default=6, type=int, help="of a text, at which masks are compared"
    )
    options.add_argument("--tokens", default=4, type=int, help="that differ, of a step")
    options.add_argument("--show", default=3, type=int)
    options.add_argument("--most-s", default=3600, type=int)
    options.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    arguments = options.parse_args()
    proofs = Proofs(arguments)
    gc.disable()
    begun = time.monotonic()
    cases = cases_of(arguments.per_source)
    for number, case in enumerate(cases):
        if time.monotonic() - begun > arguments.most_s:
            print(f"stopped after {number} of {len(cases)} schemas")
            break
        proofs.schema(case)
        gc.collect(0)
        if number % 25 == 24:
            print(
                f"{number + 1} of {len(cases)} schemas, {time.monotonic() - begun:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    proofs.show()


if __name__ == "__main__":
    main()
