"""What a server that dies by a signal leaves behind: a report without contents, what it had kept, clients that may ask again, and
a service that is started anew."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from recursive import get, post
from scripted_upstream import TEMPLATE
from serving import ROOT, TENON, free_port, serving
from test_pools import One

HAS_SANITIZER = b"__asan_init" in TENON.read_bytes()  # its own handler reports SIGSEGV, on stderr, and its status is another
SECRET = "xyzzy-4711"
NOWHERE = "http://127.0.0.1:1"
CHAT = {"model": "pool", "messages": [{"role": "user", "content": SECRET}]}
DIALECTS = {"/v1/chat/completions": CHAT, "/v1/responses": {"model": "pool", "input": SECRET}, "/v1/messages": {**CHAT, "max_tokens": 1000}}


def config(folder, url, engine="llama-server", server=""):
    folder.mkdir(exist_ok=True)
    file = folder / "tenon.toml"
    file.write_text(f"""[server]
{server}
[[model]]
name = "pool"
engine = "{engine}"
url = {json.dumps(url)}
tool_call_format = "hermes"
load = "{'first_use' if url == NOWHERE else 'start'}"
""")
    return str(file)


class Streaming:
    """A client's stream whose first words have come."""

    def __init__(self, server, path, body, request_id="mine-1"):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.connection.request("POST", path, json.dumps({**body, "stream": True}),
                                {"content-type": "application/json", "x-request-id": request_id})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        self.text = b""
        while b"word" not in self.text:
            self.text += self.answer.read1(4096)

    def rest(self):
        """Until its end; whether that was an end or a break."""
        try:
            while piece := self.answer.read1(65536):
                self.text += piece
            return True
        except (OSError, http.client.HTTPException):
            return False


@contextlib.contextmanager
def upstream(mood, silent=False):
    one = One(mood=mood)
    one.template, one.is_silent = TEMPLATE, silent
    try:
        yield one
    finally:
        one.stop()


def die(server, by=signal.SIGSEGV):
    server.process.send_signal(by)
    return server.process.wait(20)


def dying(*arguments, **options):
    """serving(), of one that need not live at the end."""
    class Dying(contextlib.AbstractContextManager):
        def __enter__(self):
            folder = pathlib.Path(arguments[0]).parent  # where its reports go, unless the test says something else
            self.inner = serving(*arguments, **{"env": {"XDG_STATE_HOME": str(folder / "state")}, **options})
            return self.inner.__enter__()

        def __exit__(self, *raised):
            with contextlib.suppress(ProcessLookupError):
                return self.inner.__exit__(*raised)

    return Dying()


def signals():
    return [signal.SIGABRT] if HAS_SANITIZER else [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL]


def test_a_report_without_contents_is_written_and_told_at_the_next_start(tmp_path):
    crashes = tmp_path / "crashes"
    with upstream("streams") as engine, upstream("") as well:
        settings = f'crash_dir = "{crashes}"\nstore = "{tmp_path / "responses.db"}"\n'
        for number, by in enumerate(signals(), 1):
            log = tmp_path / f"serve{number}.log"
            with dying(log, "--config", config(tmp_path, well.url, server=settings)) as server:
                _, kept = post(server, "/v1/responses", {"model": "pool", "input": "keep this"})
                die(server, signal.SIGKILL)
            with dying(log, "--config", config(tmp_path, engine.url, server=settings)) as server:
                streams = [Streaming(server, path, body, f"mine-{i}") for i, (path, body) in enumerate(DIALECTS.items())]
                assert die(server, by) == -by
                assert not any(stream.rest() for stream in streams)  # none of them ends as if it were whole
            reports = sorted(crashes.glob("tenon-*.crash"), key=os.path.getmtime)
            assert len(reports) == number
            assert reports[-1].stat().st_mode & 0o777 == 0o600
            text = reports[-1].read_text()
            version = subprocess.run([str(TENON), "--version"], capture_output=True, text=True).stdout.split()[1]
            assert text.startswith(f"Tenon {version} dies by {by.name} from process {os.getpid()}\n")
            assert re.search(r"^build: [0-9a-f]{16,}$", text, re.M)
            for i, path in enumerate(DIALECTS):
                assert f"\n  {path} mine-{i}\n" in text
            assert re.search(r"\nstack:\n(  \S+\+0x[0-9a-f]+\n){3}", text)
            assert SECRET not in text and "word" not in text
            assert text in log.read_text()
            with serving(tmp_path / "next.log", "--config", config(tmp_path, well.url, server=settings)) as server:
                assert get(server, f"/v1/responses/{kept['id']}")["output"][-1]["content"][0]["text"] == "Hello"
            told = [line for line in (tmp_path / "next.log").read_text().splitlines() if "crashed before" in line]
            assert len(told) == 1 and str(reports[-1]) in told[0]


