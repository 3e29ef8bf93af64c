"""Conversations and toolboxes, in threads and tasks."""

import asyncio
import dataclasses
import datetime
import enum
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy
import pytest
import tenon
from tenon import CallBegin, ContentDelta, Conversation, Finish, Toolbox


class Script:
    """A model that says its lines, one an answer: text, or a list of calls (name, arguments)."""

    def __init__(self, model, vocab, slow=0.0):
        self.lines, self.prompts, self.vocab, self.slow = [], [], vocab, slow
        self.service = tenon.Service(f'[[model]]\nname = "tiny"\npath = "{model}"\n')
        self.service.add_engine(
            "script", self.generate, vocab, tenon.ChatTemplate.load(model), context_tokens=8192
        )

    def generate(self, prompt, request, matcher):
        self.prompts.append(self.vocab.decode(prompt))
        line = self.lines.pop(0)
        if not isinstance(line, str):
            line = "\n".join(
                "<tool_call>\n"
                + json.dumps({"name": name, "arguments": arguments})
                + "\n</tool_call>"
                for name, arguments in line
            )
        for token in self.vocab.encode(line, controls=True):
            time.sleep(self.slow)
            yield token
        yield self.vocab.control("<|im_end|>")

    def talk(self, *lines, **options):
        self.lines[:] = lines
        self.prompts.clear()
        return Conversation(self.service, model="script", **options)


@pytest.fixture(scope="module")
def script(model, vocab):
    made = Script(model, vocab)
    yield made
    made.service.close()


@pytest.fixture
def slow_script(model, vocab):
    made = Script(model, vocab, slow=0.05)
    yield made
    made.service.close()


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


