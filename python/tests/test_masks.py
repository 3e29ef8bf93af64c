"""Vocabularies, grammars and matchers."""

import array
import gc
import json
import os
import threading

import numpy
import pytest
import tenon

BYTES = [bytes([b]) for b in range(256)] + [("<|end|>", True), None]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def byte_vocab():
    return tenon.Vocab(BYTES, [256])


def allowed(matcher, size):
    mask = numpy.zeros((size + 31) // 32, numpy.uint32)
    matcher.fill_mask(mask)
    return set(
        numpy.flatnonzero(numpy.unpackbits(mask.view(numpy.uint8), bitorder="little")).tolist()
    )


# What may come after a text, of a grammar over single bytes.
MASKS = {
    "SchemaAtItsBegin": ({"schema": SCHEMA, "whitespace": "compact"}, "", b"{"),
    "NameOfAMember": ({"schema": SCHEMA, "whitespace": "compact"}, '{"city":"a",', b'"'),
    "EndOfText": ({"schema": SCHEMA, "whitespace": "compact"}, '{"city":"a"}', b""),
    "Number": ({"schema": {"enum": [1, 12]}, "whitespace": "compact"}, "1", b"2.eE"),
    "Regex": ({"grammar": "[ab]c+", "syntax": "regex"}, "", b"ab"),
    "Gbnf": ({"grammar": 'root ::= "yes" | "no"', "syntax": "gbnf"}, "", b"yn"),
    "Lark": ({"grammar": 'start: "x" "y"', "syntax": "lark"}, "x", b"y"),
}


@pytest.mark.parametrize("row", MASKS)
def test_mask(byte_vocab, row):
    request, text, expected = MASKS[row]
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, request))
    assert matcher.accept_text(text)
    got = allowed(matcher, len(byte_vocab))
    assert got - {256} >= set(expected) and (got - {256} == set(expected) or row == "Number")
    assert (256 in got) == matcher.is_accepting
    # Mask and accept() say the same of every token.
    for token in range(len(byte_vocab)):
        fork = matcher.copy()
        assert fork.accept(token) == (token in got), token


def test_vocabulary_of_a_sequence_that_makes_its_items():
    class Lazy:
        def __len__(self):
            return len(BYTES) + 40

        def __getitem__(self, id):
            if id >= len(self):
                raise IndexError
            return (
                b"long token " * 20 + str(id).encode()
                if id >= len(BYTES)
                else bytes([id])
                if id < 256
                else BYTES[id]
            )

    vocab = tenon.Vocab(Lazy(), [256])
    assert vocab.token(65) == b"A" and all(
        vocab.token(id) == Lazy()[id] for id in range(len(BYTES), len(vocab))
    )


