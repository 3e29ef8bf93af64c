"""bench/vendor_verify.py: the metrics of the vendors' verifiers, over a server that is right and over one that is not."""
import itertools
import json
import signal
import subprocess
import sys
import threading
import time

import jsonschema
import pytest
from scripted_upstream import CONFIG, TEMPLATE, Upstream, call
from serving import ROOT, serving
from test_verify import error_of, serving_answers

sys.path.insert(0, str(ROOT / "bench"))
import vendor_verify  # noqa: E402
from vendor_prompts import SHAPES, make_prompt  # noqa: E402


def run(*arguments, check=True):
    done = subprocess.run([sys.executable, ROOT / "bench/vendor_verify.py", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def summary(folder, *arguments, **more):
    run("--summary", folder / "summary.json", *arguments, **more)
    return json.loads((folder / "summary.json").read_text())


# ---- prompts

def test_prompts_are_right_and_reach_from_1_to_20_tools():
    prompts = [make_prompt(3, number) for number in range(600)]
    for prompt in prompts:
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in prompt.request["tools"]}
        assert len(schemas) == len(prompt.request["tools"])
        for schema in schemas.values():
            jsonschema.Draft202012Validator.check_schema(schema)
        made = [called["function"] for message in prompt.request["messages"] for called in message.get("tool_calls", [])]
        for name, arguments in [*((due["name"], due["arguments"]) for due in prompt.due), *((made["name"], json.loads(made["arguments"])) for made in made)]:
            jsonschema.validate(arguments, schemas[name])
    assert {len(prompt.request["tools"]) for prompt in prompts} == set(range(1, 21))
    assert {prompt.category for prompt in prompts} == {shape.__name__ for shape, _ in SHAPES}
    assert 0.6 < sum(bool(prompt.due) for prompt in prompts) / len(prompts) < 0.72
    assert len({json.dumps(prompt.request) for prompt in prompts}) == len(prompts)


def test_a_prompt_depends_on_its_seed_and_number_only():
    assert make_prompt(1, 7) == make_prompt(1, 7) != make_prompt(2, 7)
    assert len(run("--print-requests", "--requests", 3).stdout.splitlines()) == 3


# ---- figures

@pytest.mark.parametrize("count, of, low, high", [
    (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662), (0, 0, 0.0, 1.0)])
def test_intervals_are_wilsons(count, of, low, high):
    """81 of 263 is the example of Newcombe (1998), Two-sided confidence intervals for the single proportion."""
    assert vendor_verify.wilson(count, of) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("pairs, f1", [
    ([(1, 1), (1, 1)], 1.0), ([(1, 1), (1, 0)], 2 / 3), ([(1, 1), (0, 1), (0, 1)], 0.5), ([(0, 0)], None), ([(1, 0), (0, 1)], 0.0)])
def test_f1(pairs, f1):
    found = vendor_verify.f1_of(pairs)["f1"]
    assert found["share"] == (None if f1 is None else pytest.approx(f1))
    assert f1 is None or found["low"] - 1e-9 <= f1 <= found["high"] + 1e-9


TOOLS = make_prompt(1, 0).request["tools"]


def answer_line(message, finish="stop", **more):
    return {"message": message, "finish_reason": finish, "usage": {"prompt_tokens": 1}, "is_ended": True, **more}


def called(name, arguments, id="call_1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


NAME = TOOLS[0]["function"]["name"]


@pytest.mark.parametrize("line, flaws", [
    (answer_line({"content": "Hello."}), []),
    (answer_line({"content": "<|tool_calls_section_begin|>"}), ["markers_in_text"]),
    (answer_line({"content": "a <tool_call>"}), ["markers_in_text"]),
    (answer_line({"content": "a < b | c > d"}), []),
    (answer_line({"content": ""}), ["empty"]),
    (answer_line({"content": None, "reasoning_content": "Hm."}), ["only_reasoning"]),
    (answer_line({"content": None, "reasoning": "Hm."}, "length"), []),
    (answer_line({}, "length"), []),
    (answer_line({"tool_calls": [called(NAME, "[" * 200_000)]}, "tool_calls"), ["arguments_not_json"]),
    (answer_line({"tool_calls": [called(NAME, "1" * 5000)]}, "tool_calls"), ["arguments_not_json"]),
    (answer_line({"content": "Hi"}, flaws=["shape"]), ["shape"]),
    (answer_line({"content": "Hi"}, "eos"), ["finish_unknown"]),
    (answer_line({"content": "Hi"}, None), ["finish_unknown"]),
    (answer_line({"content": "Hi"}, "tool_calls"), ["finish_calls_without_call"]),
    (answer_line({"tool_calls": [called(NAME, "{")]}, "tool_calls"), ["arguments_not_json"]),
    (answer_line({"tool_calls": [called(NAME, "{")]}, "length"), []),
    (answer_line({"tool_calls": [called(NAME, '{"no": 1}')]}, "stop"), ["arguments_not_valid", "finish_not_calls"]),
    (answer_line({"tool_calls": [called("functions." + NAME, "{}")]}, "tool_calls"), ["call_of_no_tool"]),
    (answer_line({"tool_calls": [called(NAME, {"no": 1}, id=None)]}, "tool_calls"), ["arguments_no_text", "arguments_not_valid", "call_without_id"]),
    (answer_line({"tool_calls": [called("x", "{}"), called("x", "{}")]}, "tool_calls"), ["call_ids_equal", "call_of_no_tool"]),
    (answer_line({"content": "Hi"}) | {"usage": None, "is_ended": False}, ["end_not_told", "usage_missing"]),
])
def test_flaws(line, flaws):
    assert vendor_verify.judge(line, make_prompt(1, 0))["flaws"] == flaws


@pytest.mark.parametrize("message, usage, flaws", [
    ({"content": "Hi"}, {"prompt_tokens": 1}, []),
    ("Hi", {"prompt_tokens": 1}, ["empty", "shape"]),
    ({"content": [{"type": "text", "text": "Hi"}]}, {"prompt_tokens": 1}, ["shape"]),
    ({"content": "Hi"}, "12", ["shape", "usage_missing"]),
    ({"content": "Hi"}, {"prompt_tokens": "1"}, ["shape", "usage_missing"]),
    ({"content": "Hi", "tool_calls": {}}, {"prompt_tokens": 1}, ["shape"]),
    ({"content": "Hi", "reasoning": 7}, {"prompt_tokens": 1}, ["shape"]),
    ({"tool_calls": ["x"]}, {"prompt_tokens": 1}, ["arguments_no_text", "call_of_no_tool", "call_without_id", "finish_not_calls", "shape"]),
    ({"tool_calls": [called(NAME, "{}") | {"function": "f"}]}, {"prompt_tokens": 1}, ["arguments_no_text", "call_of_no_tool", "finish_not_calls", "shape"]),
    ({"tool_calls": [called(NAME, {"no": 1})]}, {"prompt_tokens": 1}, ["arguments_no_text", "arguments_not_valid", "finish_not_calls"]),
    ({"tool_calls": [called(NAME, "{", id=7)]}, {"prompt_tokens": 1}, ["arguments_not_json", "call_without_id", "finish_not_calls", "shape"]),
])
def test_odd_answers_have_a_known_shape(message, usage, flaws):
    reader = vendor_verify.Reader()
    line = answer_line(reader.message(message)) | {"usage": reader.usage(usage)}
    assert vendor_verify.judge(line | {"flaws": sorted(reader.flaws)}, make_prompt(1, 0))["flaws"] == flaws


def stream_of(*deltas):
    return [b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() for delta in deltas]


def part(**function):
    return {"tool_calls": [{"index": 0, "function": function}]}


@pytest.mark.parametrize("deltas, function, flaws", [
    ([part(name="a", arguments=""), part(arguments="{}")], {"name": "a", "arguments": "{}"}, []),
    ([part(name="a", arguments="{"), part(name="", arguments="}")], {"name": "a", "arguments": "{}"}, []),
    ([part(name="a", arguments="{"), part(name="a", arguments="}")], {"name": "a", "arguments": "{}"}, ["name_repeated"]),
    ([part(name="a"), part(name="b")], {"name": "b", "arguments": ""}, ["name_repeated"]),
    ([part(name="a", arguments={"b": 1})], {"name": "a", "arguments": '{"b": 1}'}, ["arguments_no_text"]),
    ([part(name=["a"]), part(name="a")], {"name": "a", "arguments": ""}, ["shape"]),
    ([{"content": ["x"], **part(name="a")}], {"name": "a", "arguments": ""}, ["shape"]),
])
def test_calls_of_a_stream(deltas, function, flaws):
    reader = vendor_verify.Reader()
    choice, *_ = vendor_verify.fold(stream_of(*deltas), 0, reader)
    assert choice["message"]["tool_calls"][0]["function"] == function and sorted(reader.flaws) == flaws


def test_what_was_cut_is_not_only_reasoning():
    lines = {0: answer_line({"reasoning": "Hm."}, "length"), 1: answer_line({"reasoning": "Hm."}), 2: answer_line({"content": "Hi"})}
    _, found = vendor_verify.summary_of({"seed": 1}, {number: {"status": "ok", "ms": 1, **line} for number, line in lines.items()})
    assert (found["not_only_reasoning"]["count"], found["not_only_reasoning"]["of"]) == (1, 2)


# ---- runs

@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """`tenon serve`, whose engine makes the calls that are due, and otherwise says a word."""
    prompts = [make_prompt(1, number) for number in range(60)]

    def contents(prompt):
        return [message["content"] for message in prompt.request["messages"] if message["content"]]

    def script(text):
        asked = max((prompt for prompt in prompts if all(part in text for part in contents(prompt))), key=lambda prompt: len("".join(contents(prompt))))
        return "\n".join(call(one["name"], one["arguments"]) for one in asked.due) or "Certainly."

    upstream = Upstream(script, TEMPLATE)
    threading.Thread(target=upstream.serve_forever, args=(0.05,), daemon=True).start()
    folder = tmp_path_factory.mktemp("right")
    (folder / "tenon.toml").write_text(CONFIG.format(name="played", port=upstream.server_port, format="hermes"))
    with serving(folder / "serve.log", "--config", str(folder / "tenon.toml")) as server:
        yield server
    upstream.shutdown()
    upstream.server_close()


def test_a_right_server_before_a_right_model_has_all(right, tmp_path):
    found = summary(tmp_path, "--url", right.url, "--model", "played", "--requests", 60, "--out", tmp_path / "o.jsonl", "--price-in", 1, "--price-out", 3)
    for figure in ("query_success", "schema_accuracy", "not_only_reasoning", "language_kept", "conforming"):
        assert found[figure]["share"] == 1.0, (figure, found["flaws"])
    assert found["needed"]["f1"]["share"] == 1.0 and found["requests"] == 60
    due = sum(bool(make_prompt(1, number).due) for number in range(60))
    assert found["finish_reasons"] == {"tool_calls": due, "stop": 60 - due}
    assert found["cost"] == pytest.approx((found["tokens"]["in"] + 3 * found["tokens"]["out"]) / 1e6)


def right_message(number):
    """What the model should say, as a document of Chat Completions."""
    due = make_prompt(1, number).due
    calls = [called(one["name"], json.dumps(one["arguments"]), f"call_{at}") for at, one in enumerate(due)]
    return {"role": "assistant", "content": None, "tool_calls": calls} if calls else {"role": "assistant", "content": "Certainly."}


def numbers_by_request(count):
    return {json.dumps(make_prompt(1, number).request["messages"]): number for number in range(count)}


def send_choice(handler, body, message, finish):
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    if not body.get("stream"):
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}, {}
    delta = {**message, "tool_calls": [{"index": at, **one} for at, one in enumerate(message.get("tool_calls", []))]}
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
              {"choices": [], "usage": usage}]
    return 200, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n", {"content-type": "text/event-stream"}


