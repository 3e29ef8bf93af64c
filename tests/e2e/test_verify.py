"""`tenon verify`: it finds every fault of a faulty server by a check whose name says it, and no fault in ours."""
import http.server
import json
import subprocess
import threading
import time

import pytest
from faulty_server import FAULTS, serving_faults
from serving import TENON, free_port
from verify_player import serving_player

DIALECTS = ("chat", "responses", "messages")


def verify(*arguments):
    return subprocess.run([str(TENON), "verify", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)


def report_of(done):
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def with_verdict(report, verdict):
    return {f"{result['group']}/{result['check']}": result["why"] for result in report["results"] if result["verdict"] == verdict}


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    with serving_player(tmp_path_factory.mktemp("player")) as server:
        yield server


@pytest.fixture(scope="module")
def faulty(player):
    with serving_faults(player.port) as server:
        yield server


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_server_with_a_played_engine_fails_nothing(player, dialect):
    report = report_of(verify("--url", player.url, "--dialect", dialect, "--played", "--json", "-"))
    assert not with_verdict(report, "fail")
    assert not with_verdict(report, "undecided")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_our_server_with_the_bundled_model_fails_nothing(server, dialect):
    """All groups but those that ask the same of every dialect and engine; schemas once, because the masks are the same."""
    groups = ["protocol", "streaming", "choice", "history", "structured", "determinism"] + ["schemas"] * (dialect == "chat")
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
    assert check in with_verdict(report_of(done), "fail")


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


def test_an_interrupted_run_tells_what_it_has():
    asked = threading.Event()

    class Refusing(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            self.do_POST()

        def do_POST(self):
            if self.command == "POST":
                asked.set()
                time.sleep(0.3)
            body = b'{"error": {"message": "no", "type": "invalid_request_error"}}'
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, args=(0.05,), daemon=True).start()
        run = subprocess.Popen([str(TENON), "verify", "--url", f"http://127.0.0.1:{refusing.server_port}", "--model", "m", "--json", "-"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert asked.wait(timeout=30)
        run.terminate()
        out, _ = run.communicate(timeout=60)
        refusing.shutdown()
    report = json.loads(out)
    assert run.returncode == 143 and 0 < len(report["results"]) < report["of"]


def test_command_line(tmp_path):
    listed = verify("--list", "--group", "choice")
    assert listed.returncode == 0 and "choice/none_makes_no_call: Does `none` keep calls away?\n" in listed.stdout
    unreachable = verify("--url", f"http://127.0.0.1:{free_port()}")
    assert unreachable.returncode == 2 and "cannot be reached" in unreachable.stderr
    assert verify("--url", "http://127.0.0.1:1", "--group", "nonsense").returncode == 2
    assert verify("--url", "ftp://x").returncode == 2
    assert verify().returncode == 2
