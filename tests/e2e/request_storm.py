"""Sends the requests of random_requests.py to `tenon serve`, and tells what must not be. The model is the bundled one's first
layer: what it says does not matter here, and most of the time would be the model's.

    python tests/e2e/request_storm.py --count 100000 --clients 2        # of $TENON_BIN, else of the release binary
    python tests/e2e/request_storm.py --count 20000 --clients 1         # and what each request costs the processor
    python tests/e2e/request_storm.py --first 4711 --count 1 --show     # one of them again
    python tests/e2e/request_storm.py --costly --count 1000             # those alone that have many parts, each of which costs much
    python tests/e2e/request_storm.py --masks --count 20000             # grammars, by `tenon mask --batch`

A find is: the server ends or its `/health` is not ok; a request has no answer, an answer of 5xx, one that is not JSON, or a
stream without an end; a request takes more CPU time than --cpu-s. Requests that seem to take too much, and those whose client
goes away, are sent again in the end, to a server that knows none of them. Exit status 1: there are finds."""
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

from random_requests import costly_request_of, mask_line_of, request_of, text_of
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


def is_working(pid):
    """Whether one of its threads runs, or would if a processor were free."""
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            if stat.read_text().rpartition(")")[2].split()[0] in "RD":
                return True
    return False


def settled(pid):
    """The CPU time of a process that does nothing any more: what a client has left behind may go on for a while."""
    last, still = cpu_seconds(pid), 0
    for _ in range(600):
        time.sleep(0.05)
        now = cpu_seconds(pid)
        still = 0 if now > last or is_working(pid) else still + 1
        last = now
        if still == 3:
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
    def __init__(self, seed, clients, cpu_s, draw=request_of):
        self.seed, self.clients, self.cpu_s, self.draw = seed, clients, cpu_s, draw
        self.finds, self.counts, self.slowest = [], collections.Counter(), []
        self.suspects, self.gone = [], []  # numbers: of requests that seem to take too much, and of those whose client went away
        self.sent, self.ends, self.memory = 0, 0, 0
        self.lock = threading.Lock()

    def find(self, number, what):
        with self.lock:
            self.finds.append((number, what))
        print(f"FIND seed {self.seed} request {number}: {what}", flush=True)

    def one(self, client, server, number):
        """Sends a request. Its status, "gone" or "no answer"."""
        request = self.draw(self.seed, number)
        begun = time.monotonic()
        try:
            answer = client.send(request)
        except (OSError, http.client.HTTPException) as error:
            client.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(2)  # what died is not yet gone
            if server.is_alive():
                self.find(number, f"no answer to {request.method} {request.path[:80]} within {time.monotonic() - begun:.0f} s: {error!r}")
            return "no answer"
        wrong = faults_of(answer) if answer else ""
        if wrong:
            self.find(number, f"{request.method} {request.path[:80]}: {wrong}")
        return answer[0] if answer else "gone"

    def work(self, server, numbers, under_way, index):
        client = Client(server.port)
        try:
            while server.is_alive():
                with self.lock:
                    number = next(numbers, None)
                if number is None:
                    break
                under_way[index] = number
                before = cpu_seconds(server.process.pid)
                ending = self.one(client, server, number)
                took = cpu_seconds(server.process.pid) - before
                with self.lock:
                    self.sent += 1
                    self.counts[ending] += 1
                    self.slowest = sorted([*self.slowest, (round(took, 2), number)])[-5:]
                    if ending == "gone":
                        self.gone.append(number)
                    if took > self.cpu_s:
                        self.suspects.append(number)  # or another that was under way, which sees the same
                if server.is_alive():
                    under_way.pop(index)
        except FileNotFoundError:
            pass  # of /proc: the server has ended
        finally:
            client.close()

    def batch(self, server, numbers):
        """Those that were under way when the server ended; none if it has not."""
        under_way = {}
        with concurrent.futures.ThreadPoolExecutor(self.clients) as pool:
            list(pool.map(lambda i: self.work(server, numbers, under_way, i), range(self.clients)))
        if server.is_alive():
            self.look(server)
            return []
        return sorted(under_way.values())

    def cpu_of(self, server, numbers):
        """The CPU time that the server takes for these, one after the other, and until it does nothing any more."""
        before = settled(server.process.pid)
        for number in numbers:
            client = Client(server.port)
            self.one(client, server, number)
            client.close()
        return settled(server.process.pid) - before

    def judge(self, config, folder):
        """Finds those that take too much. What a client that went away has left behind is seen only once the server does nothing any
        more; to wait for that after each of them takes long, so some are sent together, and each alone only where these take too much."""
        gone = sorted({*self.gone} - {*self.suspects})
        groups = [[number] for number in sorted(self.suspects)] + [gone[at:at + 10] for at in range(0, len(gone), 10)]
        while groups:
            costly = []
            with serving(folder / "again.log", "--config", str(config), ready_s=180) as server:
                for group in groups:
                    try:
                        took = self.cpu_of(server, group)
                    except FileNotFoundError:  # of /proc
                        self.find(group[0], f"the server ended with {server.process.returncode} at one of {group}: {server.log.read_text(errors='replace')[-3000:]}")
                        break
                    if took > self.cpu_s and len(group) == 1:
                        self.find(group[0], f"{took:.2f} s of CPU time for {self.draw(self.seed, group[0]).path[:80]}")
                    elif took > self.cpu_s:
                        costly += group
            groups = [[number] for number in costly]

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
                    those_now = list(itertools.islice(numbers, BATCH))
                    batch = iter(those_now)
                    those = self.batch(server, batch)
                    if not server.is_alive():
                        self.ends += 1
                        log = server.log.read_text(errors="replace")
                        for number in those:
                            self.find(number, f"the server ended with {server.process.returncode}, or another that was under way did it: {log[-3000:]}")
                        numbers = itertools.chain(batch, numbers)
                        break
                    rate = self.sent / (time.monotonic() - begun)
                    is_over = len(those_now) < BATCH or bool(until and time.monotonic() > until)
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
    options.add_argument("--costly", action="store_true", help="only requests of many parts that cost much")
    options.add_argument("--show", action="store_true", help="print the requests instead of sending them")
    arguments = options.parse_args()
    draw = costly_request_of if arguments.costly else request_of
    if arguments.show:
        for number in range(arguments.first, arguments.first + arguments.count):
            request = mask_line_of(arguments.seed, number) if arguments.masks else draw(arguments.seed, number)
            print(number, request)
        return 0
    if arguments.masks:
        return 1 if mask_storm(arguments.seed, arguments.first, arguments.count) else 0
    until = time.monotonic() + arguments.seconds if arguments.seconds else None
    with tempfile.TemporaryDirectory() as folder:
        storm = Storm(arguments.seed, arguments.clients, arguments.cpu_s, draw).run(arguments.first, arguments.count, pathlib.Path(folder), until)
    print(f"{storm.sent} requests of seed {arguments.seed} from {arguments.first}, {arguments.clients} clients: {storm.ends} ended processes, "
          f"{len(storm.finds)} finds; {dict(sorted(storm.counts.items(), key=str))}; most memory {storm.memory} MiB; most CPU time {storm.slowest}")
    return 1 if storm.finds else 0


if __name__ == "__main__":
    sys.exit(main())