def test_reports_lie_in_the_state_folder_unless_they_are_not_wanted(tmp_path):
    for settings, count in (("", 1), ("crash_reports = false\n", 1)):
        with dying(tmp_path / "serve.log", "--config", config(tmp_path, NOWHERE, "openai", settings), env={"XDG_STATE_HOME": str(tmp_path)}) as server:
            assert die(server, signal.SIGABRT) == -signal.SIGABRT
        assert "requests in work:" in (tmp_path / "serve.log").read_text()
        assert len(list((tmp_path / "tenon" / "crashes").glob("*.crash"))) == count


def test_a_folder_that_cannot_be_written_is_told_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    ended = subprocess.run([str(TENON), "serve", "--port", "0", "--config", config(tmp_path, NOWHERE, "openai", f'crash_dir = "{tmp_path / "file"}"')],
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode == 3 and "crash_dir" in ended.stderr


# ---- a gateway in front

@contextlib.contextmanager
def gateway(folder, urls):
    (folder / "front").mkdir(exist_ok=True)
    with serving(folder / "front.log", "--config", config(folder / "front", urls, "openai")) as server:
        yield server


def backend(folder, name, engine):
    return dying(folder / f"{name}.log", "--config", config(folder / name, engine.url))


def events_of(text):
    return [json.loads(line[6:]) for line in text.decode().split("\n") if line.startswith("data: ") and line != "data: [DONE]"]


def test_a_stream_of_a_gateway_ends_with_an_error_where_its_server_dies(tmp_path):
    with upstream("streams") as engine:
        for path, body in DIALECTS.items():
            with backend(tmp_path, "back", engine) as back, gateway(tmp_path, back.url) as front:
                stream = Streaming(front, path, body)
                die(back)
                assert stream.rest()
                last = events_of(stream.text)[-1]
                if path == "/v1/chat/completions":
                    assert last["error"]["type"] == "overloaded_error" and last["error"]["code"] == "engine_error", last
                    assert stream.text.endswith(b"data: [DONE]\n\n")
                elif path == "/v1/responses":
                    assert last["type"] == "response.failed" and last["response"]["error"]["code"] == "server_error", last
                else:
                    assert last["type"] == "error" and last["error"]["type"] == "overloaded_error", last
                assert front.is_alive()


def test_before_the_first_word_a_gateway_answers_503_where_its_only_server_dies(tmp_path):
    with upstream("streams", silent=True) as engine:
        for path, body in DIALECTS.items():
            for stream in (False, True):
                engine.streaming.clear()
                with backend(tmp_path, "back", engine) as back, gateway(tmp_path, back.url) as front:
                    told = []
                    client = threading.Thread(target=lambda: told.append(refused(front, path, {**body, "stream": stream})))  # noqa: B023
                    client.start()
                    assert engine.streaming.wait(20)
                    die(back)
                    client.join(20)
                    status, headers, error = told[0]
                    assert status == 503 and int(headers["retry-after"]) > 0
                    assert error["error"]["type"] == "overloaded_error" and error["error"]["code"] == "engine_error"
                    assert (error.get("type") == "error") == (path == "/v1/messages")


def refused(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=30)
    return raised.value.code, raised.value.headers, json.load(raised.value)


def test_before_the_first_word_a_gateway_asks_another_server_where_one_dies(tmp_path):
    with upstream("streams", silent=True) as hanging, upstream("") as well, backend(tmp_path, "first", hanging) as first, \
            backend(tmp_path, "second", well) as second, gateway(tmp_path, [first.url, second.url]) as front:
        answers = []
        clients = [threading.Thread(target=lambda i=i: answers.append(post(front, "/v1/chat/completions", {**CHAT, "seed": i}))) for i in range(4)]
        for client in clients:
            client.start()
        assert hanging.streaming.wait(20)
        time.sleep(0.2)
        die(first)
        for client in clients:
            client.join(30)
        assert [status for status, _ in answers] == [200] * 4
        assert {answer["choices"][0]["message"]["content"] for _, answer in answers} == {"Hello"}


# ---- the service

# Lines about the system's service manager, or about a user and folders that do not exist here.
NOT_OF_A_USER = re.compile(r"^(User|Group|StateDirectory|StateDirectoryMode|WorkingDirectory|EnvironmentFile|Environment|ExecStart|Protect\w+|Private\w+|Capability\w+|"
                           r"Restrict\w+|System\w+|Remove\w+|Lock\w+|No\w+|Wants|After|WantedBy)=")
MANAGER = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user/0
exec /lib/systemd/systemd --user --unit=basic.target --log-target=console --show-status=no
"""


def is_healthy(port):
    with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
        return answer.status == 200
    return False


def pid_at(port):
    """The process id of the `tenon serve` that was started with this port."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[:2] == [str(TENON).encode(), b"serve"] and str(port).encode() in words:
                return int(entry.name)
    return 0


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_systemd_starts_the_service_again(tmp_path):
    """The unit of the package, in a service manager of a user that has a /run of its own."""
    if not shutil.which("systemctl") or not pathlib.Path("/lib/systemd/systemd").exists() or os.geteuid() != 0:
        pytest.skip("needs systemd and root")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("may not make a mount namespace")
    port, units = free_port(), tmp_path / ".config/systemd/user"
    (units / "basic.target.wants").mkdir(parents=True)
    (units / "basic.target.wants" / "tenon.service").symlink_to(units / "tenon.service")
    lines = [line for line in (ROOT / "packaging/tenon.service").read_text().splitlines() if not NOT_OF_A_USER.match(line)]
    assert "Restart=on-failure" in lines
    at = lines.index("[Service]") + 1
    file = config(tmp_path, NOWHERE, "openai", f'crash_dir = "{tmp_path / "crashes"}"')
    (units / "tenon.service").write_text("\n".join([*lines[:at], f"ExecStart={TENON} serve --port {port} --config {file}", *lines[at:]]))
    with open(tmp_path / "systemd.log", "wb") as log:
        manager = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", MANAGER], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                   env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/run/user/0", "PATH": os.environ["PATH"]})
    try:
        if not wait_for(lambda: is_healthy(port) or manager.poll() is not None) or manager.poll() is not None:
            pytest.skip("no service manager can be run here: " + (tmp_path / "systemd.log").read_text()[-500:])
        # More often than the manager's default allows in ten seconds.
        deaths = 6
        for by in (signals() * deaths)[:deaths]:
            before = pid_at(port)
            os.kill(before, by)
            assert wait_for(lambda: pid_at(port) not in (0, before) and is_healthy(port)), (tmp_path / "systemd.log").read_text()[-2000:]  # noqa: B023
        assert len(list((tmp_path / "crashes").glob("*.crash"))) == deaths
        # Told to stop, it stays away.
        os.kill(pid_at(port), signal.SIGTERM)
        assert wait_for(lambda: pid_at(port) == 0, 20)
        time.sleep(0.5)
        assert pid_at(port) == 0
    finally:
        manager.terminate()
        manager.wait(30)
