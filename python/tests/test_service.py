"""Models in this process: whole and streamed, threads and tasks, HTTP, engines that are written in Python."""

import asyncio
import itertools
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import numpy
import pytest
import tenon

HELLO = [{"role": "user", "content": "Hello"}]
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def service():
    with tenon.Service() as opened:
        yield opened


def folded(chunks):
    content, calls = "", {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            content += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", []):
                known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"].get("arguments") or ""
    return content, [calls[index] for index in sorted(calls)]


def test_whole_and_streamed_are_the_same(service, weather):
    request = {
        "tools": [weather],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 200,
        "tenon": {"close_calls": True},
    }
    service.chat(
        QUESTION, **request
    )  # what follows finds its prompt in the cache: what is computed at once is rounded otherwise
    message = service.chat(QUESTION, **request)["choices"][0]["message"]
    [call] = message["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert (
        tenon.validate(json.loads(call["function"]["arguments"]), weather["function"]["parameters"])
        == []
    )
    content, calls = folded(service.stream(QUESTION, **request))
    assert calls == [{"name": "get_weather", "arguments": call["function"]["arguments"]}]

    async def ask():
        whole = await service.achat(QUESTION, **request)
        chunks = [chunk async for chunk in service.astream(QUESTION, **request)]
        return whole, chunks

    whole, chunks = asyncio.run(ask())
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"] == call["function"]
    assert folded(chunks) == (content, calls)


def test_other_routes(service):
    assert service.models == ["tenon-tiny"] and service.request("GET", "/health")
    body = {"model": "tenon-tiny", "max_tokens": 5, "messages": HELLO}
    for each in (body, json.dumps(body), json.dumps(body).encode()):  # a text is JSON already
        assert service.request("POST", "/v1/messages", each)["type"] == "message"
        assert asyncio.run(service.arequest("POST", "/v1/messages", each))["type"] == "message"


REFUSALS = {
    "NoMessages": {"messages": []},
    "NoSuchModel": {"messages": HELLO, "model": "nosuch"},
    "BadTemperature": {"messages": HELLO, "temperature": -5},
}


@pytest.mark.parametrize("row", REFUSALS)
def test_refusals(service, row):
    request = dict(REFUSALS[row])
    messages = request.pop("messages")
    with pytest.raises(tenon.ApiError) as whole:
        service.chat(messages, **request)
    assert 400 <= whole.value.status < 500 and whole.value.error["message"] == str(whole.value)
    with pytest.raises(tenon.ApiError):
        list(service.stream(messages, **request))

    async def ask():
        with pytest.raises(tenon.ApiError) as error:
            async for _ in service.astream(messages, **request):
                pass
        assert error.value.status == whole.value.status
        with pytest.raises(tenon.ApiError):
            await service.achat(messages, **request)

    asyncio.run(ask())


def test_refusals_go_between_processes(service):
    with pytest.raises(tenon.ApiError) as error:
        service.chat(HELLO, model="nosuch")
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.status, again.error, str(again)) == (
        error.value.status,
        error.value.error,
        str(error.value),
    )


def test_many_at_a_time(service):
    def request(number):
        """Which can be answered in one way."""
        schema = {
            "type": "object",
            "properties": {"n": {"const": number}},
            "required": ["n"],
            "additionalProperties": False,
        }
        return {
            "tools": [{"type": "function", "function": {"name": "say", "parameters": schema}}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_tokens": 100,
            "tenon": {"close_calls": True},
        }

    async def ask():
        answers = await asyncio.gather(
            *(service.achat(HELLO, **request(number)) for number in range(8))
        )
        calls = [
            call for answer in answers for call in answer["choices"][0]["message"]["tool_calls"]
        ]
        return [json.loads(call["function"]["arguments"])["n"] for call in calls]

    assert asyncio.run(ask()) == list(range(8))


def test_a_loop_that_is_left_cancels(service):
    begun = time.monotonic()
    for _ in service.stream(HELLO, max_tokens=3000, temperature=1):
        break

    async def ask():
        async for _ in service.astream(HELLO, max_tokens=3000, temperature=1):
            break
        task = asyncio.ensure_future(service.achat(HELLO, max_tokens=3000, temperature=1))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())
    assert time.monotonic() - begun < 10


