"""Starting `tenon serve` and stopping it again."""
import contextlib
import itertools
import os
import pathlib
import random
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(tenon VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
TENON = pathlib.Path(os.environ.get("TENON_BIN", ROOT / "build/release/bin/tenon"))


WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
FIRST_PORT, LAST_PORT = 10_000, 32_000  # below those that the kernel gives to connections
# Where this process looks next: processes of one run have ranges of their own, and runs begin at places of their own.
_span = (LAST_PORT - FIRST_PORT) // max(WORKERS, 1)
_ports = itertools.cycle(range(FIRST_PORT + WORKER * _span, FIRST_PORT + (WORKER + 1) * _span))
for _ in range(random.SystemRandom().randrange(_span)):
    next(_ports)


def free_port():
    """A port that no process listens on, and that no other process of this run is given."""
    for port in itertools.islice(_ports, _span):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Server:
    """A running `tenon serve`."""

    def __init__(self, process, port, log, scheme="http"):
        self.process, self.port, self.log = process, port, log
        self.url = f"{scheme}://127.0.0.1:{port}"

    def is_alive(self):
        return self.process.poll() is None


@contextlib.contextmanager
def serving(log, *arguments, env=None, ready_s=60, poll_s=0.02, tls=None):
    """Starts `tenon serve` with `arguments` on a free port, waits until it is ready, stops it at the end. `tls`: an
    SSLContext that knows the certificate that it has."""
    port = free_port()
    with open(log, "wb") as output:
        process = subprocess.Popen([str(TENON), "serve", "--port", str(port), *arguments], cwd=ROOT,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(env or {})})
    try:
        server = Server(process, port, pathlib.Path(log), "https" if tls else "http")
        wait_until_ready(server, ready_s, poll_s, tls)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("tenon serve did not stop within 15 s of SIGTERM")


def wait_until_ready(server, ready_s, poll_s, tls):
    process, log = server.process, server.log
    deadline = time.monotonic() + ready_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"tenon serve ended with {process.returncode}:\n{log.read_text()}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(server.url + "/health", timeout=2, context=tls) as answer:
                if answer.status == 200:
                    return
        time.sleep(poll_s)
    raise AssertionError(f"tenon serve was not ready within {ready_s} s:\n{log.read_text()}")


@contextlib.contextmanager
def other_server(log, command, url, env=None, ready_s=120):
    """A program that is not ours: starts `command`, waits until `url` answers with 200, ends it at the end."""
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(env or {})})
    try:
        deadline = time.monotonic() + ready_s
        while True:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(url, timeout=2):
                break
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
