"""`tenon verify`: it finds every fault of a faulty server by a check whose name says it, and no fault in ours."""
import contextlib
import http.server
import json
import subprocess
import threading
import time

import pytest
from faulty_server import FAULTS
from serving import TENON, free_port

DIALECTS = ("chat", "responses", "messages")


def verify(*arguments):
    return subprocess.run([str(TENON), "verify", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


def report_of(done):
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def with_verdict(report, verdict):
    return {f"{result['group']}/{result['check']}": result["why"] for result in report["results"] if result["verdict"] == verdict}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_server_with_a_played_engine_fails_nothing(player, dialect):
    report = report_of(verify("--url", player.url, "--dialect", dialect, "--played", "--json", "-"))
    assert not with_verdict(report, "fail")
    assert not with_verdict(report, "undecided")
    formats = ("date", "time", "date_time", "email", "uuid", "ipv4")
    assert with_verdict(report, "not supported").keys() == {f"schemas/format_{name}" for name in formats}
    assert report["counts"]["pass"] + len(formats) == report["of"] >= 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_server_with_the_bundled_model_fails_nothing(server, dialect):
    """In Chat all groups; of the other dialects those that depend on them."""
    groups = [] if dialect == "chat" else ["protocol", "streaming", "choice", "history", "structured", "determinism"]
    report = report_of(verify("--url", server.url, "--dialect", dialect, "--tries", "1", "--json", "-", *(f"--group={group}" for group in groups)))
    assert not with_verdict(report, "fail")


def test_no_false_alarm_without_a_fault(faulty):
    report = report_of(verify("--url", faulty.url, "--model", "played", "--played", "--json", "-"))
    assert not with_verdict(report, "fail")


@pytest.mark.parametrize("name", FAULTS)
def test_finds_the_fault(faulty, name):
    check, _ = FAULTS[name]
    done = verify("--url", faulty.url, "--model", f"played+{name}", "--played", "--group", check, "--json", "-")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    why = with_verdict(report_of(done), "fail")[check]
    assert "no answer" not in why  # the proxy itself is right


def test_reports(player, tmp_path):
    done = verify("--url", player.url + "/v1", "--group", "choice", "--group", "protocol/usage_is_there", "--played",
                  "--json", str(tmp_path / "v.json"), "--html", str(tmp_path / "v.html"))
    assert done.returncode == 0 and "\n  choice " in done.stdout, done.stdout + done.stderr
    report = json.loads((tmp_path / "v.json").read_text())
    assert {result["group"] for result in report["results"]} == {"choice", "protocol"}
    assert report["model"] == "played" and report["counts"]["pass"] == len(report["results"])
    [exchange] = report["results"][0]["exchanges"]
    assert exchange["path"] == "/v1/chat/completions" and exchange["status"] == 200
    assert json.loads(exchange["sent"])["model"] == "played" and "chat.completion" in exchange["came"]
    page = (tmp_path / "v.html").read_text()
    assert "src=" not in page and "href=" not in page and "choice/named_is_called" in page


@contextlib.contextmanager
def serving_answers(answer, metrics=lambda: "running 0"):
    """`answer(handler, body)` answers each POST and returns (status, document, headers), or None if it wrote by itself.
    `metrics()` is the text at /metrics."""
    class Answering(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_GET(self):
            self.send(200, metrics() if self.path == "/metrics" else {"data": [{"id": "m"}]}, {})

        def do_POST(self):
            said = answer(self, self.rfile.read(int(self.headers["content-length"])))
            if said is not None:
                self.send(*said)

        def send(self, status, document, headers):
            data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            pass  # a client that has gone away

    server = Quiet(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def error_of(message):
    return {"error": {"message": message, "type": "invalid_request_error"}}


def text_answer(text):
    return {"id": "a", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}


@pytest.mark.parametrize("status, document, headers, words", [
    (401, error_of("no such key"), {}, "no such key"),
    (403, {"message": "not for you"}, {}, "not for you"),
    (404, {"detail": "Not Found"}, {}, "Not Found"),
    (308, {}, {"location": "/elsewhere"}, "status 308"),
    (429, error_of("come back later"), {"retry-after": "0"}, "come back later"),
])
def test_a_server_that_refuses_everything_is_not_judged(status, document, headers, words):
    with serving_answers(lambda handler, body: (status, document, headers)) as url:
        done = verify("--url", url, "--json", "-")
    assert done.returncode == 2 and words in done.stderr and not done.stdout


def test_learns_what_the_server_refuses():
    """As OpenAI's newer models do: no temperature, and another name for the limit."""
    def answer(handler, body):
        asked = json.loads(body)
        for key in ("temperature", "max_tokens"):
            if key in asked:
                return 400, error_of(f"Unsupported parameter: '{key}' is not supported with this model."), {}
        assert asked["max_completion_tokens"] == 700
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "protocol/text_is_answered", "--max-tokens", "700", "--json", "-"))
    assert report["counts"]["pass"] == 1


def test_finds_how_messages_wants_its_key(monkeypatch):
    monkeypatch.setenv("TENON_API_KEY", "secret-417-417")

    def answer(handler, body):
        if handler.headers["authorization"] != "Bearer secret-417-417":
            return 401, error_of("Unauthorized"), {}
        return 200, {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                     "content": [{"type": "text", "text": "Hello."}]}, {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--dialect", "messages", "--group", "protocol/text_is_answered", "--json", "-"))
    assert report["counts"]["pass"] == 1


def test_the_key_is_not_in_the_reports(monkeypatch, tmp_path):
    monkeypatch.setenv("TENON_API_KEY", "secret-417-417")

    def answer(handler, body):
        return 400, error_of("you sent " + handler.headers["authorization"]), {}

    with serving_answers(answer) as url:
        done = verify("--url", url, "--group", "protocol/text_is_answered", "--json", "-", "--html", str(tmp_path / "v.html"))
    page = (tmp_path / "v.html").read_text()
    assert "you sent Bearer ***" in done.stdout and "you sent Bearer ***" in page
    assert "secret-417-417" not in done.stdout + done.stderr + page


def test_each_try_asks_again():
    asked = []

    def answer(handler, body):
        asked.append(json.loads(body))
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "choice/auto_may_call", "--tries", "4", "--json", "-"))
    assert report["counts"]["undecided"] == 1
    assert [body["temperature"] for body in asked[1:]] == [0, 0.8, 0.8, 0.8] and not any("seed" in body for body in asked)


def test_a_busy_or_lost_answer_is_asked_again():
    asked = []

    def answer(handler, body):
        asked.append(body)
        if len(asked) == 2:
            handler.close_connection = True
            return None
        if len(asked) == 3:
            return 429, error_of("too many requests"), {"retry-after": "0"}
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "protocol/text_is_answered", "--json", "-"))
    assert report["counts"]["pass"] == 1 and len(asked) == 4