def test_a_wrong_server_is_found_and_compared(tmp_path):
    """Every third of its calls is wrong, in five ways by turns; the reference is right."""
    count, known = 40, numbers_by_request(40)
    with_calls = [number for number in range(count) if make_prompt(1, number).due]
    wrongs = dict(zip(with_calls[::3], itertools.cycle(["text", "invalid", "stop", "no_tool", "not_json"])))
    is_wrong = [False]

    def answer(handler, raw):
        body = json.loads(raw)
        number = known[json.dumps(body["messages"])]
        message, finish = right_message(number), "tool_calls" if number in with_calls else "stop"
        wrong = wrongs.get(number) if is_wrong[0] else None
        if wrong == "text":
            message, finish = {"role": "assistant", "content": "I would call it."}, "stop"
        elif wrong == "stop":
            finish = "stop"
        elif wrong:
            function = message["tool_calls"][0]["function"]
            function |= {"invalid": {"arguments": '{"no": 1}'}, "no_tool": {"name": "nothing"}, "not_json": {"arguments": "{"}}[wrong]
        return send_choice(handler, body, message, finish)

    with serving_answers(answer) as url:
        asked = ("--url", url, "--model", "m", "--requests", count)
        assert summary(tmp_path, *asked, "--out", tmp_path / "right.jsonl")["conforming"]["share"] == 1.0
        is_wrong[0] = True
        found = summary(tmp_path, *asked, "--out", tmp_path / "wrong.jsonl", "--against", tmp_path / "right.jsonl")

    kinds = list(wrongs.values())
    triggers = len(with_calls) - kinds.count("text") - kinds.count("stop")
    invalid = kinds.count("invalid") + kinds.count("no_tool") + kinds.count("not_json")
    assert found["finish_tool_calls"]["count"] == triggers
    assert (found["schema_accuracy"]["count"], found["schema_accuracy"]["of"]) == (triggers - invalid, triggers)
    assert found["flaws"] == {"arguments_not_valid": kinds.count("invalid"), "call_of_no_tool": kinds.count("no_tool"),
                              "arguments_not_json": kinds.count("not_json"), "finish_not_calls": kinds.count("stop")}
    against = found["against"]
    assert (against["tp"], against["fp"], against["fn"]) == (triggers, 0, len(with_calls) - triggers)
    assert against["f1"]["share"] == pytest.approx(2 * triggers / (triggers + len(with_calls)))
    assert found["needed"]["recall"]["count"] == len(with_calls) - kinds.count("text")  # calls count, whatever the reason of the end