def test_turns(script):
    talk = script.talk("Hi.", "Again.", system="Be brief.")
    turn = talk.send("Hello")
    assert (turn.content, turn.tool_calls, turn.finish_reason, turn.rounds) == (
        "Hi.",
        [],
        "stop",
        1,
    )
    assert "Be brief." in script.prompts[0] and turn.usage["completion_tokens"] > 0
    assert talk.send({"role": "user", "content": "Hello again"}).content == "Again."
    assert "Hi." in script.prompts[1]
    assert [message["role"] for message in talk.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    talk.reset()
    assert len(talk.messages) == 1


def test_tools_are_run(script):
    seen = []

    def add(a: int, b: int = 1) -> int:
        """Add."""
        seen.append(("add", a, b))
        return a + b

    def place(point: Point) -> Point:
        seen.append(("place", point))
        return point

    talk = script.talk(
        [("add", {"a": 2}), ("place", {"point": {"x": 5}})], "Done.", tools=[add, place]
    )
    events = []
    answer = talk.stream("Go")
    for event in answer:
        events.append(event)
    turn = answer.result()
    assert (
        sorted(seen, key=str) == [("add", 2, 1), ("place", Point(5))]
        and turn.content == "Done."
        and turn.rounds == 2
    )
    assert [event.name for event in events if isinstance(event, CallBegin)] == ["add", "place"]
    assert (
        "".join(event.text for event in events if isinstance(event, ContentDelta)).strip()
        == "Done."
    )
    assert isinstance(events[-1], Finish) and events[-1].reason == "stop"
    results = [message["content"] for message in talk.messages if message["role"] == "tool"]
    assert [json.loads(result) for result in results] == [3, {"x": 5, "y": 0}]


def fails(a: int):
    raise KeyError("nowhere")


def returns_bytes(a: int):
    return b"bytes"


def returns_nothing(a: int):
    pass


async def later(a: int):
    await asyncio.sleep(0.01)
    return {"a": a, "of": [1]}


async def fails_later(a: int):
    raise ValueError("too late")


def takes_wrong(a: int):
    raise AssertionError("it must not be called")


@dataclasses.dataclass
class Reading:
    at: datetime.date
    value: float


class Opaque:
    pass


def returns_nan(a: int):
    return {"mean": float("nan"), "all": [1.5, float("-inf")]}


def returns_numbers(a: int):
    return {
        "of": numpy.array([1.0, float("nan")]),
        "count": numpy.int64(3),
        "day": Reading(datetime.date(2026, 1, 2), 0.5),
        "kind": {Kind.one},
    }


class Kind(enum.Enum):
    one = "1"


def returns_an_object(a: int):
    return [Opaque()]


def returns_a_generator(a: int):
    return (each for each in range(3))


def returns_itself(a: int):
    result = []
    result.append(result)
    return result


def returns_half_a_character(a: int):
    return "caf\udce9"


RESULTS = {
    "Nan": (returns_nan, {"a": 1}, '{"mean":null,"all":[1.5,null]}'),
    "Values": (
        returns_numbers,
        {"a": 1},
        '{"of":[1.0,null],"count":3,"day":{"at":"2026-01-02","value":0.5},"kind":["1"]}',
    ),
    "Object": (
        returns_an_object,
        {"a": 1},
        "Error: TypeError: the tool's result has a Opaque, which has no JSON: give a str, numbers, lists, dicts",
    ),
    "Generator": (
        returns_a_generator,
        {"a": 1},
        "Error: TypeError: the tool's result has a generator, which has no JSON: give a str, numbers, lists, dicts",
    ),
    "Endless": (
        returns_itself,
        {"a": 1},
        "Error: ValueError: the tool's result is more than 200 levels deep, or holds itself",
    ),
    "NoUnicode": (
        returns_half_a_character,
        {"a": 1},
        "Error: InvalidError: a text has half of a surrogate pair as character 3, which is no Unicode: "
        'take it out, or give bytes, text.encode(errors="surrogateescape") of one that came from a file\'s bytes',
    ),
    "Partial": (functools.partial(lambda a, key: f"{key} {a}", key="secret"), {"a": 1}, "secret 1"),
    "Raises": (fails, {"a": 1}, "Error: KeyError: 'nowhere'"),
    "Bytes": (returns_bytes, {"a": 1}, "bytes"),
    "None": (returns_nothing, {"a": 1}, "null"),
    "Coroutine": (later, {"a": 1}, '{"a":1,"of":[1]}'),
    "CoroutineRaises": (fails_later, {"a": 1}, "Error: ValueError: too late"),
}


@pytest.mark.parametrize("how", ["thread", "task"])
@pytest.mark.parametrize("row", RESULTS)
def test_what_tools_give(script, row, how):
    function, arguments, expected = RESULTS[row]
    tools = Toolbox()
    tools.add(function, name="tool")
    talk = script.talk([("tool", arguments)], "Done.", tools=tools)
    turn = talk.send("Go") if how == "thread" else asyncio.run(talk.asend("Go"))
    assert turn.content == "Done."
    assert [message["content"] for message in talk.messages if message["role"] == "tool"] == [
        expected
    ]


def test_coroutines_run_in_the_loop_that_asks(script):
    loops = []

    async def where(a: int = 0):
        loops.append(asyncio.get_running_loop())
        return "here"

    async def ask():
        await script.talk([("where", {})], "Done.", tools=[where]).asend("Go")
        return asyncio.get_running_loop()

    assert loops == [asyncio.run(ask())]


def test_coroutines_run_wherever_the_question_comes_from(script):
    """First a task asks, then its loop's own thread, which waits for the answer."""

    async def where(a: int = 0):
        await asyncio.sleep(0)
        return "here"

    async def ask():
        talk = script.talk(
            [("where", {})],
            "Done.",
            [("where", {})],
            "Done.",
            tools=Toolbox([where], time_limit_s=5),
        )
        await talk.asend("Go")
        talk.send("Go")
        return [message["content"] for message in talk.messages if message["role"] == "tool"]

    assert asyncio.run(ask()) == ["here", "here"]


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "function", "function": {"name": "where"}}],
    ids=["required", "named"],
)
def test_a_choice_of_a_tool_of_the_toolbox(script, choice):
    def where(a: int = 0):
        return "here"

    talk = script.talk([("where", {})], "Done.", tools=[where], tool_choice=choice)
    turn = talk.send("Go")
    assert (turn.content, turn.rounds) == ("Done.", 2)
    with pytest.raises(tenon.InvalidError, match="nosuch"):
        script.talk(
            "Hi.", tools=[where], tool_choice={"type": "function", "function": {"name": "nosuch"}}
        ).send("Go")