def test_http(service):
    url = service.listen(port=0)
    with urllib.request.urlopen(f"{url}/v1/models", timeout=10) as answer:
        assert json.load(answer)["data"][0]["id"] == "tenon-tiny"
    service.stop_listening(1)
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/v1/models", timeout=2)


def test_listens_where_the_configuration_says(model):
    text = f'[server]\nport = %d\n[[model]]\nname = "mine"\npath = "{model}"\n'
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tenon.Service(text % port) as service:
        assert service.listen() == f"http://127.0.0.1:{port}"
        service.stop_listening(0)
        assert service.listen("localhost", 0).startswith(
            "http://localhost:"
        ) and service.models == ["mine"]
    program = "import sys, tenon; tenon.serve(config=sys.argv[1], on_ready=lambda url: print(url, flush=True))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, text % port], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_async_methods_do_not_hold_the_loop_up(service, monkeypatch):
    """Which model there is, is asked as everything is."""
    monkeypatch.setattr(
        tenon.Service, "request", lambda *_: pytest.fail("it waits in the loop's thread")
    )

    async def ask():
        answer = await service.achat(HELLO, max_tokens=2)
        return answer, [chunk async for chunk in service.astream(HELLO, max_tokens=2)]

    answer, chunks = asyncio.run(ask())
    assert answer["choices"] and chunks


def test_an_answer_that_is_cut_is_none(vocab, model):
    """Not taken for a short one: by request() and in a task; a stream is told in itself."""
    begun = threading.Semaphore(0)

    def endless(prompt, request, matcher):
        begun.release()
        while True:
            time.sleep(0.01)
            yield vocab.encode("a")[0]

    async def later(service):
        await service.achat(HELLO, model="endless")

    for ask in (
        lambda service: service.chat(HELLO, model="endless"),
        lambda service: asyncio.run(later(service)),
        lambda service: list(service.stream(HELLO, model="endless")),
    ):
        service = tenon.Service(f'[[model]]\nname = "mine"\npath = "{model}"\n')
        service.add_engine(
            "endless", endless, vocab, tenon.ChatTemplate.load(model), context_tokens=100_000
        )
        closing = threading.Thread(
            target=lambda: (begun.acquire(), time.sleep(0.2), service.close())
        )
        closing.start()
        with pytest.raises((tenon.UnavailableError, tenon.ApiError), match="cut|stop|end"):
            ask(service)
        closing.join()


@pytest.mark.parametrize("grace_s", [-1, float("inf"), float("nan"), 1e300])
def test_grace_is_a_time(service, grace_s):
    with pytest.raises(ValueError, match="grace_s"):
        service.stop_listening(grace_s)


def test_configurations(model, tmp_path):
    with tenon.Service(f'[[model]]\nname = "mine"\npath = "{model}"\n') as service:
        assert service.models == ["mine"]
    (tmp_path / "tenon.toml").write_text(f'[[model]]\nname = "of-file"\npath = "{model}"\n')
    with tenon.Service.load(tmp_path / "tenon.toml") as service:
        assert service.models == ["of-file"]
    for wrong in ("[[model]]\nnobody = 1\n", "[[", '[[model]]\nname = "a"\npath = "nosuch.gguf"\n'):
        with pytest.raises(tenon.Error):
            tenon.Service(wrong)
    service.close()
    with pytest.raises(ValueError, match="closed"):
        service.chat(HELLO)


