"""Sends the requests of random_requests.py to `tenon serve`, and tells what must not be. The model is the bundled one's first
layer: what it says does not matter here, and most of the time would be the model's.

    python tests/e2e/request_storm.py --count 100000 --clients 2        # of $TENON_BIN, else of the release binary
    python tests/e2e/request_storm.py --count 20000 --clients 1         # and what each request costs the processor
    python tests/e2e/request_storm.py --first 4711 --count 1 --show     # one of them again
    python tests/e2e/request_storm.py --masks --count 20000             # grammars, by `tenon mask --batch`

A find is: the server ends, or answers another process's health; an answer with 5xx, or none; an answer that is not JSON, or a
stream without an end; a request that takes more CPU time than --cpu-s. Those that seem to take too much are sent again in
the end, each alone, to a server that knows none of them. Exit status 1: there are finds."""
import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

from random_requests import mask_line_of, request_of, text_of
from serving import ROOT, TENON, serving
from shallow_model import write_shallow

BUNDLED = ROOT / "models" / "tenon-tiny.gguf"
CONFIG = """[server]
log_level = "warn"
recursive_pairs = false
[[model]]
name = "tenon-tiny"
path = "{model}"
context_tokens = 4096
max_tokens = 16
"""
BATCH = 500  # requests between two looks at the server's health
ANSWER_S = 120
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def settled(pid):
    """The CPU time of a process that does nothing any more: what a client has left behind may go on for a while."""
    last, still = cpu_seconds(pid), 0
    for _ in range(600):
        time.sleep(0.05)
        now = cpu_seconds(pid)
        still = still + 1 if now - last < 0.01 else 0
        last = now
        if still == 4:
            break
    return last


class Client:
    """One that keeps its connection where the server lets it."""

    def __init__(self, port):
        self.port, self.socket = port, None

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def send(self, request):
        """(status, headers, body); None: the client went away, as the request says."""
        head = f"{request.method} {request.path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        headers = {"content-type": "application/json", **request.headers, "content-length": str(len(request.body))}
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        data = head.encode("latin-1") + request.body
        if request.cut is not None:
            data = data[:len(head) + request.cut]
        is_kept = self.socket is not None
        try:
            return self.exchange(request, data)
        except (OSError, http.client.HTTPException):
            self.close()
            if not is_kept:
                raise
            return self.exchange(request, data)  # the server had closed the connection that was kept

    def exchange(self, request, data):
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it has read all
            self.socket.sendall(data)
        if request.cut is not None:
            return self.close()
        if request.read is not None:
            if request.read:
                self.socket.recv(request.read)
            return self.close()
        answer = http.client.HTTPResponse(self.socket, method=request.method)
        answer.begin()
        body = answer.read()
        if answer.will_close:
            self.close()
        return answer.status, answer.headers, body


def events_of(body):
    return [line[6:] for line in body.decode("utf-8", "strict").split("\n") if line.startswith("data: ")]


def faults_of(answer):
    """What is wrong with an answer, whatever the request was; "" if nothing is."""
    status, headers, body = answer
    if status >= 500:
        return f"status {status}: {body[:300]!r}"
    kind = headers.get("content-type") or ""
    if kind.startswith("application/json") and body:
        try:
            value = json.loads(body)
        except ValueError as error:
            return f"status {status}, a body that is not JSON: {error}"
        if status >= 400 and not value["error"]["code"]:
            return f"status {status} without a code"
    if not kind.startswith("text/event-stream"):
        return ""
    try:
        events = [event if event == "[DONE]" else json.loads(event) for event in events_of(body)]
    except ValueError as error:
        return f"a stream that is not JSON: {error}"
    objects = [event for event in events if isinstance(event, dict)]
    failed = [event for event in objects if event.get("error") or event.get("type") in ("error", "response.failed")]
    if failed:
        return f"a stream that fails: {json.dumps(failed[0])[:300]}"
    last = objects[-1].get("type") if objects else None
    if "[DONE]" in events or last in ("message_stop", "response.completed", "response.incomplete"):
        return ""
    return f"a stream without an end: {body[-200:]!r}"