def test_a_flat_error_is_a_clear_refusal():
    def answer(handler, body):
        return (400, {"object": "error", "message": "no tools here"}, {}) if b'"tools"' in body else (200, text_answer("Hello."), {})

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "choice/auto_may_call", "--json", "-"))
    assert with_verdict(report, "not supported") == {"choice/auto_may_call": "status 400: no tools here"}


def test_a_stream_that_is_cut_is_shown_and_found():
    def answer(handler, body):
        if not json.loads(body).get("stream"):
            return 200, text_answer("Hello."), {}
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", "100000")
        handler.end_headers()
        chunk = {"id": "a", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]}
        handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        handler.close_connection = True
        return None

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "streaming/ends_with_done", "--json", "-"))
    [result] = report["results"]
    assert result["verdict"] == "fail" and "the stream was cut" in result["why"] and '"Hel"' in result["exchanges"][-1]["came"]


def test_a_server_that_hangs_ends_the_run():
    asked = []

    def answer(handler, body):
        asked.append(body)
        if len(asked) > 1:
            time.sleep(3)
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        done = verify("--url", url, "--group", "protocol", "--timeout", "1", "--json", "-", "--html", "/dev/null")
    report = json.loads(done.stdout)
    assert done.returncode == 2 and len(report["results"]) < 5 < report["of"]


