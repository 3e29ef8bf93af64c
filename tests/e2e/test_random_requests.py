"""No request ends the server, and none costs too much: the first 400 requests of random_requests.py, two clients at once. With
TENON_LONG=1 others each time, as many as an hour lets them be, a hundred thousand at most."""
import contextlib
import os
import pathlib
import random
import sys
import time

import pytest
import request_storm
from random_requests import Request, request_of
from request_storm import Storm, faults_of, mask_storm
from serving import TENON, Server, free_port, other_server

IS_LONG = bool(os.environ.get("TENON_LONG"))
COUNT = 100_000 if IS_LONG else 400
HAS_SANITIZER = b"__asan_init" in TENON.read_bytes() or b"__tsan_init" in TENON.read_bytes()  # all costs several times as much
LEAST = 5_000 if IS_LONG else COUNT  # that are sent within an hour, on a slow machine too


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


# A server that does what the path says.
PLAYED = """
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def do_GET(self):
        body = b'{"status": "ok"}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/silent":
            self.close_connection = True
            return
        until = time.process_time() + 0.4
        while self.path == "/costly" and time.process_time() < until: pass
        self.do_GET()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@contextlib.contextmanager
def played(log, *arguments, **options):
    port = free_port()
    with other_server(pathlib.Path(log), [sys.executable, "-c", PLAYED, str(port)], f"http://127.0.0.1:{port}/health") as process:
        yield Server(process, port, pathlib.Path(log))


@pytest.mark.parametrize("path, read, clients, what", [("/silent", None, 1, "no answer"), ("/costly", None, 2, "CPU time"), ("/costly", 0, 1, "CPU time"),
                                                       ("/costly", 0, 2, "CPU time"), ("/cheap", 0, 2, "")])
def test_a_storm_finds_the_request_with_a_fault_and_no_other(path, read, clients, what, tmp_path, monkeypatch):
    monkeypatch.setattr(request_storm, "serving", played)
    monkeypatch.setattr(request_storm, "write_shallow", lambda *paths: "")
    latest = time.monotonic() + 100
    faulty, other = Request("POST", path, b"{}", {}, read=read), Request("POST", "/", b"{}", {})
    storm = Storm(1, clients, cpu_s=0.2, draw=lambda seed, number: faulty if number == 7 else other).run(0, 30, tmp_path, latest)
    assert time.monotonic() < latest and storm.sent == 30  # it ends by itself
    assert [(number, what in told) for number, told in storm.finds] == ([(7, True)] if what else []), storm.finds


def test_no_request_ends_the_server_and_each_has_its_answer(tmp_path):
    seed = random.randrange(1 << 30) if IS_LONG else 1
    storm = Storm(seed, 2, cpu_s=20 if HAS_SANITIZER else 2).run(0, COUNT, tmp_path, time.monotonic() + 3600)
    assert storm.ends == 0 and not storm.finds, (seed, storm.finds[:5])
    assert storm.sent >= LEAST and storm.counts[200] > 10 and storm.counts[400] > 10, storm.counts


def test_no_grammar_ends_the_command():
    assert mask_storm(1, 0, 20_000 if IS_LONG else 150) == 0
