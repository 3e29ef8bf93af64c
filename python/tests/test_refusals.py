"""An error about an argument is a sentence: what is wrong, where, and what to do; never the words of the binding."""

import pickle
import re
import threading

import numpy
import pytest
import tenon

BYTES = [bytes([b]) for b in range(256)] + [("<|end|>", True)]
LONE = "caf\udce9"  # of a file's name or line that was no UTF-8


@pytest.fixture(scope="module")
def vocab():
    return tenon.Vocab(BYTES, [256])


@pytest.fixture(scope="module")
def grammar(vocab):
    return tenon.Grammar(vocab, {"grammar": "[ab]{3}", "syntax": "regex"})


@pytest.fixture(scope="module")
def service():
    with tenon.Service() as opened:
        yield opened


def gives(numbers):
    yield from numbers


async def gives_later(numbers):
    for number in numbers:
        yield number


class Clock:
    def time(self, zone: str):
        """The time."""

    def __call__(self):
        yield 1


# A call, the exception, and how its sentence begins or what stands in it.
ROWS = {
    "TokenOfAnotherType": (
        lambda o: tenon.Vocab([b"a", 5], []),
        TypeError,
        r"tokens\[1\] must be bytes, str, a pair \(bytes, is_control\) or None, not int",
    ),
    "TokenThatIsNoPair": (
        lambda o: tenon.Vocab([("x",)], []),
        TypeError,
        r"tokens\[0\] must be a pair of bytes and whether",
    ),
    "TokenOfNoBytes": (
        lambda o: tenon.Vocab([(5, True)], []),
        TypeError,
        r"tokens\[0\] must be a str or bytes, not int",
    ),
    "TokenThatIsNoUnicode": (
        lambda o: tenon.Vocab(["\ud800"], []),
        tenon.InvalidError,
        r"tokens\[0\] has half of a surrogate pair as character 0",
    ),
    "TokensAreNone": (
        lambda o: tenon.Vocab(None, []),
        TypeError,
        "a sequence of tokens by id is wanted, not None",
    ),
    "NoTokens": (lambda o: tenon.Vocab([], []), tenon.InvalidError, "the vocabulary has no tokens"),
    "EndsAreNoSequence": (
        lambda o: tenon.Vocab([b"a"], 5),
        TypeError,
        "ends must be a sequence of int, not int",
    ),
    "EndIsNoInt": (
        lambda o: o.vocab.with_ends(["a"]),
        TypeError,
        r"ends\[0\] must be an int, not str",
    ),
    "EndIsNoToken": (lambda o: o.vocab.with_ends([9999]), tenon.InvalidError, "9999"),
    "VocabWithoutEnds": (
        lambda o: tenon.Grammar(tenon.Vocab(BYTES, []), {"schema": True}),
        tenon.InvalidError,
        r"name it by with_ends\(\)$",
    ),
    "IdsAreAText": (lambda o: o.vocab.decode("ab"), TypeError, r"ids\[0\] must be an int, not str"),
    "IdIsLarge": (
        lambda o: o.vocab.decode([0, 2**40]),
        tenon.InvalidError,
        r"ids\[1\] is 1099511627776, and ids are from 0",
    ),
    "GrammarIsNone": (
        lambda o: tenon.Matcher(None),
        TypeError,
        "a tenon.Grammar is wanted, not None",
    ),
    "GrammarIsAnInt": (lambda o: tenon.Matcher(5), TypeError, "a tenon.Grammar is wanted, not int"),
    "GrammarIsAVocab": (
        lambda o: tenon.Matcher(o.vocab),
        TypeError,
        "a tenon.Grammar is wanted, not (tenon._tenon.)?Vocab",
    ),
    "VocabIsAGrammar": (
        lambda o: tenon.Grammar(o.grammar, {}),
        TypeError,
        "a tenon.Vocab is wanted",
    ),
    "VocabIsNotMade": (
        lambda o: tenon.Grammar(tenon.Vocab.__new__(tenon.Vocab), {}),
        TypeError,
        "a tenon.Vocab is wanted",
    ),
    "RequestIsNone": (
        lambda o: tenon.Grammar(o.vocab, None),
        TypeError,
        "a dict, a list or the text of some JSON is wanted, not None",
    ),
    "SchemaIsNone": (lambda o: tenon.Schema(None), TypeError, "not None"),
    "ToolIsNone": (lambda o: tenon.Mender(None), TypeError, "not None"),
    "ValidatedAgainstNone": (lambda o: tenon.validate(5, None), TypeError, "not None"),
    "SchemaHoldsASet": (lambda o: tenon.Schema({"enum": {1}}), TypeError, "set"),
    "MatcherTokenIsLarge": (
        lambda o: tenon.Matcher(o.grammar).accept(2**70),
        tenon.InvalidError,
        "a token id is 1180591620717411303424, and ids are",
    ),
    "MatcherTokenIsNoInt": (
        lambda o: tenon.Matcher(o.grammar).accept("a"),
        TypeError,
        "a token id must be an int, not str",
    ),
    "MatcherTokenIsAFloat": (
        lambda o: tenon.Matcher(o.grammar).accept(97.0),
        TypeError,
        "a token id must be an int, not float",
    ),
    "DraftIsNone": (
        lambda o: tenon.Matcher(o.grammar).validate_draft(None),
        TypeError,
        "tokens must be a sequence of int, not None",
    ),
    "RollbackBehind": (
        lambda o: tenon.Matcher(o.grammar).rollback(-1),
        tenon.InvalidError,
        "-1 is no number of things",
    ),
    "RollbackTooFar": (
        lambda o: tenon.Matcher(o.grammar).rollback(2**70),
        tenon.InvalidError,
        "only 0 were accepted",
    ),
    "TextIsNoUnicode": (
        lambda o: tenon.Matcher(o.grammar).accept_text(LONE),
        tenon.InvalidError,
        "a text has half of a surrogate pair as character 3.*surrogateescape",
    ),
    "TextIsNone": (
        lambda o: tenon.Matcher(o.grammar).accept_text(None),
        TypeError,
        "a text must be a str or bytes, not None",
    ),
    "NoRoomToTheEnd": (
        lambda o: tenon.Matcher(o.grammar).tokens_to_end(1),
        tenon.LimitExceededError,
        "the end takes 3 tokens, and there is room for 1",
    ),
    "RowBeforeTheFirst": (
        lambda o: tenon.Matcher(o.grammar).fill_mask(numpy.zeros((1, 9), numpy.int32), -3),
        IndexError,
        "row is -3",
    ),
    "MaskOfNothing": (
        lambda o: tenon.Matcher(o.grammar).fill_mask("abc"),
        TypeError,
        "can be written and has no gaps; this is a str",
    ),
    "FedWithNoUnicode": (
        lambda o: tenon.StreamParser("hermes").feed(LONE),
        tenon.InvalidError,
        "surrogate",
    ),
    "FedWithAnInt": (
        lambda o: tenon.StreamParser("hermes").feed(5),
        TypeError,
        "a text must be a str or bytes, not int",
    ),
    "FormatIsAnInt": (
        lambda o: tenon.StreamParser(5),
        TypeError,
        "a tenon.Format, or the name of one, is wanted, not int",
    ),
    "FormatIsUnknown": (lambda o: tenon.StreamParser("nosuch"), tenon.UnsupportedError, "nosuch"),
    "CallsWithoutFunction": (
        lambda o: tenon.Format("hermes").render_calls([{"name": "x"}]),
        tenon.InvalidError,
        r'"name" is not a field of calls\[0\]',
    ),
    "MendedToolIsEmpty": (
        lambda o: tenon.repair("{", {}),
        tenon.InvalidError,
        "^tool.type is required",
    ),
    "ValidatedTextIsNoUnicode": (
        lambda o: tenon.validate(LONE, {}),
        tenon.InvalidError,
        "surrogate",
    ),
    "PatternIsQuoted": (
        lambda o: tenon.Schema({"pattern": "(" * 100_000}),
        tenon.InvalidError,
        "bytes left out",
    ),
    "MessagesAreAText": (
        lambda o: o.service.chat("hello"),
        TypeError,
        "messages must be a list of messages.*not str",
    ),
    "MessagesAreNoUnicode": (
        lambda o: o.service.chat([{"role": "user", "content": LONE}]),
        tenon.InvalidError,
        "surrogate",
    ),
    "WholeAndStreamed": (
        lambda o: o.service.chat([], stream=True),
        TypeError,
        r"stream\(\) gives it as it comes",
    ),
    "EngineIsNoFunction": (
        lambda o: o.service.add_engine("a", 5, o.vocab),
        TypeError,
        "generate must be a function",
    ),
    "EngineWithoutVocab": (
        lambda o: o.service.add_engine("a", gives, None),
        TypeError,
        "a tenon.Vocab is wanted, not None",
    ),
    "PortIsNone": (
        lambda o: o.service.listen(port=70_000),
        ValueError,
        "port must be from 0 to 65535",
    ),
    "ConversationWithNobody": (
        lambda o: tenon.Conversation(None),
        TypeError,
        "a conversation is with a tenon.Service, not NoneType",
    ),
    "NoRounds": (
        lambda o: tenon.Conversation(o.service, max_rounds=0),
        ValueError,
        "max_rounds must be from 1 on",
    ),
    "FoldedIsNoEvent": (lambda o: tenon.Fold().add(5), TypeError, "an event is wanted, not int"),
    "ProcessorOfAVocab": (
        lambda o: tenon.LogitsProcessor(o.vocab),
        TypeError,
        "grammar must be a tenon.Grammar",
    ),
    "ToolIsNoFunction": (lambda o: tenon.tool(5), TypeError, "a tool is a function, not int"),
    "ToolIsAGenerator": (
        lambda o: tenon.tool(gives),
        TypeError,
        r"gives\(\) is a generator.*return a list",
    ),
    "ToolIsAnAsyncGenerator": (
        lambda o: tenon.Toolbox([gives_later]),
        TypeError,
        r"gives_later\(\) is a generator",
    ),
    "ToolIsAnObjectThatGenerates": (
        lambda o: tenon.Toolbox().add(Clock(), parameters={}),
        TypeError,
        r"Clock\(\) is a generator",
    ),
    "ToolIsAMethodOfNoObject": (
        lambda o: tenon.tool(Clock.time),
        TypeError,
        r"Clock.time\(\) is a method of no object.*Clock\(\.\.\.\).time",
    ),
    "ToolTellsNoParameters": (lambda o: tenon.tool(int), TypeError, "does not tell its parameters"),
    "ToolHasNoName": (
        lambda o: tenon.Toolbox().add(lambda: 1, name=""),
        TypeError,
        "'' cannot be the name of a tool",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_refusal(row, vocab, grammar, service):
    class Objects:
        pass

    objects = Objects()
    objects.vocab, objects.grammar, objects.service = vocab, grammar, service
    call, error, sentence = ROWS[row]
    with pytest.raises(error) as raised:
        call(objects)
    told = str(raised.value)
    assert re.search(sentence, told, re.DOTALL), told
    assert len(told) < 2500 and not re.search(
        "incompatible function|bad_cast|Invoked with|NULL|tenon_|vector", told
    ), told


FILES = {
    "Vocab": tenon.Vocab.load,
    "ChatTemplate": tenon.ChatTemplate.load,
    "Service": tenon.Service.load,
    "Serve": lambda path: tenon.serve(path),
}


@pytest.mark.parametrize("name", ["nosuch.gguf", "nosuch.toml", "nosuch.json", "nosuch"])
@pytest.mark.parametrize("row", FILES)
def test_a_file_that_is_not_there(row, name, tmp_path):
    with pytest.raises(
        tenon.UnavailableError, match=f"{name}: No such file or directory$"
    ) as error:
        FILES[row](tmp_path / name)
    assert isinstance(error.value, OSError)
    for wrong in ("", "a\0b"):
        with pytest.raises(tenon.InvalidError, match="path"):
            FILES[row](wrong)


def test_names_of_files_may_be_no_unicode(tmp_path):
    with pytest.raises(tenon.UnavailableError, match="No such file"):
        tenon.Vocab.load(str(tmp_path) + "/caf\udce9")


def test_a_file_that_is_no_configuration(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"\x7fELF\0")
    with pytest.raises(
        tenon.InvalidError, match="it is read as a configuration, since it is no .gguf file"
    ):
        tenon.Service.load(tmp_path / "model.bin")


def test_numbers_of_numpy_are_ids(vocab, grammar):
    matcher = tenon.Matcher(grammar)
    assert matcher.accept(numpy.int64(97)) and matcher.validate_draft(numpy.array([98, 98])) == 2
    assert (
        vocab.token(numpy.int32(97)) == b"a"
        and not matcher.accept(-1)
        and not matcher.accept(99999)
    )


def test_room_for_more_than_there_is(grammar):
    """What is asked for is not what is set aside."""
    matcher = tenon.Matcher(grammar)
    for most in (3, 2**40, 2**62, 2**70):
        assert len(matcher.tokens_to_end(most)) == 3
    assert matcher.accept_text("ab") and tenon.Matcher(grammar).forced_bytes(2**62) == b""
    assert (
        matcher.tokens_to_end(1) in ([97], [98])
        and matcher.accept(97)
        and matcher.tokens_to_end(0) == []
    )


def test_a_lock_is_let_go_of_where_work_is_long(vocab):
    """Another thread runs while a large value is looked at."""
    schema = tenon.Schema({"type": "array", "items": {"type": "integer"}})
    text = "[" + "1," * 2_000_000 + "1]"
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.is_set():
            ticks.append(1)
            is_over.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    assert schema.is_valid_json(text)
    during = len(ticks) - before
    is_over.set()
    thread.join()
    assert during >= 3


# A call, and the path and line of its error.
PLACES = {
    "Schema": (lambda o: tenon.Schema({"items": {"minimum": "a"}}), "/items/minimum", 0),
    "TextThatIsNoJson": (lambda o: tenon.Schema("{\n1"), "schema", 2),
    "Option": (lambda o: tenon.Schema({}, {"drafts": 7}), "drafts", 0),
    "Tool": (
        lambda o: tenon.Mender({"type": "function", "function": {}}),
        "tool.function.name",
        0,
    ),
    "Lark": (
        lambda o: tenon.Grammar(o["vocab"], {"grammar": 'start: "a"\n  other', "syntax": "lark"}),
        "",
        2,
    ),
    "Template": (lambda o: tenon.ChatTemplate("a\n{{ b"), "", 2),
    "Request": (
        lambda o: o["service"].chat([{"role": "user", "content": "a"}], temperature="a"),
        "temperature",
        0,
    ),
    "NoPlace": (lambda o: o["vocab"].encode("a"), "", 0),
}


@pytest.mark.parametrize("name", PLACES)
def test_an_error_tells_its_place(name, vocab, service):
    call, path, line = PLACES[name]
    with pytest.raises(tenon.Error) as told:
        call({"vocab": vocab, "service": service})
    assert (told.value.path, told.value.line) == (path, line)
    again = pickle.loads(pickle.dumps(told.value))
    assert (type(again), str(again), again.path) == (type(told.value), str(told.value), path)