def test_results_of_tools_are_saved_while_others_wait(script, weather):
    runs = []

    def where(a: int = 0):
        runs.append(1)
        return "here it is"

    talk = script.talk(
        [("where", {}), ("get_weather", {"city": "Rome"})],
        "Done.",
        tools=[where],
        request_tools=[weather],
    )
    [call] = talk.send("Go").tool_calls
    saved = json.loads(json.dumps(talk.save()))
    again = Conversation(
        script.service, model="script", tools=[where], request_tools=[weather], saved=saved
    )
    assert again.pending == [call]
    assert again.submit({call["id"]: "sun"}).content == "Done." and len(runs) == 1
    assert [message["content"] for message in again.messages if message["role"] == "tool"] == [
        "here it is",
        "sun",
    ]


def test_arguments_that_do_not_fit_reach_no_function(script):
    tools = Toolbox()
    tools.add(takes_wrong, strict=False)
    talk = script.talk([("takes_wrong", {"b": [1]})], "Sorry.", tools=tools)
    assert talk.send("Go").content == "Sorry."
    [result] = [message["content"] for message in talk.messages if message["role"] == "tool"]
    assert "a" in result


@pytest.mark.parametrize("how", ["by id", "as messages", "task"])
def test_results_of_the_caller(script, weather, how):
    """A tool of the request, and none of a toolbox: its calls are told."""
    talk = script.talk(
        [("get_weather", {"city": "Rome"})],
        "Sun.",
        [("get_weather", {"city": "Oslo"})],
        "Well.",
        request_tools=[weather],
    )
    [call] = talk.send("Go").tool_calls
    assert call["function"]["name"] == "get_weather" and talk.pending == [call]
    with pytest.raises(tenon.Error, match=call["id"]):
        talk.send("Never mind")
    with pytest.raises(tenon.Error):
        talk.submit({"nosuch": "x"})
    if how == "by id":
        turn = talk.submit({call["id"]: {"sky": "blue"}})
    elif how == "as messages":
        turn = talk.submit([{"tool_call_id": call["id"], "content": '{"sky":"blue"}'}])
    else:
        turn = asyncio.run(talk.asubmit({call["id"]: {"sky": "blue"}}))
    assert turn.content == "Sun." and '{"sky":"blue"}' in script.prompts[1] and not talk.pending
    talk.send("And Oslo?")
    talk.dismiss("no time")
    assert talk.send("Then not.").content == "Well." and "no time" in script.prompts[3]


def test_two_loops_one_conversation(slow_script):
    talk = slow_script.talk("One two three four five six.", "Again.")
    answer = iter(talk.stream("Hello"))
    next(answer)
    with pytest.raises(RuntimeError, match="waits"):
        talk.send("Hello")
    with pytest.raises(RuntimeError, match="waits"):
        talk.messages
    answer.close()  # cancels
    assert talk.send("Hello").content == "Again."


@pytest.mark.parametrize("how", ["thread", "task"])
def test_cancel(slow_script, how):
    talk = slow_script.talk("word " * 400, "Again.")
    begun = time.monotonic()
    if how == "thread":
        answer = talk.stream("Hello")
        threading.Timer(0.3, answer.cancel).start()
        assert answer.result().finish_reason == "cancelled"
    else:

        async def ask():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(talk.asend("Hello"), 0.3)

        asyncio.run(ask())
    assert time.monotonic() - begun < 3
    assert talk.send("Hello").content == "Again."


@pytest.mark.parametrize("how", ["thread", "task"])
def test_cancel_before_it_begins(script, how):
    async def wait(answer):
        return await answer

    talk = script.talk("Hi.")
    answer = talk.stream("Hello")
    answer.cancel()
    turn = answer.result() if how == "thread" else asyncio.run(wait(answer))
    assert turn.finish_reason == "cancelled" and script.prompts == [] and talk.messages == []
    assert talk.send("Hello").content == "Hi."


def test_a_loop_is_left(slow_script):
    async def ask():
        talk = slow_script.talk("word " * 400, "Again.")
        async for _ in talk.stream("Hello"):
            break
        await asyncio.sleep(0.3)
        return await talk.asend("Hello")

    assert asyncio.run(ask()).content == "Again."