class Storm:
    def __init__(self, seed, clients, cpu_s, skip=lambda request: False):
        self.seed, self.clients, self.cpu_s, self.skip = seed, clients, cpu_s, skip
        self.finds, self.counts, self.slowest, self.suspects = [], collections.Counter(), [], []
        self.sent, self.ends, self.memory = 0, 0, 0
        self.lock = threading.Lock()

    def find(self, number, what):
        with self.lock:
            self.finds.append((number, what))
        print(f"FIND seed {self.seed} request {number}: {what}", flush=True)

    def one(self, client, server, number, is_alone=False):
        """Sends a request. The CPU time that the server took meanwhile, where that passes the limit."""
        request = request_of(self.seed, number)
        if self.skip(request):
            self.counts["skipped"] += 1
            return None
        begun, before = time.monotonic(), cpu_seconds(server.process.pid)
        try:
            answer = client.send(request)
        except (OSError, http.client.HTTPException) as error:
            client.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(2)  # what died is not yet gone
            if server.is_alive():
                self.find(number, f"no answer to {request.method} {request.path[:80]} within {time.monotonic() - begun:.0f} s: {error!r}")
            return None
        took = cpu_seconds(server.process.pid) - before
        if is_alone:
            took = settled(server.process.pid) - before
        with self.lock:
            self.sent += 1
            self.counts["gone" if answer is None else answer[0]] += 1
            self.slowest = sorted([*self.slowest, (round(took, 2), number)])[-5:]
        wrong = faults_of(answer) if answer else ""
        if wrong:
            self.find(number, f"{request.method} {request.path[:80]}: {wrong}")
        return took if took > self.cpu_s else None

    def work(self, server, numbers, under_way, index):
        client = Client(server.port)
        costly = []
        try:
            while server.is_alive():
                with self.lock:
                    number = next(numbers, None)
                if number is None:
                    break
                under_way[index] = number
                if self.one(client, server, number):
                    costly += range(max(number - 2 * self.clients, 0), number + 1)  # one of these; its client may have gone
                if server.is_alive():
                    under_way.pop(index)
        except FileNotFoundError:
            pass  # of /proc: the server has ended
        finally:
            client.close()
        return costly

    def batch(self, server, numbers):
        """Those that were under way when the server ended; none if it has not."""
        under_way = {}
        with concurrent.futures.ThreadPoolExecutor(self.clients) as pool:
            costly = list(itertools.chain(*pool.map(lambda i: self.work(server, numbers, under_way, i), range(self.clients))))
        self.suspects = sorted({*self.suspects, *costly})
        if server.is_alive():
            self.look(server)
            return []
        return sorted(under_way.values())

    def judge(self, config, folder):
        """Of the requests that seem to take too much, those that do."""
        if not self.suspects:
            return
        with serving(folder / "again.log", "--config", str(config), ready_s=180) as server:
            for number in self.suspects:
                settled(server.process.pid)
                client = Client(server.port)
                took = self.one(client, server, number, is_alone=True)
                client.close()
                if took:
                    self.find(number, f"{took:.2f} s of CPU time for {request_of(self.seed, number).path[:80]}")

    def look(self, server):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
        connection.request("GET", "/health")
        health = connection.getresponse()
        if health.status != 200 or json.loads(health.read())["status"] != "ok":
            self.find(-1, f"health is {health.status}")
        connection.close()
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        self.memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10

    def run(self, first, count, folder, until=None):
        """Sends requests `first` to `first + count - 1`, or until that moment of time.monotonic()."""
        begun = time.monotonic()
        config = folder / "storm.toml"
        config.write_text(CONFIG.format(model=write_shallow(BUNDLED, folder / "shallow.gguf")))
        numbers = iter(range(first, first + count))
        is_over = False
        while True:
            with contextlib.suppress(ProcessLookupError), serving(folder / "storm.log", "--config", str(config), ready_s=180) as server:
                while True:
                    batch = iter(list(itertools.islice(numbers, BATCH)))
                    those = self.batch(server, batch)
                    if not server.is_alive():
                        self.ends += 1
                        log = server.log.read_text(errors="replace")
                        for number in those:
                            self.find(number, f"the server ended with {server.process.returncode}, or another that was under way did it: {log[-3000:]}")
                        numbers = itertools.chain(batch, numbers)
                        break
                    rate = self.sent / (time.monotonic() - begun)
                    is_over = self.sent + self.counts["skipped"] >= count or bool(until and time.monotonic() > until)
                    print(f"{time.strftime('%H:%M:%S')} {self.sent} requests, {rate:.0f}/s, {self.ends} ends, {len(self.finds)} finds, "
                          f"{self.memory} MiB, most CPU {self.slowest[-1:]}", flush=True)
                    if is_over:
                        break
            if is_over or len(self.finds) > 200:
                self.judge(config, folder)
                return self


def mask_storm(seed, first, count):
    """Lines of grammars through one process; the number of finds."""
    finds = 0
    process = None
    for number in range(first, first + count):
        if process is None:
            process = subprocess.Popen([str(TENON), "mask", "--batch", "--vocab", str(BUNDLED)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = text_of(mask_line_of(seed, number))
        before = cpu_seconds(process.pid)
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            print(f"FIND seed {seed} line {number}: tenon mask ended with {process.wait()}: {line[:2000]}", flush=True)
            process, finds = None, finds + 1
            continue
        took = cpu_seconds(process.pid) - before
        if took > 2:
            print(f"FIND seed {seed} line {number}: {took:.2f} s of CPU time: {line[:2000]}", flush=True)
            finds += 1
        if number % 1000 == 0:
            print(f"{time.strftime('%H:%M:%S')} {number - first} lines, {finds} finds", flush=True)
    if process:
        process.stdin.close()
        process.wait()
    return finds


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=0, help="number of the first request")
    options.add_argument("--count", type=int, default=1000)
    options.add_argument("--clients", type=int, default=2)
    options.add_argument("--cpu-s", type=float, default=2, help="seconds of CPU time that a request may take (sanitizers: more)")
    options.add_argument("--seconds", type=float, help="end after so many, whatever has been sent")
    options.add_argument("--masks", action="store_true", help="grammars through `tenon mask --batch` instead")
    options.add_argument("--show", action="store_true", help="print the requests instead of sending them")
    arguments = options.parse_args()
    if arguments.show:
        for number in range(arguments.first, arguments.first + arguments.count):
            request = mask_line_of(arguments.seed, number) if arguments.masks else request_of(arguments.seed, number)
            print(number, request)
        return 0
    if arguments.masks:
        return 1 if mask_storm(arguments.seed, arguments.first, arguments.count) else 0
    until = time.monotonic() + arguments.seconds if arguments.seconds else None
    with tempfile.TemporaryDirectory() as folder:
        storm = Storm(arguments.seed, arguments.clients, arguments.cpu_s).run(arguments.first, arguments.count, pathlib.Path(folder), until)
    print(f"{storm.sent} requests of seed {arguments.seed} from {arguments.first}, {arguments.clients} clients: {storm.ends} ended processes, "
          f"{len(storm.finds)} finds; {dict(sorted(storm.counts.items(), key=str))}; most memory {storm.memory} MiB; most CPU time {storm.slowest}")
    return 1 if storm.finds else 0


if __name__ == "__main__":
    sys.exit(main())
