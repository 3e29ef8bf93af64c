"""Several servers for one model: runs go on elsewhere while nothing has been answered, servers come and go, a client that
goes away is gone for the upstream too."""
import concurrent.futures
import contextlib
import io
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from scripted_upstream import TEMPLATE, Handler, Upstream, call
from serving import TENON, free_port, serving
from test_token_servers import WEATHER

CONFIG = """{server}
[[model]]
name = "pool"
engine = "llama-server"
url = {urls}
tool_call_format = "hermes"
"""


class Moody(Handler):
    """Does what its server's mood says, instead of answering."""

    def do_POST(self):
        if self.server.mood == "slow":  # at anything but being met
            time.sleep(2)
        mood = self.server.mood if self.path == "/completion" else ""
        if mood == "closes":  # before any answer
            self.rfile.read(int(self.headers["content-length"]))
            self.server.prompts.append("")
            self.close_connection = True
            return None
        if mood == "streams":
            return self.stream()
        if mood == "refuses grammars":
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.server.bodies.append(body)
            if "grammar" in body:
                answer = b'{"error": {"code": 400, "message": "failed to parse grammar", "type": "invalid_request_error"}}'
                self.send_response(400)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                return self.wfile.write(answer)
            read_again = json.dumps(body).encode()
            self.rfile = io.BytesIO(read_again)
            self.headers.replace_header("content-length", str(len(read_again)))
        return super().do_POST()

    def stream(self):
        """Until the other side is gone."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        self.connection.settimeout(0.005)
        self.server.streaming.set()
        while True:
            if not self.server.is_silent:
                with contextlib.suppress(OSError):
                    self.send_event({"content": "word ", "stop": False})
            try:
                if self.connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.server.gone_at = time.monotonic()
        self.server.gone.set()


class One(Upstream):
    def __init__(self, port=0, mood=""):
        http_server = super(Upstream, self)
        http_server.__init__(("127.0.0.1", port), Moody)
        self.script, self.template, self.prompts, self.mood = lambda prompt: "Hello", TEMPLATE, [], mood
        self.bodies, self.is_silent = [], False
        self.streaming, self.gone, self.gone_at = threading.Event(), threading.Event(), 0.0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self):
        self.shutdown()
        self.server_close()


@contextlib.contextmanager
def pool(folder, urls, server=""):
    config = folder / "tenon.toml"
    config.write_text(CONFIG.format(urls=json.dumps(urls), server=server))
    with serving(folder / "serve.log", "--config", str(config)) as tenon:
        yield tenon


def ask(server, text="Hi", **more):
    body = {"model": "pool", "messages": [{"role": "user", "content": text}], **more}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def metrics(server):
    with urllib.request.urlopen(server.url + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def upstream_metric(server, name, url, **labels):
    text = ",".join(f'{key}="{value}"' for key, value in sorted({"model": "pool", "url": url, **labels}.items()))
    return metrics(server)[f"tenon_upstream_{name}{{{text}}}"]


def wait_for(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_slow_server_is_asked_now_and_then(tmp_path):
    """Each of its answers takes 4 s, with the tokens: the others give 60 meanwhile, and do not wait for it."""
    servers = [One() for _ in range(3)]
    try:
        with pool(tmp_path, [server.url for server in servers]) as tenon:
            for i in range(6):
                ask(tenon, f"warm {i}")
            servers[0].mood = "slow"
            before = len(servers[0].prompts)
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                answers = list(threads.map(lambda i: ask(tenon, f"question {i}"), range(60)))
            assert all(answer["choices"][0]["message"]["content"] == "Hello" for answer in answers)
            assert len(servers[0].prompts) - before <= 8
            servers[0].mood = ""
            wait_for(lambda: ask(tenon, f"later {time.monotonic()}") and len(servers[0].prompts) - before > 20, 30)
    finally:
        for server in servers:
            server.stop()


def test_servers_come_and_go(tmp_path):
    first, second, later = One(), One(), free_port()
    try:
        urls = [first.url, second.url, f"http://127.0.0.1:{later}"]
        with pool(tmp_path, urls) as tenon:
            for i in range(6):
                assert ask(tenon, f"{i}")["choices"][0]["message"]["content"] == "Hello"
            assert len(first.prompts) == len(second.prompts) == 3
            assert [upstream_metric(tenon, "up", url) for url in urls] == [1, 1, 0]
            assert upstream_metric(tenon, "requests_total", first.url, outcome="answered") == 3
            assert upstream_metric(tenon, "first_token_seconds_total", first.url) > 0
            # A server that closes connections costs no client an answer, and is soon left alone, like one that is gone.
            first.mood = "closes"
            for i in range(8):
                assert ask(tenon, f"again {i}")["choices"][0]["message"]["content"] == "Hello"
            assert 3 <= upstream_metric(tenon, "requests_total", first.url, outcome="failed") <= 5
            first.stop()
            for i in range(8):
                assert ask(tenon, f"and again {i}")["choices"][0]["message"]["content"] == "Hello"
            third = One(later)
            try:
                wait_for(lambda: upstream_metric(tenon, "up", third.url) == 1)
                second.stop()
                for i in range(8):  # the tokenizer that asked the second one asks the third
                    assert ask(tenon, f"new text {i}")["choices"][0]["message"]["content"] == "Hello"
            finally:
                third.stop()
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(tenon, "no server is left")
            assert refused.value.code == 503
            assert tenon.is_alive()
    finally:
        for server in (first, second):
            with contextlib.suppress(OSError):
                server.server_close()


def test_the_doctor_tells_each_server(tmp_path):
    here = One()
    config = tmp_path / "tenon.toml"
    nowhere = "http://127.0.0.1:1"
    config.write_text(CONFIG.format(urls=json.dumps([nowhere, here.url]), server=""))
    try:
        result = subprocess.run([str(TENON), "doctor", "--config", str(config), "--json"], capture_output=True, text=True, timeout=60)
        report = json.loads(result.stdout)
        assert result.returncode == 4 and "error" not in report
        assert report["url"] == [nowhere, here.url] and report["context_tokens"] == 1 << 20
        down, up = report["servers"]
        assert up == {"url": here.url, "up": True}
        assert down["url"] == nowhere and not down["up"] and "127.0.0.1:1" in down["error"]
    finally:
        here.stop()


def test_a_grammar_that_is_refused_is_left_out(tmp_path):
    server = One(mood="refuses grammars")
    server.script = lambda prompt: call("get_weather", {"city": "Paris"})
    try:
        with pool(tmp_path, [server.url]) as tenon:
            answer = ask(tenon, tools=[WEATHER], tool_choice="required")
            assert ["grammar" in body for body in server.bodies] == [True, False]
            assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
            told = answer["tenon"]
            assert told["guarantee"] == "validated"
            assert [repair["code"] for repair in told["repairs"]] == ["not_held"] and "grammar" in json.dumps(told["repairs"])
    finally:
        server.stop()


@pytest.mark.serial
def test_a_client_that_goes_away_is_gone_for_the_upstream_within_100_ms(tmp_path):
    server = One(mood="streams")
    try:
        with pool(tmp_path, [server.url]) as tenon:
            for is_silent in (False, True):
                server.is_silent = is_silent
                server.streaming.clear()
                server.gone.clear()
                body = json.dumps({"model": "pool", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()
                with socket.create_connection(("127.0.0.1", tenon.port)) as client:
                    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                                   + f"content-length: {len(body)}\r\n\r\n".encode() + body)
                    assert server.streaming.wait(10)
                    if not is_silent:
                        assert client.recv(4096)
                gone_at = time.monotonic()
                assert server.gone.wait(10)
                assert server.gone_at - gone_at < 0.1
                wait_for(lambda: upstream_metric(tenon, "runs", server.url) == 0)
            assert upstream_metric(tenon, "requests_total", server.url, outcome="cancelled") == 2
    finally:
        server.stop()


@pytest.mark.serial
def test_a_server_that_hangs_costs_half_of_the_time(tmp_path):
    hanging, well = One(mood="streams"), One()
    hanging.is_silent = True
    try:
        with pool(tmp_path, [hanging.url, well.url], "[server]\nrequest_timeout_s = 6\n") as tenon:
            for i in range(2):  # of which one goes to the one that hangs
                begun = time.monotonic()
                assert ask(tenon, f"{i}")["choices"][0]["message"]["content"] == "Hello"
                assert time.monotonic() - begun < 5
            assert hanging.gone.wait(5)
            assert upstream_metric(tenon, "requests_total", hanging.url, outcome="failed") >= 1
    finally:
        hanging.stop()
        well.stop()


@pytest.mark.serial
def test_the_deadline_is_that_of_all_attempts(tmp_path):
    servers = [One(mood="streams"), One(mood="streams")]
    for server in servers:
        server.is_silent = True
    try:
        with pool(tmp_path, [server.url for server in servers], "[server]\nrequest_timeout_s = 1\n") as tenon:
            def timed(i):
                begun = time.monotonic()
                with contextlib.suppress(urllib.error.HTTPError):
                    ask(tenon, f"{i}")
                return time.monotonic() - begun
            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                assert all(0.9 < took < 2.5 for took in threads.map(timed, range(4)))
            assert all(server.gone.wait(5) for server in servers)
    finally:
        for server in servers:
            server.stop()