def test_an_engine_in_python(vocab, model):
    """Plays by the mask alone: whatever it gives is of the schema. Free answers are a text of its own."""
    random = numpy.random.default_rng(3)
    asked = []

    def generate(prompt, request, matcher):
        asked.append((vocab.decode(prompt), request))
        if matcher is None:
            yield from vocab.encode("I am free.")
            yield vocab.ends[0]
            return
        mask = numpy.zeros(matcher.mask_words, numpy.uint32)
        while True:
            matcher.fill_mask(mask)
            tokens = numpy.flatnonzero(numpy.unpackbits(mask.view(numpy.uint8), bitorder="little"))
            ends = [token for token in tokens.tolist() if token in vocab.ends]
            yield ends[0] if ends else int(random.choice(tokens))

    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    with tenon.Service(f'[[model]]\nname = "mine"\npath = "{model}"\n') as service:
        service.add_engine("python", generate, vocab, tenon.ChatTemplate.load(model))
        assert set(service.models) == {"mine", "python"}
        answer = service.chat(HELLO, model="python", max_tokens=50)["choices"][0]
        assert answer["message"]["content"] == "I am free." and answer["finish_reason"] == "stop"
        assert "Hello" in asked[0][0] and asked[0][1]["max_tokens"] == 50
        form = {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": schema, "strict": True},
        }
        for _ in range(5):
            answer = service.chat(HELLO, model="python", response_format=form, max_tokens=500)[
                "choices"
            ][0]
            assert answer["finish_reason"] == "length" or tenon.Schema(schema).is_valid_json(
                answer["message"]["content"]
            )

        def fails(prompt, request, matcher):
            yield from vocab.encode("A")
            raise RuntimeError("out of luck")

        service.add_engine("failing", fails, vocab)
        with pytest.raises(tenon.ApiError, match="out of luck"):
            service.chat(HELLO, model="failing")


def test_a_matcher_is_lent_for_one_answer(vocab, model):
    """Threads of an engine that fill masks ahead are told when the answer ends, whatever they call."""
    kept, told = [], []
    calls = [
        lambda matcher: matcher.fill_mask(numpy.zeros(matcher.mask_words, numpy.int32)),
        lambda matcher: matcher.copy(),
        lambda matcher: matcher.tokens_to_end(),
        lambda matcher: matcher.forced_tokens(),
        lambda matcher: matcher.is_finished,
        lambda matcher: matcher.accept(1),
        lambda matcher: matcher.rollback(1),
        lambda matcher: matcher.accept_text("a"),
    ]

    def fill_ahead(matcher):
        for call in itertools.cycle(calls[:4]):
            try:
                call(matcher)
            except tenon.Error:
                pass
            except RuntimeError as error:
                if "another thread" not in str(error):
                    told.append(str(error))
                    return

    def generate(prompt, request, matcher):
        thread = threading.Thread(target=fill_ahead, args=[matcher])
        kept.append((matcher, thread))
        thread.start()
        yield from vocab.encode('{"a":')
        time.sleep(0.001)
        raise ValueError("so far")

    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    with tenon.Service(f'[[model]]\nname = "mine"\npath = "{model}"\n') as service:
        service.add_engine("python", generate, vocab, tenon.ChatTemplate.load(model))
        for _ in range(20):
            with pytest.raises(tenon.ApiError, match="so far"):
                service.chat(HELLO, model="python", response_format=form)
    for matcher, thread in kept:
        thread.join()
        for call in calls:
            with pytest.raises(RuntimeError, match="which has ended"):
                call(matcher)
    assert len(told) == 20 and all("which has ended" in each for each in told)


def test_serve():
    program = "import tenon; tenon.serve(port=0, on_ready=lambda url: print(url, flush=True)); print('stopped')"
    for how in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        )
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(how)
        assert process.communicate(timeout=20)[0].strip() == "stopped" and process.returncode == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda service: service.chat(HELLO, max_tokens=3000),
        lambda service: list(service.stream(HELLO, max_tokens=3000)),
        lambda service: service.stop_listening(5),
        lambda service: service.listen(),
        lambda service: tenon.Conversation(service),
    ],
    ids=["chat", "stream", "stop", "listen", "talk"],
)
def test_a_service_is_closed_while_it_is_used(use):
    """By another thread: what is under way ends, well or not, and nothing of it is gone before."""
    service = tenon.Service()
    is_closed = threading.Event()

    def work():
        while not is_closed.is_set():
            try:
                use(service)
            except (tenon.Error, ValueError):
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    time.sleep(0.2)
    begun = time.monotonic()
    service.close()
    is_closed.set()
    [thread.join() for thread in threads]
    assert time.monotonic() - begun < 8
    with pytest.raises(ValueError, match="closed"):
        use(service)