def test_a_request_that_hangs_fails():
    def answer(handler, body):
        if len(json.loads(body)["messages"]) > 50:
            time.sleep(2)
        return 200, text_answer("Hello."), {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "limits/many_messages", "--timeout", "1", "--json", "-"))
    assert "though a plain question has one" in with_verdict(report, "fail")["limits/many_messages"]


def test_a_context_of_unknown_length_costs_one_prompt():
    asked = []

    def answer(handler, body):
        asked.append(len(body))
        return 200, {**text_answer("Hello."), "usage": {"prompt_tokens": 10**7, "completion_tokens": 3}}, {}

    with serving_answers(answer) as url:
        report = report_of(verify("--url", url, "--group", "limits/context_overflow_is_told", "--json", "-"))
    assert report["counts"]["undecided"] == 1 and len(asked) == 2


def test_nothing_is_cancelled_where_nothing_was_under_way():
    def answer(handler, body):
        return (500, error_of("broken"), {}) if b"one thousand" in body else (200, text_answer("Hello."), {})

    with serving_answers(answer, lambda: "vllm:num_requests_running 0\n") as url:
        report = report_of(verify("--url", url, "--group", "cancellation", "--json", "-"))
    assert with_verdict(report, "undecided").keys() == {"cancellation/stream_ends_with_its_client", "cancellation/document_ends_with_its_client"}


def test_a_figure_that_is_set_with_the_next_token_is_no_false_alarm():
    """As vLLM's: it says 1 until another request has a token computed."""
    running = [0]

    def answer(handler, body):
        if b"one thousand" not in body:
            running[0] = 0
            return 200, text_answer("Hello."), {}
        running[0] = 1
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        for _ in range(60):
            handler.wfile.write(b"data: {}\n\n")
            time.sleep(0.1)
        return None

    with serving_answers(answer, lambda: f"vllm:num_requests_running {running[0]}\n") as url:
        report = report_of(verify("--url", url, "--group", "cancellation/stream_ends_with_its_client", "--json", "-"))
    assert report["counts"]["pass"] == 1, report["results"][0]["why"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "data: x\n\n" * 2_000_000, "[" * 200_000, "\ud800"])
def test_a_hostile_server_harms_no_report(text, tmp_path):
    def answer(handler, body):
        stream = json.loads(body).get("stream")
        return 200, text.encode("utf-8", "surrogatepass").decode("latin-1") if stream else text_answer(text), {}

    with serving_answers(answer) as url:
        done = verify("--url", url, "--group", "streaming/events_are_json", "--group", "streaming/ends_with_done",
                      "--json", str(tmp_path / "v.json"), "--html", str(tmp_path / "v.html"))
    assert done.returncode == 1
    assert json.loads((tmp_path / "v.json").read_text())["counts"]["fail"] > 0
    page = (tmp_path / "v.html").read_text()
    assert "<script" not in page and len(page) < 20_000_000


def test_an_interrupted_run_tells_what_it_has():
    count, asked = iter(range(1000)), threading.Event()

    def answer(handler, body):
        if next(count) == 2:
            asked.set()
        time.sleep(0.3)
        return 400, error_of("no"), {}

    with serving_answers(answer) as url:
        run = subprocess.Popen([str(TENON), "verify", "--url", url, "--model", "m", "--json", "-"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert asked.wait(timeout=30)
        run.terminate()
        out, _ = run.communicate(timeout=60)
    report = json.loads(out)
    assert run.returncode == 143 and 0 < len(report["results"]) < report["of"]


def test_command_line(tmp_path):
    listed = verify("--list", "--group", "choice")
    assert listed.returncode == 0 and "choice/none_makes_no_call: Does `none` keep calls away?\n" in listed.stdout
    unreachable = verify("--url", f"http://127.0.0.1:{free_port()}")
    assert unreachable.returncode == 2 and "cannot be reached" in unreachable.stderr
    assert verify("--url", "http://127.0.0.1:1", "--group", "nonsense").returncode == 2
    assert verify("--url", "ftp://x").returncode == 2
    assert "stdout" in verify("--url", "http://127.0.0.1:1", "--json", "-", "--html", "-").stderr
    assert "cannot be written" in verify("--url", "http://127.0.0.1:1", "--html", str(tmp_path / "no" / "v.html")).stderr
    assert verify().returncode == 2