ARRAYS = {
    "Int32": lambda words: numpy.zeros(words, numpy.int32),
    "Uint32": lambda words: numpy.zeros(words, numpy.uint32),
    "OneRow": lambda words: numpy.zeros((1, words), numpy.int32),
    "View": lambda words: numpy.zeros((3, words), numpy.int32)[1],
    "ArrayOfPython": lambda words: array.array("I", [0] * words),
    "Memoryview": lambda words: memoryview(bytearray(4 * words)).cast("I"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_mask_goes_into_the_callers_memory(byte_vocab, kind):
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    mask = ARRAYS[kind](matcher.mask_words)
    matcher.fill_mask(mask)
    assert {
        i
        for i in range(256)
        if numpy.asarray(mask).reshape(-1).view(numpy.uint32)[i // 32] >> (i % 32) & 1
    } == set(b"ab")


def test_rows_of_a_batch_and_padding(byte_vocab):
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    batch = numpy.full((3, matcher.mask_words + 2), -1, numpy.int32)
    matcher.fill_mask(batch, 1)
    assert (batch[0] == -1).all() and (batch[2] == -1).all() and (batch[1, -2:] == 0).all()
    assert batch[1, 3] == 6  # bits 97 and 98


class Tensor:
    """Memory with DLPack and no buffer protocol, as PyTorch's."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __dlpack__(self, **more):
        return self.numbers.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.numbers.__dlpack_device__()


def test_mask_goes_into_memory_with_dlpack(byte_vocab):
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    numbers = numpy.zeros(matcher.mask_words, numpy.int32)
    matcher.fill_mask(Tensor(numbers))
    assert numbers[3] == 6
    with pytest.raises(TypeError, match="int32 or uint32"):
        matcher.fill_mask(Tensor(numpy.zeros(matcher.mask_words, numpy.int64)))


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("rows", [None, [3, 0, 1]])
def test_masks_of_a_batch_are_those_of_each_matcher(byte_vocab, threads, rows):
    pool = tenon.MaskPool(threads)
    requests = [MASKS[row] for row in ("Regex", "Number", "Gbnf")]
    matchers = [tenon.Matcher(tenon.Grammar(byte_vocab, request)) for request, _, _ in requests]
    for matcher, (_, text, _) in zip(matchers, requests, strict=True):
        assert matcher.accept_text(text)
    batch = numpy.full((4, byte_vocab.mask_words + 2), -1, numpy.int32)
    alone = numpy.zeros(byte_vocab.mask_words + 2, numpy.int32)
    pool.fill_masks(matchers, batch, rows if rows is None else numpy.array(rows))
    for index, matcher in enumerate(matchers):
        matcher.fill_mask(alone)
        assert (batch[index if rows is None else rows[index]] == alone).all(), index
    assert (batch[3 if rows is None else 2] == -1).all()
    pool.fill_masks([], batch)
    tensor = Tensor(numpy.zeros((1, byte_vocab.mask_words), numpy.int32))
    pool.fill_masks(matchers[:1], tensor)
    assert (tensor.numbers[0] == batch[0 if rows is None else 3][:-2]).all()


BATCHES_REFUSED = {
    "NoList": (lambda m: (None, numpy.zeros((2, 64), numpy.int32)), TypeError, "sequence of"),
    "NoMatcher": (
        lambda m: ([m, 5], numpy.zeros((2, 64), numpy.int32)),
        TypeError,
        r"matchers\[1\]",
    ),
    "Twice": (lambda m: ([m, m], numpy.zeros((2, 64), numpy.int32)), ValueError, "occurs twice"),
    "FewRows": (
        lambda m: ([m, m.copy()], numpy.zeros((1, 64), numpy.int32)),
        ValueError,
        "no row 1 among 1",
    ),
    "OtherRows": (
        lambda m: ([m], numpy.zeros((1, 64), numpy.int32), [1, 2]),
        ValueError,
        "2 numbers",
    ),
    "RowTwice": (
        lambda m: ([m, m.copy()], numpy.zeros((3, 64), numpy.int32), [1, 1]),
        ValueError,
        "row 1 has two",
    ),
    "RowBelowZero": (
        lambda m: ([m], numpy.zeros((3, 64), numpy.int32), [-1]),
        IndexError,
        r"rows\[0\] is -1",
    ),
    "ShortRows": (lambda m: ([m], numpy.zeros((1, 8), numpy.int32)), ValueError, "8 words"),
    "Floats": (lambda m: ([m], numpy.zeros((1, 64))), TypeError, "int32"),
}


@pytest.mark.parametrize("row", BATCHES_REFUSED)
def test_batch_is_refused(byte_vocab, row):
    arguments, error, message = BATCHES_REFUSED[row]
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    with pytest.raises(error, match=message):
        tenon.MaskPool().fill_masks(*arguments(matcher))
    matcher.fill_mask(numpy.zeros(matcher.mask_words, numpy.int32))


def test_a_row_that_fails_leaves_the_others_alone(byte_vocab):
    # More ways to read one text than a grammar may have.
    many = 21000
    rules = "\n".join(f'r{i} ::= "a" r{i} "b" | "c"' for i in range(many))
    root = 'root ::= "x" (' + " | ".join(f"r{i}" for i in range(many)) + ")"
    wide = tenon.Matcher(
        tenon.Grammar(byte_vocab, {"grammar": f"{root}\n{rules}", "syntax": "gbnf"})
    )
    simple = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    try:
        wide.accept_text("x")
    except tenon.LimitExceededError:
        pass
    masks = numpy.full((2, byte_vocab.mask_words), -1, numpy.int32)
    with pytest.raises(tenon.LimitExceededError, match=r"matchers\[0\]: ") as raised:
        tenon.MaskPool(1).fill_masks([wide, simple], masks)
    assert list(raised.value.failed) == [0] and raised.value.failed[0] is raised.value
    assert not masks[0].any() and masks[1, 3] == 6


# The tree, its masks by node (None: empty), as parents and as first children and next siblings.
TREES = {
    "Root": ([0], [-1], [-1], [-1], [b"a"]),
    "Line": ([0, 97, 98], [-1, 0, 1], [1, 2, -1], [-1, -1, -1], [b"a", b"bc", None]),
    "Siblings": (
        [0, 97, 120, 98, 99, 98],
        [-1, 0, 0, 1, 1, 2],
        [1, 3, 5, -1, -1, -1],
        [-1, 2, -1, 4, -1, -1],
        [b"a", b"bc", None, None, None, None],
    ),
}


@pytest.mark.parametrize("row", TREES)
@pytest.mark.parametrize("kind", [list, numpy.array])
def test_a_draft_tree_has_a_mask_for_each_node(byte_vocab, row, kind):
    tokens, parents, children, siblings, expected = TREES[row]
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, {"grammar": "a[bc]", "syntax": "regex"}))
    masks = numpy.full((len(tokens), byte_vocab.mask_words), -1, numpy.int32)
    again = masks.copy()
    reached = matcher.fill_draft_masks(kind(tokens), kind(parents), masks)
    assert (
        matcher.traverse_draft_tree(kind(children), kind(siblings), kind(tokens), again) == reached
    )
    assert (masks == again).all() and matcher.accepted_count == 0
    bits = numpy.unpackbits(masks.view(numpy.uint8), axis=-1, bitorder="little")
    for node, text in enumerate(expected):
        wanted = set(text or b"")
        assert wanted == set(numpy.flatnonzero(bits[node][:256]).tolist()), node


TREES_REFUSED = {
    "Circle": (lambda m, masks: m.fill_draft_masks([0, 97, 98], [-1, 2, 1], masks), "circle"),
    "NoRoot": (
        lambda m, masks: m.fill_draft_masks([0, 97, 98], [0, 0, 1], masks),
        "first must be -1",
    ),
    "FewTokens": (lambda m, masks: m.fill_draft_masks([0, 97], [-1, 0, 1], masks), "2, 3 and 3"),
    "NodeThatIsNotThere": (
        lambda m, masks: m.traverse_draft_tree([1, 3, -1], [-1, -1, -1], [0, 97, 98], masks),
        "no node 3 behind node 1",
    ),
    "TwoParents": (
        lambda m, masks: m.traverse_draft_tree([1, 1, -1], [-1, -1, -1], [0, 97, 98], masks),
        "node 1 has two parents",
    ),
    "SiblingsInACircle": (
        lambda m, masks: m.traverse_draft_tree([1, -1, -1], [-1, 2, 1], [0, 97, 98], masks),
        "node 1 has two parents",
    ),
}


@pytest.mark.parametrize("row", TREES_REFUSED)
def test_draft_tree_is_refused(byte_vocab, row):
    call, message = TREES_REFUSED[row]
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    with pytest.raises(tenon.InvalidError, match=message):
        call(matcher, numpy.zeros((3, byte_vocab.mask_words), numpy.int32))
    assert matcher.accepted_count == 0


REFUSED = {
    "Text": ("abc", TypeError),
    "None": (None, TypeError),
    "Bytes": (bytes(1000), (TypeError, BufferError)),
    "Floats": (numpy.zeros(64, numpy.float32), TypeError),
    "Longs": (numpy.zeros(64, numpy.int64), TypeError),
    "Short": (numpy.zeros(1, numpy.int32), ValueError),
    "Rows": (numpy.zeros((2, 64), numpy.int32), ValueError),
    "Cube": (numpy.zeros((1, 1, 64), numpy.int32), ValueError),
    "Gaps": (numpy.zeros(128, numpy.int32)[::2], (ValueError, BufferError)),
    "Nothing": (numpy.zeros(0, numpy.int32), ValueError),
}


@pytest.mark.parametrize("row", REFUSED)
def test_memory_is_refused(byte_vocab, row):
    memory, error = REFUSED[row]
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    with pytest.raises(error):
        matcher.fill_mask(memory)
    matcher.fill_mask(numpy.zeros(matcher.mask_words, numpy.int32))


def test_memory_that_cannot_be_written_is_refused(byte_vocab):
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, MASKS["Regex"][0]))
    mask = numpy.zeros(matcher.mask_words, numpy.int32)
    mask.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        matcher.fill_mask(mask)
    with pytest.raises((TypeError, BufferError), match="can be written|readonly"):
        matcher.fill_mask(Tensor(mask))
    assert not mask.any()
    with pytest.raises(IndexError):
        matcher.fill_mask(numpy.zeros((2, 64), numpy.int32), 2)


def test_a_matcher_goes_forth_and_back(byte_vocab):
    matcher = tenon.Matcher(tenon.Grammar(byte_vocab, {"grammar": "abc?", "syntax": "regex"}))
    assert (
        matcher.forced_bytes() == b"ab" and not matcher.is_accepting and matcher.accepted_count == 0
    )
    assert matcher.validate_draft([97, 98, 99, 99]) == 3
    assert matcher.accept(97) and not matcher.accept(97) and matcher.accepted_count == 1
    assert matcher.tokens_to_end() == [98]
    assert matcher.accept(98) and matcher.is_accepting and not matcher.is_complete
    fork = matcher.copy()
    assert fork.accept(99) and fork.is_complete and fork.accept(256) and fork.is_finished
    matcher.rollback(1)
    assert not matcher.is_accepting and not matcher.is_finished
    with pytest.raises(tenon.InvalidError):
        matcher.rollback(2)
    matcher.reset()
    assert matcher.accepted_count == 0 and matcher.accept_text("abc")
    assert matcher.grammar.vocab is byte_vocab


def test_forced_tokens_are_those_of_the_tokenizer(vocab):
    matcher = tenon.Matcher(
        tenon.Grammar(vocab, {"grammar": '"temperature": [0-9]', "syntax": "regex"})
    )
    ids = matcher.forced_tokens()
    assert ids and '"temperature": '.startswith(vocab.decode(ids))
    assert matcher.validate_draft(ids) == len(ids)


def test_a_random_walk_is_valid(vocab):
    schema = tenon.Schema(SCHEMA)
    random = numpy.random.default_rng(7)
    for _ in range(20):
        matcher = tenon.Matcher(tenon.Grammar(vocab, {"schema": SCHEMA}))
        ids = []
        while not matcher.is_finished and len(ids) < 30:
            ids.append(int(random.choice(sorted(allowed(matcher, len(vocab))))))
            assert matcher.accept(ids[-1])
        if not matcher.is_finished:
            ends = matcher.tokens_to_end()
            assert all(matcher.accept(token) for token in ends)
            ids += ends
        text = vocab.decode([token for token in ids if token not in vocab.ends])
        assert schema.is_valid_json(text), text


REFUSED_GRAMMARS = {
    "UnknownMember": ({"schemas": {}}, tenon.InvalidError, "schemas"),
    "NoJson": ("{", tenon.InvalidError, None),
    "Unsatisfiable": (
        {"schema": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
        tenon.UnsatisfiableError,
        None,
    ),
    "UnknownSyntax": ({"grammar": "", "syntax": "yacc"}, tenon.InvalidError, "syntax"),
    "BadRegex": ({"grammar": "(", "syntax": "regex"}, tenon.InvalidError, None),
}


@pytest.mark.parametrize("row", REFUSED_GRAMMARS)
def test_grammar_is_refused(byte_vocab, row):
    request, error, names = REFUSED_GRAMMARS[row]
    with pytest.raises(error, match=names):
        tenon.Grammar(byte_vocab, request)


def test_requests_that_are_no_json_are_refused(byte_vocab):
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises((TypeError, ValueError)):
            tenon.Grammar(byte_vocab, {"schema": {"const": value}})


def test_grammar_of_tools(vocab, weather):
    grammar = tenon.Grammar.for_tools(
        vocab, tenon.Format("hermes"), {"tools": [weather], "tool_choice": "required"}
    )
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    tokens = vocab.encode(call, controls=True)
    assert tenon.Matcher(grammar).validate_draft(tokens) == len(tokens)
    for wrong in (
        call.replace("get_weather", "get_news"),
        call.replace("city", "town"),
        call.replace('"Rome"', "5"),
        "Hello",
    ):
        tokens = vocab.encode(wrong, controls=True)
        assert tenon.Matcher(grammar).validate_draft(tokens) < len(tokens), wrong


def test_printed_grammar():
    text, relaxed = tenon.print_grammar({"schema": {"enum": ["a", "b"]}}, "gbnf")
    assert "root ::=" in text and relaxed == []
    assert json.loads(tenon.print_grammar({"schema": {"type": "integer"}}, "json-schema")[0])


def test_vocab_of_tokens(byte_vocab, vocab):
    assert (
        len(byte_vocab) == 258
        and byte_vocab.ends == [256]
        and byte_vocab.bos is None
        and byte_vocab.mask_words == 9
    )
    assert (
        byte_vocab.token(65) == b"A"
        and byte_vocab.is_control(256)
        and byte_vocab.control("<|end|>") == 256
    )
    assert byte_vocab.control("<|nosuch|>") is None and byte_vocab.token(9999) == b""
    assert (
        byte_vocab.decode_bytes([0xC3, 0xA9]) == "é".encode()
        and byte_vocab.decode(numpy.array([0xC3, 0xA9])) == "é"
    )
    with pytest.raises(tenon.Error):
        byte_vocab.encode("a")
    with pytest.raises((tenon.Error, TypeError)):
        byte_vocab.decode("ab")
    assert set(vocab.with_ends([5]).ends) == {5, *vocab.ends}


TEXTS = ["", "Hello", "wörld 🌍 漢字", "a\x00b", "<|im_end|>", " \n\t" * 50]


@pytest.mark.parametrize("text", TEXTS)
def test_text_becomes_tokens_and_text_again(vocab, text):
    ids = vocab.encode(text)
    assert vocab.decode(ids) == text
    assert not any(vocab.is_control(token) for token in ids)
    if text == "<|im_end|>":
        assert vocab.encode(text, controls=True) == [vocab.control(text)]


def test_vocab_of_files(tmp_path):
    with pytest.raises(tenon.UnavailableError):
        tenon.Vocab.load(tmp_path / "nosuch.gguf")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(tenon.Error, match="tokenizer"):
        tenon.Vocab.load(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TypeError):
        tenon.Vocab.load(5)


def test_handles_live_as_long_as_what_was_made_of_them():
    made = tenon.Vocab(BYTES, [256])
    matcher = tenon.Matcher(tenon.Grammar(made, MASKS["Regex"][0]))
    del made
    gc.collect()
    assert matcher.accept(97)


def test_threads_share_a_grammar(vocab):
    grammar = tenon.Grammar(vocab, {"schema": SCHEMA})
    expected = allowed(tenon.Matcher(grammar), len(vocab))
    wrong = []

    def work():
        for _ in range(200):
            matcher = tenon.Matcher(grammar)
            if allowed(matcher, len(vocab)) != expected or not matcher.accept_text('{"city": "'):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(os.cpu_count() + 2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_a_matcher_refuses_a_second_thread(vocab):
    """Whatever the threads do, each call works or is refused: nothing is torn."""
    matcher = tenon.Matcher(tenon.Grammar(vocab, {"schema": SCHEMA}))
    matcher.accept_text('{"city": "')
    outcomes, stop = [], threading.Event()

    def work():
        mask = numpy.zeros(matcher.mask_words, numpy.int32)
        while not stop.is_set():
            try:
                matcher.fill_mask(mask)
                outcomes.append(mask.any())
            except RuntimeError as error:
                outcomes.append("another thread" in str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    stop.wait(0.5)
    stop.set()
    [thread.join() for thread in threads]
    assert all(outcomes) and len(outcomes) > 10
