"""Twenty seconds of bench/soak.py find nothing, and what it must find it finds."""
import argparse
import json
import subprocess
import sys
import time

import pytest
from serving import ROOT, TENON

sys.path.insert(0, str(ROOT / "bench"))
import soak  # noqa: E402
from soak_upstream import arguments_of, text_pieces  # noqa: E402

MINE, OTHER = "x00000100000", "x00000200000"


def test_twenty_seconds_find_nothing(tmp_path):
    figures = tmp_path / "soak.json"
    done = subprocess.run([sys.executable, ROOT / "bench" / "soak.py", "--minutes", "0.3", "--tenon", TENON, "--json", figures, "--every", "2"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    found = json.loads(figures.read_text())
    answered = {name: count for name, count in found["counts"].items() if name.startswith("answered")}
    assert len(answered) == 3 and min(answered.values()) > 5, found["counts"]
    assert found["counts"]["upstreams killed"] and found["counts"]["reloads"] and len(found["errors"]) > 5, found
    assert found["samples"] and found["figures"]["counted"] > 100


def soak_of(tmp_path):
    return soak.Soak(argparse.Namespace(seed=1, minutes=1, load=0.7, every=1, json=None), tmp_path)


def turn_of(what="say", fault="ok", at=0, where="*", model="llama"):
    turn = soak.Turn("chat", model, True, [MINE], what, 3, fault)
    turn.at, turn.where = at, where
    return turn


def answer_of(text="", calls=(), error=None, status=200, message=""):
    answer = soak.Answer()
    answer.status, answer.text, answer.calls, answer.error, answer.message = status, text, list(calls), error, message
    answer.is_ended = answer.is_done = not error
    return answer


PIECES = text_pieces([MINE], 3)
WHOLE = "".join(PIECES)
CALL = ["call_1", "look_up", json.dumps(arguments_of([MINE], 3))]


@pytest.mark.parametrize("turn, answer, what", [
    (turn_of(), answer_of(WHOLE), ""),
    (turn_of(), answer_of("".join(PIECES[:2] + PIECES[1:])), "wrong"),
    (turn_of(), answer_of("".join(PIECES[:2] + PIECES[3:])), "wrong"),
    (turn_of(), answer_of(WHOLE + f" {OTHER}.0"), "wrong"),
    (turn_of(), answer_of(WHOLE, [CALL]), "wrong"),
    (turn_of("call"), answer_of("", [CALL]), ""),
    (turn_of("call"), answer_of("", [CALL, CALL]), "wrong"),
    (turn_of("call"), answer_of("", [[*CALL[:2], CALL[2].replace(MINE, OTHER)]]), "wrong"),
    (turn_of(), answer_of("", error="engine_error", status=503), "without a cause"),
    (turn_of(fault="cut", at=2), answer_of(WHOLE[:30], error="engine_error"), ""),
    (turn_of(fault="cut", at=2), answer_of(WHOLE), "in spite of its fault"),
    (turn_of(fault="cut", at=2), answer_of(f"Answer to {OTHER}", error="engine_error"), "does not begin"),
    (turn_of(fault="cut", at=2), answer_of("", error="context_length_exceeded", status=400), "must be one of"),
    (turn_of(fault="429"), answer_of("", error="engine_busy", status=429), ""),
    (turn_of(fault="429"), answer_of("", error="engine_error", status=503), "must be one of"),
    (turn_of(fault="400"), answer_of("", error="invalid_value", status=400, message=f"{MINE} meets 400"), ""),
    (turn_of(fault="400"), answer_of("", error="invalid_value", status=400, message=f"{OTHER} meets 400"), "upstream's words"),
    # One server of three fails before the answer: the others are there. Behind the first piece it may fail.
    (turn_of(fault="500", where="1", model="pool"), answer_of(WHOLE), ""),
    (turn_of(fault="500", where="1", model="pool"), answer_of("", error="engine_error", status=503), "without a cause"),
    (turn_of(fault="cut", at=2, where="1", model="pool"), answer_of(WHOLE[:30], error="engine_error"), ""),
])
def test_what_is_a_finding(turn, answer, what, tmp_path):
    one = soak_of(tmp_path)
    is_answer = one.judge(turn, answer, 1, 2) is not None
    assert is_answer == (not what and not answer.error)
    assert bool(one.findings) == bool(what) and what in "".join(one.findings), one.findings


@pytest.mark.parametrize("model, begin, end, is_explained", [("llama", 4, 6, True), ("llama", 7, 8, True), ("llama", 12, 13, False), ("llama", 1, 4, False),
                                                             ("pool", 4, 6, True), ("pool", 7, 8, False), ("vllm", 4, 6, False)])
def test_what_a_killed_server_explains(model, begin, end, is_explained, tmp_path):
    one = soak_of(tmp_path)
    for killed in ("llama", "pool"):
        trouble = soak.Disturbance(killed, killed == "pool")
        trouble.begin, trouble.end = 5, 9
        one.disturbances.append(trouble)
    one.judge(turn_of(model=model), answer_of(error="engine_error", status=503), begin, end)
    assert bool(one.findings) != is_explained


@pytest.mark.parametrize("asked, is_found", [(0, True), (1, False), (2, True)])
def test_an_upstream_is_asked_once(asked, is_found, tmp_path):
    one = soak_of(tmp_path)
    one.judge(turn_of(), answer_of(WHOLE), 1, 2)
    one.asked[MINE] = asked
    one.check_asked(time.monotonic())
    assert bool(one.findings) == is_found and not one.asked


@pytest.mark.parametrize("memory, is_found", [(lambda i: 100 + i % 7, False), (lambda i: 100 + i * 0.5, True), (lambda i: 100 + min(i, 40), False)])
def test_growth_of_the_second_half_is_found(memory, is_found, tmp_path):
    one = soak_of(tmp_path)
    one.figures = {"lasted_s": 1000}
    one.samples = [{"memory_mb": memory(i), "rss_mb": 200 + i, "own_fds": 30, "fds": 100 + i, "threads": 30} for i in range(100)]
    one.check_growth()
    assert bool(one.findings) == is_found


EVENTS = {
    "chat": [{"id": "a", "choices": [{"delta": {"content": "Hello"}, "finish_reason": None}]}, {"id": "a", "choices": [{"delta": {}, "finish_reason": "stop"}]}],
    "messages": [{"type": "message_start", "message": {"id": "a"}}, {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
                 {"type": "message_stop"}],
    "responses": [{"type": "response.output_text.delta", "sequence_number": 0, "delta": "Hello"},
                  {"type": "response.completed", "sequence_number": 1, "response": {"id": "a", "status": "completed", "output": [
                      {"type": "message", "content": [{"text": "Hello"}]}]}}],
}


@pytest.mark.parametrize("dialect", EVENTS)
@pytest.mark.parametrize("change, is_whole", [("", True), ("no end", False), ("twice", False), ("behind the end", False)])
def test_a_stream_ends_once(dialect, change, is_whole):
    events = EVENTS[dialect]
    events = {"no end": events[:-1], "twice": [*events, events[-1]], "behind the end": [*events, events[-2]]}.get(change, events)
    answer = soak.Answer()
    for event in events:
        answer.read_event(dialect, json.dumps(event))
    is_right = answer.is_ended and not answer.wrong and answer.text == "Hello"
    assert is_right == is_whole