def test_a_call_is_closed_while_another_thread_waits_for_it(vocab, model):
    def silent(prompt, request, matcher):
        while True:
            time.sleep(0.01)
            yield vocab.control("<|im_start|>")

    with tenon.Service(f'[[model]]\nname = "mine"\npath = "{model}"\n') as service:
        service.add_engine(
            "silent", silent, vocab, tenon.ChatTemplate.load(model), context_tokens=100_000
        )
        body = json.dumps({"model": "silent", "messages": HELLO})
        for how in ("close", "cancel"):
            call = tenon._tenon._Call(service._native, "POST", "/v1/chat/completions", body)
            pieces = []
            threads = [
                threading.Thread(target=lambda: pieces.append(call.next())) for _ in range(2)
            ]
            [thread.start() for thread in threads]
            time.sleep(0.1)
            begun = time.monotonic()
            getattr(call, how)()
            [thread.join() for thread in threads]
            assert pieces == [None, None] and call.was_cut and time.monotonic() - begun < 2


def test_nothing_is_left_behind():
    def threads():
        return len(os.listdir("/proc/self/task"))

    def files():
        return len(os.listdir("/proc/self/fd"))

    def once():
        with tenon.Service() as service:
            service.chat(HELLO, max_tokens=2)
            list(service.stream(HELLO, max_tokens=2))

    once()
    before = threads(), files()
    for _ in range(5):
        once()
    time.sleep(0.2)
    assert threads() <= before[0] and files() <= before[1]


def test_the_interpreter_ends_while_an_answer_comes():
    program = """
import tenon
service = tenon.Service()
chunks = service.stream([{"role": "user", "content": "Hello"}], max_tokens=3000)
next(chunks)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_interpreter_waits_for_engines(model):
    program = """
import sys, threading, time, tenon
vocab = tenon.Vocab.load(sys.argv[1])
def generate(prompt, request, matcher):
    try:
        while True:
            time.sleep(0.3)
            yield vocab.encode("a")[0]
    finally:
        print("it has ended", flush=True)
service = tenon.Service()
service.add_engine("python", generate, vocab, tenon.ChatTemplate.load(sys.argv[1]))
chunks = service.stream([{"role": "user", "content": "Hello"}], model="python", max_tokens=3000)
next(chunks)
time.sleep(0.5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, model],
        check=True,
        timeout=60,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == "it has ended\n"


IN_THE_CHILD = {
    "Ends": "pass",
    "Closes": "service.close(); tools.close()",
    "LetsGo": "del service, talk, tools, answer, chunks, left; gc.collect()",
    "Asks": "refused(lambda: service.chat(HELLO)); refused(lambda: list(chunks)); refused(service.listen)",
    "Talks": "refused(lambda: talk.send('x')); refused(lambda: list(left)); refused(lambda: tenon.Conversation(service))",
    "UsesTools": "refused(tools.tools)",
    "OpensItsOwn": "assert tenon.Service().chat(HELLO, max_tokens=2)['choices']",
}


@pytest.mark.parametrize("row", IN_THE_CHILD)
def test_fork(row):
    """What was opened before is not the child's: it says so, and ends nothing."""
    program = """
import gc, os, sys, tenon
HELLO = [{"role": "user", "content": "Hello"}]
service = tenon.Service()
service.listen()
tools = tenon.Toolbox([lambda: None][:0])
talk = tenon.Conversation(service, tools=tools)
answer = talk.stream("Hello")
left = iter(answer)
next(left)
chunks = service.stream(HELLO, max_tokens=3000)
next(chunks)

def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("it was not refused")

child = os.fork()
if child == 0:
    exec(sys.argv[1])
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert service.chat(HELLO, max_tokens=2)["choices"]
"""
    subprocess.run([sys.executable, "-c", program, IN_THE_CHILD[row]], check=True, timeout=60)


def test_threads_share_a_service(service):
    wrong = []

    def work():
        try:
            for _ in range(3):
                service.chat(HELLO, max_tokens=3)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
