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


def test_mistakes_on_the_command_line(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    for arguments, words in [((), "--out is missing"), (("--out", tmp_path / "empty.jsonl"), "has no answers"),
                             (("--out", tmp_path / "x", "--url", "ftp://x"), "http://host:port is needed")]:
        done = run(*arguments, check=False)
        assert done.returncode == 2 and words in done.stderr
