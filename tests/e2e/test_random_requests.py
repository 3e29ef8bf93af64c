"""No request ends the server: a sample of the requests of random_requests.py, two clients at once. With TENON_LONG=1 a hundred
thousand, and each one's cost."""
import os
import random
import time

import pytest
from random_requests import request_of
from request_storm import Storm, faults_of, mask_storm
from serving import TENON

IS_LONG = bool(os.environ.get("TENON_LONG"))
COUNT = 100_000 if IS_LONG else 400
HAS_SANITIZER = b"__asan_init" in TENON.read_bytes() or b"__tsan_init" in TENON.read_bytes()  # all costs several times as much
SECONDS = 3600 if IS_LONG else 12


def test_a_request_is_the_same_each_time():
    some = [request_of(3, number) for number in range(300)]
    assert some == [request_of(3, number) for number in range(300)]
    assert some != [request_of(4, number) for number in range(300)]
    assert {request.path for request in some} >= {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/tokenize"}


@pytest.mark.parametrize("answer, fault", [
    ((200, {"content-type": "application/json"}, b"{}"), ""),
    ((400, {"content-type": "application/json"}, b'{"error": {"code": "invalid_json"}}'), ""),
    ((500, {"content-type": "application/json"}, b'{"error": {"code": "internal_error"}}'), "status 500"),
    ((200, {"content-type": "application/json"}, b"{"), "not JSON"),
    ((200, {"content-type": "text/event-stream"}, b'data: {"choices": []}\n\ndata: [DONE]\n\n'), ""),
    ((200, {"content-type": "text/event-stream"}, b'data: {"choices": []}\n\n'), "without an end"),
    ((200, {"content-type": "text/event-stream"}, b'data: {"error": {"code": "engine_error"}}\n\ndata: [DONE]\n\n'), "fails"),
    ((200, {"content-type": "text/event-stream"}, b'event: x\ndata: {"type": "message_stop"}\n\n'), ""),
    ((200, {"content-type": "text/event-stream"}, b'data: {"type": "response.failed"}\n\n'), "fails"),
])
def test_what_is_a_fault(answer, fault):
    assert fault in faults_of(answer) and bool(faults_of(answer)) == bool(fault)


def test_no_request_ends_the_server_and_each_has_its_answer(tmp_path):
    seed = random.randrange(1 << 30) if IS_LONG else 1
    storm = Storm(seed, 2, cpu_s=20 if HAS_SANITIZER else 2).run(0, COUNT, tmp_path, time.monotonic() + SECONDS)
    assert storm.ends == 0 and not storm.finds, (seed, storm.finds[:5])
    assert storm.sent > 50 and storm.counts[200] > 10 and storm.counts[400] > 10, storm.counts


def test_no_grammar_ends_the_command():
    assert mask_storm(1, 0, 20_000 if IS_LONG else 150) == 0