def test_a_run_goes_on_where_it_was(tmp_path):
    asked, fail = [], set(range(3))
    out = tmp_path / "o.jsonl"

    def answer(handler, raw):
        asked.append(len(asked))
        if asked[-1] in fail:
            return 400, error_of("no"), {}
        return send_choice(handler, json.loads(raw), {"role": "assistant", "content": "Hi."}, "stop")

    with serving_answers(answer) as url:
        common = ("--url", url, "--model", "m", "--out", out, "--concurrency", 1)
        first = summary(tmp_path, *common, "--requests", 5)
        assert first["query_success"]["count"] == 2 and first["requests"] == 5 and len(asked) == 5
        with open(out, "a") as file:
            file.write('{"number": 2, "cut')  # as a run that was killed leaves it
        again = summary(tmp_path, *common, "--requests", 8)
        assert again["query_success"]["count"] == again["requests"] == 8 and len(asked) == 5 + 3 + 3
        summary(tmp_path, *common, "--requests", 8)
        assert len(asked) == 11  # all are there
        other = run(*common, "--requests", 8, "--seed", 2, check=False)
        assert other.returncode == 2 and "is of another run: seed 1" in other.stderr
    assert summary(tmp_path, "--out", out)["requests"] == 8  # without a server


def test_an_interrupted_run_keeps_what_it_has(tmp_path):
    asked, begun = [], threading.Event()

    def answer(handler, raw):
        asked.append(raw)
        if len(asked) == 4:
            begun.set()
        time.sleep(0.2)
        return send_choice(handler, json.loads(raw), {"role": "assistant", "content": "Hi."}, "stop")

    with serving_answers(answer) as url:
        process = subprocess.Popen([sys.executable, ROOT / "bench/vendor_verify.py", "--url", url, "--model", "m", "--out", tmp_path / "o.jsonl"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert begun.wait(60)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "answered" in out
    _, lines = vendor_verify.read_run(tmp_path / "o.jsonl")
    assert len(lines) == len(asked) >= 4


def test_a_busy_server_is_asked_again(tmp_path):
    asked = []

    def answer(handler, raw):
        asked.append(raw)
        if len(asked) == 1:
            return 429, error_of("slowly"), {"retry-after": "0"}
        if len(asked) == 2:
            handler.close_connection = True
            return None
        return send_choice(handler, json.loads(raw), {"role": "assistant", "content": "Hi."}, "stop")

    with serving_answers(answer) as url:
        found = summary(tmp_path, "--url", url, "--model", "m", "--requests", 1, "--out", tmp_path / "o.jsonl")
    assert found["query_success"]["share"] == 1.0 and len(asked) == 3


def text_server(answer):
    """A server whose documents say a text; `answer(number)` may be another (status, document, headers), too."""
    count = itertools.count()

    def respond(handler, raw):
        said = answer(next(count))
        return send_choice(handler, json.loads(raw), {"role": "assistant", "content": said}, "stop") if isinstance(said, str) else said

    return serving_answers(respond)


def read_lines(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.startswith(b'{"number"')]


@pytest.mark.parametrize("said, status", [
    ("half \ud800 pair", "ok"),  # cannot be written as UTF-8
    ((200, '{"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}], "usage": {"prompt_tokens": "9"}}', {}), "ok"),
    ((200, {"choices": [None]}, {}), "failed"),
    ((200, {"choices": [7]}, {}), "failed"),
    ((200, {"choices": []}, {}), "failed"),
    ((200, {"choices": None}, {}), "failed"),
    ((200, {"error": {"message": "the engine is gone"}}, {}), "failed"),
    ((200, "[]", {}), "failed"),
    ((200, "[" * 200_000, {}), "failed"),
    ((200, '{"choices": [{"message": {}}], "n": ' + "1" * 5000 + "}", {}), "failed"),
])
def test_an_odd_answer_loses_no_other(tmp_path, said, status):
    with text_server(lambda number: said if number == 2 else "Hi.") as url:
        found = summary(tmp_path, "--url", url, "--model", "m", "--requests", 6, "--concurrency", 1, "--retries", 0, "--out", tmp_path / "o.jsonl",
                        "--show-flaws", 9, "--extra-body", '{"stream": false}')
    lines = read_lines(tmp_path / "o.jsonl")
    assert [line["status"] for line in lines] == ["ok", "ok", status, "ok", "ok", "ok"], lines[2]
    assert found["query_success"]["count"] == 5 + (status == "ok")


@pytest.mark.parametrize("events", ['data: {"choices": []}\n\ndata: [DONE]\n\n', 'data: {"error": {"message": "gone"}}\n\n', "data: 7\n\n"])
def test_a_stream_without_an_answer_is_a_failure(tmp_path, events):
    with text_server(lambda number: (200, events, {"content-type": "text/event-stream"}) if number == 1 else "Hi.") as url:
        summary(tmp_path, "--url", url, "--model", "m", "--requests", 2, "--concurrency", 1, "--retries", 0, "--out", tmp_path / "o.jsonl")
    assert [(line["status"], line.get("http_status")) for line in read_lines(tmp_path / "o.jsonl")] == [("ok", None), ("failed", 200)]


def test_lines_are_read_as_they_were_written(tmp_path):
    out = tmp_path / "o.jsonl"
    with text_server(lambda number: "a\u2028b\u2029c\x85d ö") as url:
        common = ("--url", url, "--model", "m", "--out", out, "--concurrency", 1)
        summary(tmp_path, *common, "--requests", 3)
        first, *answers = out.read_bytes().split(b"\n")[:-1]
        whole = [json.dumps(json.loads(line), ensure_ascii=False).encode() for line in answers]
        # As another program writes them: not as ASCII, and cut within the two bytes of "ö".
        out.write_bytes(b"\n".join([first, *whole[:2], whole[2][: whole[2].index("ö".encode()) + 1]]))
        assert len(vendor_verify.read_run(out)[1]) == 2
        again = summary(tmp_path, *common, "--requests", 3)
    assert again["query_success"]["count"] == again["requests"] == 3 and len(vendor_verify.read_run(out)[1]) == 3


def test_an_answer_that_came_at_last_has_no_error(tmp_path):
    with text_server(lambda number: (503, error_of("busy"), {"retry-after": "0"}) if number == 0 else "Hi.") as url:
        summary(tmp_path, "--url", url, "--model", "m", "--requests", 1, "--out", tmp_path / "o.jsonl")
    [line] = read_lines(tmp_path / "o.jsonl")
    assert line["tries"] == 2 and not line.keys() & {"error", "http_status"}


def test_a_server_that_never_answers_is_given_up(tmp_path):
    asked = []
    with text_server(lambda number: asked.append(number) or (400, error_of("no such model"), {})) as url:
        done = run("--url", url, "--model", "m", "--requests", 300, "--out", tmp_path / "o.jsonl", check=False)
    assert done.returncode == 1 and "10 requests failed and none was answered" in done.stderr and "no such model" in done.stderr
    assert 10 <= len(asked) < 50


@pytest.mark.parametrize("wait, longest", [("999999999", 60), ("7", 7), ("soon", 1), ("²", 1)])
def test_a_server_says_for_how_long_it_is_busy(wait, longest):
    paused = []

    class Over:
        def wait(self, seconds):
            paused.append(seconds)
            return True

    options = vendor_verify.argparse.Namespace(seed=1, model="m", max_tokens=None, temperature=None, extra={}, retries=1)
    with serving_answers(lambda handler, raw: (429, error_of("slowly"), {"retry-after": wait})) as url:
        line = vendor_verify.ask_one(vendor_verify.Server(url, "", 9), 0, options, Over())
    assert paused == [longest] and line["status"] == "failed" and line["http_status"] == 429


def test_limits_of_tokens(tmp_path):
    bodies = []

    def answer(handler, raw):
        bodies.append(json.loads(raw))
        return send_choice(handler, bodies[-1], {"role": "assistant", "content": "Hi."}, "length" if len(bodies) == 1 else "stop")

    with serving_answers(answer) as url:
        done = run("--url", url, "--model", "m", "--requests", 3, "--out", tmp_path / "o.jsonl", "--max-tokens", -1, "--temperature", -1)
        assert all(not body.keys() & {"max_tokens", "temperature"} for body in bodies)
        assert "1 of 3 answers were cut at max_tokens None" in done.stderr
        other = run("--url", url, "--model", "m", "--requests", 3, "--out", tmp_path / "p.jsonl", "--against", tmp_path / "o.jsonl")
        assert "max_tokens is 1024, and None in" in other.stderr and "temperature is 0.0, and None in" in other.stderr


def test_files_of_other_prompts_are_refused_before_a_server_is_asked(tmp_path):
    asked = []
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    with text_server(lambda number: asked.append(number) or "Hi.") as url:
        common = ("--url", url, "--model", "m", "--requests", 2)
        run(*common, "--out", old)
        old.write_text(old.read_text().replace('"hash": "', '"hash": "0'))
        for arguments in (("--out", old, "--requests", 9), ("--out", new, "--against", old)):
            done = run(*common, *arguments, check=False)
            assert done.returncode == 2 and f"{old} was made with other prompts" in done.stderr
    assert len(asked) == 2 and not new.exists()


@pytest.mark.parametrize("signals, status", [([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 130), ([signal.SIGINT, signal.SIGTERM], 143)])
def test_a_second_signal_ends_at_once(tmp_path, signals, status):
    begun, release = threading.Event(), threading.Event()

    def answer(number):
        begun.set()
        release.wait(60)
        return "Hi."

    with text_server(answer) as url:
        process = subprocess.Popen([sys.executable, ROOT / "bench/vendor_verify.py", "--url", url, "--model", "m", "--out", tmp_path / "o.jsonl"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert begun.wait(60)
        process.send_signal(signals[0])
        assert b"once more ends at once" in process.stderr.readline() + process.stderr.readline()
        if len(signals) > 1:
            process.send_signal(signals[1])
            process.communicate(timeout=20)  # no answer has come
            release.set()
        else:
            release.set()
            process.communicate(timeout=60)
            assert read_lines(tmp_path / "o.jsonl")
    assert process.returncode == status


def test_a_full_disk_ends_the_run(tmp_path, monkeypatch):
    """Nothing more is asked, and what was kept stays."""
    asked = []

    class Full:
        def __init__(self, *arguments):
            self.done = 0

        def add(self, line):
            raise OSError("no space left")

    monkeypatch.setattr(vendor_verify, "Progress", Full)
    options = vendor_verify.argparse.Namespace(
        url=None, requests=200, seed=1, model="m", max_tokens=None, temperature=None, extra={}, retries=0, concurrency=2, timeout=9,
        api_key_env="NO_KEY", price_in=None, price_out=None, out=tmp_path / "o.jsonl")
    before = signal.getsignal(signal.SIGINT)
    with text_server(lambda number: asked.append(number) or "Hi.") as options.url, pytest.raises(OSError, match="no space"):
        vendor_verify.ask_all(options, {"seed": 1}, {})
    assert len(asked) < 50 and read_lines(tmp_path / "o.jsonl") and signal.getsignal(signal.SIGINT) is before


def test_mistakes_on_the_command_line(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    for arguments, words in [((), "--out is missing"), (("--out", tmp_path / "empty.jsonl"), "has no answers"),
                             (("--out", tmp_path / "x", "--url", "ftp://x"), "http://host:port is needed"),
                             (("--out", tmp_path / "x", "--extra-body", "{"), "a JSON object is needed"),
                             (("--out", tmp_path / "x", "--extra-body", "[]"), "a JSON object is needed"),
                             (("--out", tmp_path / "no/x"), "there is no such folder"), (("--out", tmp_path / "x", "--concurrency", 0), "is 1 at least")]:
        done = run(*arguments, check=False)
        assert done.returncode == 2 and words in done.stderr
