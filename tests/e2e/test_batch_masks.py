"""Masks of batches and of trees of guessed tokens through libtenon.so, as an engine in another language asks for them."""
import ctypes as c

import pytest
from serving import TENON

LIBRARY = TENON.parent.parent / "lib/libtenon.so"
WORDS = 12  # more than the vocabulary needs


class Text(c.Structure):
    _fields_ = [("data", c.c_char_p), ("size", c.c_size_t)]


class Token(c.Structure):
    _fields_ = [("bytes", Text), ("kind", c.c_int)]


def text(said):
    return Text(said, len(said))


class Library:
    def __init__(self):
        self.c = c.CDLL(str(LIBRARY))
        self.c.tenon_error_message.restype = Text
        self.c.tenon_error_message.argtypes = [c.c_void_p]
        self.c.tenon_matcher_accepted_count.restype = c.c_size_t

    def told(self, name, *arguments):
        function = getattr(self.c, name)
        function.restype = c.c_void_p
        error = function(*(c.c_size_t(each) if isinstance(each, int) else each for each in arguments))
        return "ok" if not error else self.c.tenon_error_message(error).data.decode()

    def made(self, name, *arguments):
        made = c.c_void_p()
        assert self.told(name, *arguments, c.byref(made)) == "ok"
        return made

    def alone(self, matcher):
        mask = (c.c_uint32 * WORDS)()
        assert self.told("tenon_matcher_fill_mask", matcher, mask, WORDS) == "ok"
        return list(mask)


@pytest.fixture(scope="module")
def library():
    if not LIBRARY.exists() or b"__asan_init" in LIBRARY.read_bytes():
        pytest.skip(f"{LIBRARY} is missing or sanitised")
    return Library()


@pytest.fixture(scope="module")
def grammars(library):
    tokens = (Token * 258)(*(Token(text(bytes([byte])), 0) for byte in range(256)), Token(text(b"ab"), 0),
                           Token(text(b"<|end|>"), 1))
    vocab = library.made("tenon_vocab_new", tokens, 258, (c.c_int32 * 1)(257), 1)
    return [library.made("tenon_grammar_compile", vocab, text(b'{"grammar": "%s", "syntax": "regex"}' % pattern))
            for pattern in (b"1+2", b"a+b", b"[xy]{3}z", b"ab|ac")]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("rows", [None, [7, 0, 3, 6, 1]])
def test_masks_of_a_batch_are_those_of_each_matcher(library, grammars, threads, rows):
    pool = library.made("tenon_mask_pool_new", threads)
    matchers = [library.made("tenon_matcher_new", grammars[i % 4]) for i in range(5)]
    assert library.c.tenon_matcher_accept_bytes(matchers[4], text(b"11")) == 1
    masks = (c.c_uint32 * (8 * WORDS))(*[0xFFFFFFFF] * (8 * WORDS))
    errors = (c.c_void_p * 5)()
    assert library.told("tenon_mask_pool_fill_masks", pool, (c.c_void_p * 5)(*matchers), 5, masks, 8, WORDS,
                        (c.c_size_t * 5)(*rows) if rows else None, errors) == "ok"
    filled = rows or list(range(5))
    for matcher, row in zip(matchers, filled, strict=True):
        assert list(masks[row * WORDS:(row + 1) * WORDS]) == library.alone(matcher), row
    assert all(masks[row * WORDS] == 0xFFFFFFFF for row in range(8) if row not in filled)
    assert not any(errors)
    library.c.tenon_mask_pool_free(pool)


# What is refused: matchers by number (None: NULL), rows of the mask, its words, the row of each matcher, the message.
REFUSED = {
    "Twice": ([0, 0], 2, WORDS, None, "matchers[0]: occurs twice, and a text has one row"),
    "Null": ([None], 2, WORDS, None, "matchers[0]: is NULL"),
    "RowTwice": ([0, 1], 2, WORDS, [1, 1], "rows: row 1 has two matchers"),
    "NoSuchRow": ([0, 1], 2, WORDS, [1, 2], "rows: there is no row 2 among 2"),
    "Short": ([0], 2, 5, None, "mask: has 5 words, and the vocabulary needs 9"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_batch_is_refused(library, grammars, row):
    numbers, mask_rows, words, rows, message = REFUSED[row]
    pool = library.made("tenon_mask_pool_new", 1)
    matchers = [library.made("tenon_matcher_new", grammars[i]) for i in range(2)]
    given = (c.c_void_p * len(numbers))(*(None if i is None else matchers[i].value for i in numbers))
    assert library.told("tenon_mask_pool_fill_masks", pool, given, len(numbers), (c.c_uint32 * (2 * WORDS))(),
                        mask_rows, words, (c.c_size_t * len(rows))(*rows) if rows else None, None) == message
    library.c.tenon_mask_pool_free(pool)


def test_a_draft_tree_has_a_mask_for_each_node(library, grammars):
    matcher = library.made("tenon_matcher_new", grammars[3])
    tokens = (c.c_int32 * 6)(0, 97, 98, 120, 98, 99)
    masks = (c.c_uint32 * (6 * WORDS))(*[0xFFFFFFFF] * (6 * WORDS))
    reached = c.c_size_t()
    assert library.told("tenon_matcher_fill_draft_masks", matcher, tokens, (c.c_int32 * 6)(-1, 0, 1, 1, 3, 1), 6,
                        masks, WORDS, c.byref(reached)) == "ok"
    assert reached.value == 4 and library.c.tenon_matcher_accepted_count(matcher) == 0
    allowed = [[i for i in range(32 * WORDS) if masks[node * WORDS + i // 32] >> i % 32 & 1] for node in range(6)]
    assert allowed == [[97, 256], [98, 99], [257], [], [], [257]]
    circle = (c.c_int32 * 6)(-1, 2, 1, 1, 3, 1)
    assert "circle" in library.told("tenon_matcher_fill_draft_masks", matcher, tokens, circle, 6, masks, WORDS, None)
    assert not any(masks)