def test_branches_and_saving(script):
    talk = script.talk("Hi.", "Left.", "Right.", "Restored.")
    talk.send("Hello")
    branch = talk.copy()
    assert (talk.send("a").content, branch.send("b").content) == ("Left.", "Right.")
    assert len(talk.messages) == len(branch.messages) == 4 and talk.messages != branch.messages
    saved = json.loads(json.dumps(talk.save()))
    again = Conversation(script.service, model="script", saved=saved)
    assert again.messages == talk.messages and again.send("c").content == "Restored."
    with pytest.raises(tenon.Error):
        Conversation(script.service, model="script", saved={"version": 99, "messages": []})


def test_refused_requests(script):
    for wrong in (
        {"model": "nosuch"},
        {"model": "script", "nobody_knows": 1, "temperature": "hot"},
    ):
        with pytest.raises(tenon.Error):
            Conversation(script.service, **wrong).send("x")
    talk = script.talk("Hi.")
    with pytest.raises(tenon.Error):
        talk.send({"role": "nosuch", "content": "x"})
    assert talk.messages == [] and talk.send("x").content == "Hi."  # what fails changes nothing


def test_toolbox():
    tools = Toolbox(max_concurrent=2)

    @tools.tool
    def one(a: int):
        """One."""

    tools.add(
        lambda **arguments: arguments, name="any", description="Any.", parameters={"type": "object"}
    )
    assert [tool["function"]["name"] for tool in tools.tools()] == [
        "one",
        "any",
    ] and one.__name__ == "one"
    with pytest.raises(tenon.Error):
        tools.add(one, name="bad name!", parameters={})
    with pytest.raises(tenon.Error, match="nosuch"):
        Toolbox(nosuch=1)
    tools.close()
    with pytest.raises(ValueError, match="closed"):
        tools.tools()


@pytest.mark.parametrize("when", ["an answer comes", "a tool runs", "a task waits"])
def test_a_toolbox_is_closed(slow_script, when):
    """The answer that uses it is cancelled, wherever it is, and the conversation goes on."""
    runs = threading.Event()

    def wait(a: int = 0):
        runs.set()
        time.sleep(0.5)

    tools = Toolbox([wait])
    talk = slow_script.talk([("wait", {})], "Done.", tools=tools)
    if when == "a task waits":

        async def ask():
            task = asyncio.ensure_future(talk.asend("Go"))
            await asyncio.to_thread(runs.wait, 10)
            await asyncio.to_thread(tools.close)
            return await task

        assert asyncio.run(ask()).finish_reason in {"cancelled", "tool_calls"}
    else:
        answer = talk.stream("Go")
        events = iter(answer)
        next(events)
        if when == "a tool runs":
            assert runs.wait(10)
        tools.close()
        for _ in events:
            pass
        assert answer.result().finish_reason in {"cancelled", "tool_calls"}
    with pytest.raises(ValueError, match="closed"):
        talk.send("Again")
    talk.tools = None
    talk.dismiss("closed")
    slow_script.lines[:] = ["Done."]
    assert talk.send("Again").content == "Done."


def test_a_tool_closes_its_own_toolbox(script):
    def shut(a: int = 0):
        tools.close()

    tools = Toolbox([shut])
    talk = script.talk([("shut", {})], "Done.", tools=tools)
    assert talk.send("Go").content == "Done."
    [result] = [message["content"] for message in talk.messages if message["role"] == "tool"]
    assert result.startswith("Error: RuntimeError: a tool cannot close its own toolbox")


def test_the_interpreter_ends_while_a_tool_is_called(model):
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import tenon, test_conversation
def tool(a: int = 0):
    return "r"
made = test_conversation.Script(sys.argv[2], tenon.Vocab.load(sys.argv[2]), slow=0.01)
kept = []
for _ in range(3):
    talk = tenon.Conversation(made.service, model="script", tools=[tool])
    made.lines += [[("tool", {})]] * 5
    answer = talk.stream("Go")
    events = iter(answer)
    next(events)
    kept.append((talk, answer, events))
