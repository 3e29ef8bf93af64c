"""Other engines of token masks, over the lines that `tenon mask --batch` reads and writes.

    python bench/mask_peer.py xgrammar|llguidance tokenizer.json END_TOKEN

A line in: {"schema", "tests": [{"text"}]}; out: {"compile_us", "first_mask_us", "mask_us", "tests": [{"accepted"}]} or
{"error"}. Times are CPU time; a mask is the one call that fills a bit for each token.
"""

import gc
import json
import os
import sys
import time

import numpy
import tokenizers


class XGrammar:
    def __init__(self, path, vocabulary, end):
        import xgrammar

        texts = [text for text, _ in sorted(vocabulary.items(), key=lambda pair: pair[1])]
        info = xgrammar.TokenizerInfo(
            texts,
            vocab_type=xgrammar.VocabType.BYTE_LEVEL,
            vocab_size=len(texts),
            stop_token_ids=[end],
        )
        self.xgrammar, self.end = xgrammar, end
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.bitmask = xgrammar.allocate_token_bitmask(1, len(texts))
        self.words = self.bitmask.numpy()[0]

    def compile(self, schema):
        self.grammar = self.compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=True, strict_mode=False
        )

    def start(self):
        self.matcher = self.xgrammar.GrammarMatcher(self.grammar)

    def fill_mask(self):
        self.allows_all = not self.matcher.fill_next_token_bitmask(self.bitmask)

    def accept(self, token):
        return self.matcher.accept_token(token)

    def is_allowed(self, token):
        return self.allows_all or bool(int(self.words[token // 32]) >> token % 32 & 1)


class LLGuidance:
    def __init__(self, path, vocabulary, end):
        import llguidance

        self.llguidance = llguidance
        self.tokenizer = llguidance.LLTokenizer(path, n_vocab=len(vocabulary), eos_token=end)
        self.words = numpy.zeros((len(vocabulary) + 31) // 32, dtype=numpy.int32)

    def compile(self, schema):
        self.compiled = self.llguidance.LLMatcher(
            self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0
        )
        if self.compiled.is_error():
            raise ValueError(self.compiled.get_error())

    def start(self):
        self.matcher = self.compiled.deep_copy()

    def fill_mask(self):
        self.matcher.unsafe_compute_mask_ptr(self.words.ctypes.data, self.words.nbytes)

    def accept(self, token):
        return self.matcher.consume_token(token)

    def is_allowed(self, token):
        return bool(int(self.words[token // 32]) >> token % 32 & 1)


def us(clock, work):
    begin = clock()
    work()
    return (clock() - begin) / 1e3


def follow(engine, tokens, mask_us):
    """Whether the tokens, the end token last, are each in the mask before it."""
    engine.start()
    for token in tokens:
        mask_us.append(us(time.thread_time_ns, engine.fill_mask))
        if not engine.is_allowed(token):
            return False
        if token != tokens[-1] and not engine.accept(token):
            return False
    return True


def answer(engine, tokenizer, end, request):
    # An engine may compile in threads of its own.
    compile_us = us(time.process_time_ns, lambda: engine.compile(request["schema"]))
    first_mask_us = us(time.thread_time_ns, lambda: (engine.start(), engine.fill_mask()))
    mask_us = []
    tests = [
        {
            "accepted": follow(
                engine,
                [*tokenizer.encode(test["text"], add_special_tokens=False).ids, end],
                mask_us,
            )
        }
        for test in request["tests"]
    ]
    return {
        "compile_us": compile_us,
        "first_mask_us": first_mask_us,
        "mask_us": mask_us,
        "tests": tests,
    }


def main():
    name, path, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print must not come between the answers
    tokenizer = tokenizers.Tokenizer.from_file(path)
    engine = {"xgrammar": XGrammar, "llguidance": LLGuidance}[name](
        path, tokenizer.get_vocab(), end
    )
    gc.disable()
    for line in sys.stdin:
        try:
            result = answer(engine, tokenizer, end, json.loads(line))
        except Exception as error:
            result = {"error": {"code": type(error).__name__, "message": str(error)[:200]}}
        print(json.dumps(result), file=out, flush=True)
        gc.collect(0)


main()