"""
    subprocess.run(
        [sys.executable, "-c", program, os.path.dirname(__file__), model], check=True, timeout=60
    )


def test_cycles_are_collected(model, vocab):
    """A function that holds the toolbox that holds it, an engine that holds its service, a tool that holds its conversation."""

    def cycle():
        made = Script(model, vocab)
        tools = Toolbox()
        tools.add(lambda a: (tools, made, talk), name="holds", parameters={"type": "object"})
        talk = made.talk("Hi.", tools=tools)
        talk.send("Hello")
        return weakref.ref(made), weakref.ref(tools), weakref.ref(talk)

    gone = cycle()
    for _ in range(50):  # a thread of the engine may be on its way out
        gc.collect()
        if not any(each() for each in gone):
            break
        time.sleep(0.02)
    assert [each() for each in gone] == [None, None, None]


def test_slow_tools_are_ended(script):
    ended = threading.Event()

    async def forever(a: int = 0):
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    talk = script.talk([("forever", {})], "Well.", tools=Toolbox([forever], time_limit_s=0.3))
    assert talk.send("Go").content == "Well." and ended.wait(5)


INTERRUPTED = """
import pathlib, time, sys, tenon
model = pathlib.Path(tenon.__file__).parent / "models" / "tenon-tiny.gguf"
vocab = tenon.Vocab.load(model)
def silent(prompt, request, matcher):
    print("asked", flush=True)
    for _ in range(600):
        time.sleep(0.1)
        yield vocab.encode("a")[0]
service = tenon.Service(f'[[model]]\\nname = "tiny"\\npath = "{model}"\\n')
service.add_engine("silent", silent, vocab, tenon.ChatTemplate.load(model))
talk = tenon.Conversation(service, model="silent")
MESSAGES = [{"role": "user", "content": "x"}]
HOW = {
    "send": lambda: talk.send("Hello"),
    "stream": lambda: list(service.stream(MESSAGES, model="silent")),
    "chat": lambda: service.chat(MESSAGES, model="silent"),
    "request": lambda: service.request("POST", "/v1/messages", {"model": "silent", "max_tokens": 500, "messages": MESSAGES}),
}
try:
    HOW[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert service.models == ["tiny", "silent"]  # it goes on
"""


@pytest.mark.parametrize("how", ["send", "stream", "chat", "request"])
def test_ctrl_c_ends_the_wait(how):
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            + INTERRUPTED,
            how,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().strip() == "asked"
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0].strip() == "interrupted"
    assert time.monotonic() - begun < 10 and process.returncode == 0


SLOW_TO_BEGIN = """
import pathlib, sys, threading, time, tenon, tenon._service
kept = tenon._service.keep_until_the_end
has_begun = threading.Event()
def slow(thread):  # it runs in the engine's thread, which belongs to the library
    kept(thread)
    has_begun.set()
    time.sleep(float(sys.argv[1]))
tenon._service.keep_until_the_end = slow
model = pathlib.Path(tenon.__file__).parent / "models" / "tenon-tiny.gguf"
vocab = tenon.Vocab.load(model)
service = tenon.Service(f'[[model]]\\nname = "tiny"\\npath = "{model}"\\n')
service.add_engine("silent", lambda *_: time.sleep(60), vocab, tenon.ChatTemplate.load(model))
talk = tenon.Conversation(service, model="silent")
threading.Thread(target=lambda: service.chat([{"role": "user", "content": "x"}], model="silent"), daemon=True).start()
has_begun.wait()
"""


@pytest.mark.parametrize("pause_s", [0.05, 0.2, 0.4, 2.1])
def test_a_program_ends_while_an_engine_begins(pause_s):
    """A conversation keeps the engine beyond the service's end. The last pause is longer than an exit waits."""
    done = subprocess.run(
        [sys.executable, "-c", SLOW_TO_BEGIN, str(pause_s)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "Fatal" not in done.stderr, done.stderr


def test_ctrl_c_does_not_wait_for_a_tool(model):
    """Neither the call that is interrupted nor the end of the interpreter; a tool that ends soon is waited for."""
    program = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys, time
sys.path.insert(0, sys.argv[1])
import tenon, test_conversation
def sleeps(a: int = 0):
    print("runs", flush=True)
    time.sleep(60)
def ends_soon(a: int = 0):
    time.sleep(0.5)
    print("soon", flush=True)
made = test_conversation.Script(sys.argv[2], tenon.Vocab.load(sys.argv[2]))
try:
    made.talk([("ends_soon", {}), ("sleeps", {})], tools=[sleeps, ends_soon]).send("Go")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, os.path.dirname(__file__), model],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline().strip() == "runs"
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline().strip() == "interrupted"
    assert time.monotonic() - begun < 3
    assert process.communicate(timeout=30)[0].strip() == "soon" and process.returncode == 0
    assert time.monotonic() - begun < 20
