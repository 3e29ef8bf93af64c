#!/usr/bin/env python3
"""A soak: one server, hours of mixed work at 70 % of what the machine does, and faults from all sides.

    .venv/bin/python bench/soak.py [--minutes 240] [--load 0.7] [--seed N] [--tenon FILE] [--json FILE]

The server has five models: upstreams that speak as OpenAI's API, llama-server and vLLM, a pool of three llama-servers, and the
bundled model. bench/soak_upstream.py plays the upstreams, each in a process of its own. Clients speak Chat Completions, Responses
and Messages, streamed and whole, with tools and without, in conversations that they send again or that the server keeps; some go
away, some read slowly, some send what is wrong. Upstreams refuse, break off, fall silent, write what cannot be read, are stopped
for a moment, are killed and started anew; key file and configuration change under the server (SIGHUP).

First the rate is measured at which clients that wait for each other are served; then conversations begin at random moments, at
--load of that rate. Each request has a mark that its upstream answers with, so each byte of an answer is known beforehand. A finding
is: an answer that is not whole, not once, or not its own; an error that no planted fault explains, or another one than it must be;
an upstream that was asked twice; a request that is not answered; a server that has died, does not stop, has not given back what it
had (descriptors, threads, answers under way), or whose memory, descriptors or threads grow. Exit status 1: there are findings.
"""

import argparse
import array
import asyncio
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
sys.path.insert(0, str(ROOT / "bench"))
import serving  # noqa: E402
from soak_upstream import FAULTS, arguments_of, text_pieces, write_tokenizer  # noqa: E402

# model: kinds of its upstreams
UPSTREAMS = {
    "chat": ["openai"],
    "llama": ["llama-server"],
    "vllm": ["vllm"],
    "pool": ["llama-server"] * 3,
}
BUNDLED = ROOT / "models" / "tenon-tiny.gguf"
CONFIG = """[server]
log_level = "{log_level}"
api_keys_file = "keys.txt"
store = "store.db"
store_max_bytes = 16777216
keep_sessions = false
[[model]]
name = "tiny"
path = "{bundled}"
threads = 1
context_tokens = 4096
queue_limit = 1000
price_input = {price}
"""
MODEL = """[[model]]
name = "{name}"
alias = ["{name}-{generation}"]
engine = "{engine}"
url = {urls}
silence_limit_s = {silence_s}
"""
SILENCE_S = 6
ANSWER_S = 90
KEPT_S = 60  # a client's idle connection: half of what the server allows
MOST_UNDER_WAY = 150  # conversations; those that would begin beyond it are counted instead
CALIBRATION_CLIENTS = 16
TOOL = {
    "name": "look_up",
    "description": "Looks words up.",
    "parameters": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("mark", "after", "words")},
        "required": ["mark", "after", "words"],
        "additionalProperties": False,
    },
}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
IDS = re.compile(r"\bx[0-9a-f]{11}\b")
# What an error must be. In a stream the dialects have words of their own.
ENGINE = {"engine_error", "overloaded_error", "server_error"}
BUSY = {"engine_busy", "rate_limit_error", "rate_limit_exceeded"}


class Broken(Exception):
    """The connection ended, or spoke no HTTP, before its answer was there."""


class Connection:
    """A client's connection: HTTP/1.1, read strictly."""

    def __init__(self, port, is_slow=False):
        self.port, self.is_slow, self.writer, self.keeps = port, is_slow, None, True

    async def open(self):
        sock = socket.socket()
        sock.setblocking(False)
        if self.is_slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        limit = 16384 if self.is_slow else 1 << 22
        self.reader, self.writer = await asyncio.open_connection(sock=sock, limit=limit)

    def close(self):
        if self.writer:
            self.writer.close()

    async def send(self, method, path, body, key, length=None):
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
        if body is not None:
            size = len(body) if length is None else length
            head += f"content-type: application/json\r\ncontent-length: {size}\r\n"
        self.writer.write(head.encode() + b"\r\n" + (body or b""))
        await self.writer.drain()

    async def head(self):
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = text.split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        self.keeps = self.headers.get("connection", "").lower() != "close"

    async def parts(self):
        """The parts of the body, as they come."""
        if "content-length" in self.headers:
            left = int(self.headers["content-length"])
            while left:
                part = await self.reader.read(min(left, 65536))
                if not part:
                    raise Broken(f"{left} bytes of the body are missing")
                left -= len(part)
                yield part
            return
        if self.headers.get("transfer-encoding") != "chunked":
            raise Broken("a body without a length")
        while True:
            size = int(await self.reader.readline(), 16)
            left = size
            while left:
                part = await self.reader.read(left)
                if not part:
                    raise Broken("a chunk is cut")
                left -= len(part)
                yield part
            if await self.reader.readexactly(2) != b"\r\n":
                raise Broken("a chunk without its end")
            if size == 0:
                return


class Client:
    """Connections that are kept between requests."""

    def __init__(self, port):
        self.port, self.idle = port, collections.deque()

    @contextlib.asynccontextmanager
    async def connection(self, is_slow=False):
        """A connection for one request; afterwards it is kept if the answer came to its end."""
        while self.idle and time.monotonic() - self.idle[0].since > KEPT_S:
            self.idle.popleft().close()
        found = self.idle.pop() if self.idle and not is_slow else Connection(self.port, is_slow)
        if not found.writer:
            await found.open()
        try:
            yield found
        except BaseException:
            found.close()
            raise
        if found.keeps and not is_slow and len(self.idle) < 64:
            found.since = time.monotonic()
            self.idle.append(found)
        else:
            found.close()

    def close(self):
        while self.idle:
            self.idle.pop().close()

    async def ask(self, method, path, body, key):
        """(status, value) of a request whose answer is a document."""
        data = None if body is None else body if isinstance(body, bytes) else dump(body)
        async with self.connection() as connection:
            await connection.send(method, path, data, key)
            await connection.head()
            text = b"".join([part async for part in connection.parts()])
        is_json = connection.headers.get("content-type", "").startswith("application/json")
        return connection.status, json.loads(text) if is_json else text.decode()


def dump(value):
    return json.dumps(value).encode()


class Answer:
    """What a client got."""

    def __init__(self):
        self.status, self.id, self.error, self.message = 0, None, None, ""
        self.text, self.calls = "", []  # [id, name, arguments as text]
        self.is_ended, self.is_done, self.wrong, self.first_s = False, False, "", None

    def fail(self, error):
        details = error.get("details") or {}
        self.error = error.get("code") or details.get("error_code") or error.get("type")
        self.message = str(error.get("message"))

    def read_document(self, dialect, value):
        if value.get("error"):
            return self.fail(value["error"])
        self.is_ended, self.id = True, value["id"]
        if dialect == "chat":
            [choice] = value["choices"]
            self.text = choice["message"]["content"] or ""
            for call in choice["message"].get("tool_calls") or []:
                function = call["function"]
                self.calls.append([call["id"], function["name"], function["arguments"]])
        elif dialect == "responses":
            self.read_output(value)
        else:
            for block in value["content"]:
                if block["type"] == "text":
                    self.text += block["text"]
                else:
                    self.calls.append([block["id"], block["name"], json.dumps(block["input"])])

    def read_output(self, response):
        if response["status"] != "completed":
            self.wrong = f"status {response['status']}"
        for item in response["output"]:
            if item["type"] == "message":
                self.text += "".join(part["text"] for part in item["content"])
            else:
                self.calls.append([item["call_id"], item["name"], item["arguments"]])

    def read_event(self, dialect, data):
        if self.is_done:
            self.wrong = f"an event behind the end: {data[:200]}"
        if data == "[DONE]":
            self.is_done = True
            return
        value = json.loads(data)
        if self.is_ended and dialect != "chat":
            self.wrong = f"an event behind the last one: {data[:200]}"
        getattr(self, "read_" + dialect)(value)

    def read_chat(self, value):
        if value.get("error"):
            return self.fail(value["error"])
        self.id = value["id"]
        for choice in value["choices"]:
            delta = choice["delta"]
            self.text += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                function = call["function"]
                if call["index"] == len(self.calls):
                    self.calls.append([call["id"], function["name"], ""])
                self.calls[call["index"]][2] += function.get("arguments") or ""
            if choice["finish_reason"]:
                if self.is_ended:
                    self.wrong = "two ends"
                self.is_ended = True

    def read_responses(self, value):
        kind = value["type"]
        self.numbers = getattr(self, "numbers", -1) + 1
        if value["sequence_number"] != self.numbers:
            self.wrong = f"event {self.numbers} has the number {value['sequence_number']}"
        if kind == "response.output_text.delta":
            self.text += value["delta"]
        elif kind == "response.output_item.added" and value["item"]["type"] == "function_call":
            self.calls.append([value["item"]["call_id"], value["item"]["name"], ""])
        elif kind == "response.function_call_arguments.delta":
            self.calls[-1][2] += value["delta"]
        elif kind == "response.failed":
            self.fail(value["response"]["error"])
        elif kind in ("response.completed", "response.incomplete"):
            whole = Answer()
            whole.read_output(value["response"])
            self.is_ended, self.id = True, value["response"]["id"]
            self.wrong = self.wrong or whole.wrong
            if (whole.text, whole.calls) != (self.text, self.calls):
                self.wrong = "the events tell another answer than the last one"

    def read_messages(self, value):
        kind = value["type"]
        if kind == "error":
            self.fail(value["error"])
        elif kind == "message_start":
            self.id = value["message"]["id"]
        elif kind == "content_block_start" and value["content_block"]["type"] == "tool_use":
            self.calls.append([value["content_block"]["id"], value["content_block"]["name"], ""])
        elif kind == "content_block_delta":
            delta = value["delta"]
            if delta["type"] == "text_delta":
                self.text += delta["text"]
            elif delta["type"] == "input_json_delta":
                self.calls[-1][2] += delta["partial_json"]
        elif kind == "message_stop":
            self.is_ended = self.is_done = True


class Turn:
    """A request, and what must be answered."""

    def __init__(self, dialect, model, is_streamed, names, what="say", count=0, fault="ok"):
        self.dialect, self.model, self.is_streamed = dialect, model, is_streamed
        self.names, self.what, self.count, self.fault = names, what, count, fault
        self.at, self.where, self.pace, self.manner = 0, "*", 0, ""
        self.body, self.key = {}, None

    def mark(self):
        name, fault = self.names[-1], self.fault
        return f"[[{name} {self.what} {self.count} {fault} {self.at} {self.where} {self.pace}]]"

    def kind(self):
        return f"{self.dialect} {self.model} {'stream' if self.is_streamed else 'whole'}"

    def is_before_the_answer(self):
        return self.fault == "close" or self.fault.isdigit() or self.at == 0

    def outcomes(self):
        """What may be: "answer", "error"."""
        if self.fault in ("ok", "pause"):
            return {"answer"}
        if self.where == "*":
            return {"error"}
        return {"answer"} if self.is_before_the_answer() else {"answer", "error"}

    def wrong_answer(self, answer):
        """What is wrong with an answer that says that it is whole."""
        if self.model == "tiny":
            try:
                is_right = json.loads(answer.text) == {"mark": self.names[-1]}
            except ValueError:
                is_right = False
            return "" if is_right and not answer.calls else f"{answer.text!r} {answer.calls}"
        if self.what == "say":
            wanted = "".join(text_pieces(self.names, self.count))
            if answer.text != wanted or answer.calls:
                return f"{answer.text[:3000]!r} {answer.calls} instead of {wanted[:3000]!r}"
            return ""
        called = [(call[1], json.loads(call[2])) for call in answer.calls]
        if called != [("look_up", arguments_of(self.names, self.count))] or answer.text:
            return f"{called} {answer.text!r} instead of a call of {self.names}, {self.count}"
        return ""

    def wrong_beginning(self, answer):
        """The same of what came before an error, or before the client went away."""
        if self.what == "say" and self.model != "tiny":
            wanted = "".join(text_pieces(self.names, self.count))
            if not wanted.startswith(answer.text):
                return f"{answer.text[:3000]!r} does not begin {wanted[:3000]!r}"
        foreign = set(IDS.findall(answer.text + json.dumps(answer.calls))) - set(self.names)
        return f"text of others: {foreign}" if foreign else ""

    def wrong_error(self, answer, codes):
        if self.fault == "400":
            is_right = answer.status == 400 and self.names[-1] in answer.message
            return "" if is_right else "must be 400 with the upstream's words"
        wanted = BUSY if self.fault == "429" else codes
        # Before a stream has begun an error has a status; where another attempt had begun it, it has none.
        return "" if answer.error in wanted else f"must be one of {sorted(wanted)}"


class Upstream:
    """A process that plays one, and is killed and started anew."""

    def __init__(self, soak, model, kind, index):
        self.soak, self.model, self.kind, self.index = soak, model, kind, index
        self.port = serving.free_port()
        self.process = None

    async def start(self):
        program = ROOT / "bench" / "soak_upstream.py"
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(program), self.kind, str(self.port), str(self.index)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.reading = asyncio.create_task(self.read(self.process))
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            if self.process.returncode is not None:
                raise RuntimeError(f"the upstream {self.model} ended at its start")
            await asyncio.sleep(0.02)

    async def read(self, process):
        while line := await process.stdout.readline():
            name, _ = line.decode().split()
            self.soak.asked[name] += 1

    async def kill(self):
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
            await self.reading


class Disturbance:
    def __init__(self, model, is_pool):
        self.model, self.is_pool, self.begin, self.end = model, is_pool, time.monotonic(), None

    def explains(self, begin, end):
        """Whether it explains an error of a request from `begin` to `end`."""
        if self.is_pool:  # others are there: only what was under way may be lost
            return begin < self.begin + 0.1 and end > self.begin
        return end > self.begin and (self.end is None or begin < self.end + 1)


class Server:
    """What the system tells of the process."""

    def __init__(self, pid):
        self.pid = pid

    def look(self, port, upstream_ports):
        """`port`: its own."""
        folder = pathlib.Path(f"/proc/{self.pid}")
        status = (folder / "status").read_text()
        sockets, count = set(), 0
        for link in (folder / "fd").iterdir():
            count += 1
            with contextlib.suppress(OSError):
                target = os.readlink(link)
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
        clients, upstreams = self.connections(sockets, port, upstream_ports)
        return {
            "rss_mb": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024,
            "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
            "fds": count,
            "own_fds": count - clients - upstreams,
            "client_connections": clients,
            "upstream_connections": upstreams,
            "cpu_s": self.cpu_s(),
        }

    def cpu_s(self):
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def connections(sockets, port, upstream_ports):
        """How many of `sockets` are connections of clients, and how many go to upstreams."""
        clients = upstreams = 0
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, state, *rest = line.split()
            if rest[5] not in sockets or state == "0A":  # it listens
                continue
            clients += int(local.rpartition(":")[2], 16) == port
            upstreams += int(remote.rpartition(":")[2], 16) in upstream_ports
        return clients, upstreams


def slope(values):
    """Growth from the first to the last of equally spaced values, by least squares."""
    count = len(values)
    middle, mean = (count - 1) / 2, statistics.fmean(values)
    up = sum((i - middle) * (value - mean) for i, value in enumerate(values))
    return up / sum((i - middle) ** 2 for i in range(count)) * (count - 1)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.random = random.Random(options.seed)
        self.asked = collections.Counter()  # by mark: answers that upstreams were asked for
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.findings, self.finding_count = [], 0
        # By kind: whole answers and first events in turn. Hours make millions, so they are kept small.
        self.times = collections.defaultdict(lambda: array.array("f"))
        self.samples, self.disturbances = [], []
        self.later = collections.deque()  # (time, mark): whether its upstream was asked once
        self.sent = self.gone = self.kept_back = 0
        self.generation = 0
        self.is_calm = True  # no faults: the calibration
        self.is_over = False
        self.under_way = set()
        self.lock = asyncio.Lock()  # held by one who kills or reloads
        self.keys = {name: f"soak-{name}-{'k' * 32}" for name in ("main", "limited")}
        self.used_names = 0

    def find(self, what):
        self.finding_count += 1
        if len(self.findings) < 50:
            self.findings.append(what)
        if self.finding_count <= 20:
            print(f"FINDING {what[:2000]}", flush=True)

    # ---- configuration and keys

    def turning_key(self, generation):
        return f"soak-turning-{generation}-{'k' * 32}"

    def write_keys(self):
        """A key is replaced as docs/security.md says: for a while there are both, the old one and the new one."""
        turning = [self.turning_key(self.generation), self.turning_key(self.generation - 1)]
        keys = [*self.keys.items(), *(("turning", key) for key in turning)]
        limits = {"limited": "requests_per_minute=30"}
        lines = [
            f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()} {limits.get(name, '')}\n"
            for name, key in keys
        ]
        (self.folder / "keys.txt").write_text("".join(lines))

    def write_config(self, more=""):
        text = CONFIG.format(
            log_level="warn" if self.generation % 2 else "info",
            bundled=BUNDLED,
            price=self.generation // 5,
        )
        for i, (model, kinds) in enumerate(UPSTREAMS.items()):
            urls = [f"http://127.0.0.1:{upstream.port}" for upstream in self.of(model)]
            text += MODEL.format(
                name=model,
                # One model is changed by each reload.
                generation=(self.generation + i) // len(UPSTREAMS),
                engine=kinds[0],
                urls=json.dumps(urls),
                silence_s=SILENCE_S,
            )
            if kinds[0] != "openai":
                text += 'tool_call_format = "hermes"\n'
            if kinds[0] == "vllm":
                text += f'tokenizer = "{self.folder / "tokenizer"}"\n'
        (self.folder / "tenon.toml").write_text(text + more)

    def of(self, model):
        return [upstream for upstream in self.upstreams if upstream.model == model]

    # ---- requests

    def new_name(self):
        """A mark's id: no two are equal, and none begins another."""
        self.used_names += 1
        return f"x{self.used_names:06x}{self.random.randrange(16**5):05x}"

    async def perform(self, turn):
        """Sends a request and judges its answer. The answer, or None where the conversation cannot go on from it."""
        begin = time.monotonic()
        answer = Answer()
        task = asyncio.create_task(self.exchange(turn, answer, begin))
        if turn.manner == "leaves":
            await asyncio.wait([task], timeout=self.random.choice([0.002, 0.02, 0.1, 0.5]))
            if not task.done():
                task.cancel()
        try:
            await asyncio.wait_for(task, ANSWER_S)
        except TimeoutError:
            self.find(f"no end within {ANSWER_S} s: {self.told(turn, answer)}")
            return None
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():
                raise
            self.gone += 1
            self.counts["the client went away"] += 1
            if wrong := turn.wrong_beginning(answer):
                self.find(f"before the client went away: {wrong}: {self.told(turn, answer)}")
            return None
        except (Broken, OSError, EOFError, ValueError, LookupError, TypeError) as error:
            self.find(f"{error!r}: {self.told(turn, answer)}")
            return None
        return self.judge(turn, answer, begin, time.monotonic())

    def told(self, turn, answer):
        return (
            f"{turn.kind()} {turn.mark()} {turn.manner} after {turn.names[:-1]}: status {answer.status}, "
            f"error {answer.error} {answer.message[:300]!r}, {len(answer.text)} bytes, {answer.calls}"
        )

    async def exchange(self, turn, answer, begin):
        is_slow = turn.manner == "slow"
        async with self.client.connection(is_slow) as connection:
            self.sent += 1
            await connection.send("POST", PATHS[turn.dialect], dump(turn.body), turn.key)
            await connection.head()
            answer.status = connection.status
            if not connection.headers["content-type"].startswith("text/event-stream"):
                data = b"".join([part async for part in connection.parts()])
                answer.read_document(turn.dialect, json.loads(data))
                return
            rest, read = b"", 0
            async for part in connection.parts():
                answer.first_s = answer.first_s or time.monotonic() - begin
                rest += part
                *events, rest = rest.split(b"\n\n")
                for event in events:
                    lines = [line for line in event.split(b"\n") if line.startswith(b"data: ")]
                    if lines:
                        answer.read_event(turn.dialect, lines[0][6:].decode())
                read += len(part)
                if is_slow and read > 16384:
                    read = 0
                    await asyncio.sleep(0.05)
            if rest:
                raise Broken(f"half an event: {rest[:200]!r}")
            if not answer.is_done and not answer.error:
                raise Broken("a stream without an end")

    def judge(self, turn, answer, begin, end):
        if answer.wrong:
            self.find(f"{answer.wrong}: {self.told(turn, answer)}")
            return None
        explained = any(d.model == turn.model and d.explains(begin, end) for d in self.disturbances)
        if answer.error:
            return self.judge_error(turn, answer, explained)
        if answer.status != 200 or not answer.is_ended:
            self.find(f"neither an answer nor an error: {self.told(turn, answer)}")
            return None
        if wrong := turn.wrong_answer(answer):
            self.find(f"wrong: {wrong}: {self.told(turn, answer)}")
            return None
        if "answer" not in turn.outcomes():
            self.find(f"an answer in spite of its fault: {self.told(turn, answer)}")
            return None
        self.counts[f"answered, {turn.dialect}"] += 1
        if turn.fault == "ok" and not turn.manner and not turn.pace:
            self.times[turn.kind()].extend((end - begin, answer.first_s or end - begin))
        if turn.fault == "ok" and not explained and turn.model != "tiny":
            self.later.append((end, turn.names[-1]))
        else:
            self.asked.pop(turn.names[-1], None)
        return answer

    def judge_error(self, turn, answer, explained):
        wrong = turn.wrong_beginning(answer)
        if not wrong and "error" in turn.outcomes():
            if wrong := turn.wrong_error(answer, ENGINE):
                # Where a server is killed beside it, the error may be that.
                wrong = "" if explained and answer.error in ENGINE else wrong
            cause = turn.fault
        elif not wrong and explained:
            wrong = "" if answer.error in ENGINE else "not the error of a dead upstream"
            cause = "a killed upstream"
        elif not wrong:
            wrong = "an error without a cause"
        if wrong:
            self.find(f"{wrong}: {self.told(turn, answer)}")
        else:
            self.errors[
                f"{cause}: {answer.status if answer.status != 200 else 'in the stream'}"
            ] += 1
        self.asked.pop(turn.names[-1], None)
        return None

    def check_asked(self, until):
        while self.later and self.later[0][0] < until:
            _, name = self.later.popleft()
            if (count := self.asked.pop(name, 0)) != 1:
                self.find(f"the upstream was asked {count} times for {name}")

    # ---- conversations

    def draw(self, dialect, model, names, what="say"):
        """A turn of random manner; `names`: the marks of what came before."""
        draw = self.random
        turn = Turn(dialect, model, draw.random() < 0.6, [*names, self.new_name()], what)
        turn.key = self.turning if draw.random() < 0.2 else self.keys["main"]
        turn.count = draw.choice([3, 8, 20, 20, 60, 200])
        if self.is_calm:
            return turn
        chance = draw.random()
        if chance < 0.12:
            turn.fault = draw.choice(FAULTS)
            if turn.fault == "stall" and draw.random() < 0.7:  # one takes as long as many others
                turn.fault = "cut"
            turn.at = draw.choice([0, 1, draw.randrange(turn.count)])
            if len(UPSTREAMS[model]) > 1 and draw.random() < 0.8 and turn.fault != "400":
                turn.where = str(draw.randrange(len(UPSTREAMS[model])))
        elif chance < 0.22:
            turn.pace = draw.choice([1, 5])
        elif chance < 0.24 and what == "say":
            # Some 500 KB of events: a token is a byte behind vLLM, and a word elsewhere.
            turn.manner, turn.count, turn.is_streamed = (
                "slow",
                3_000 if model != "vllm" else 250,
                True,
            )
        return turn

    def body(self, turn, history, has_tools, more=()):
        """A request with `history`: ("user", text), ("assistant", text), ("call", call), ("result", id, text)."""
        body = {"model": turn.model, "stream": turn.is_streamed, **dict(more)}
        to = globals()["in_" + turn.dialect]
        body["input" if turn.dialect == "responses" else "messages"] = to(history)
        if turn.dialect == "messages":
            body["max_tokens"] = 100_000
        if has_tools:
            body["tools"] = tools_of(turn.dialect)
        turn.body = body

    async def single(self):
        draw = self.random
        dialect, model = draw.choice([*PATHS]), draw.choice([*UPSTREAMS])
        what = draw.choice(["say", "say", "call"])
        turn = self.draw(dialect, model, [], what)
        if not self.is_calm and turn.fault == "ok" and draw.random() < 0.08:
            turn.manner, turn.pace = "leaves", draw.choice([0, 5])
        self.body(
            turn, [("user", turn.mark())], what == "call" or draw.random() < 0.3, self.store(turn)
        )
        await self.perform(turn)

    def store(self, turn):
        return [("store", self.random.random() < 0.5)] if turn.dialect == "responses" else []

    async def turn_of(self, dialect, model, names, what, request):
        """A turn of a conversation; one that meets a planted fault is asked again with another mark. (turn, answer)"""
        for _ in range(3):
            turn = self.draw(dialect, model, names, what)
            request(turn)
            answer = await self.perform(turn)
            if answer:
                return turn, answer
        return turn, None

    async def sent_again(self):
        """A conversation that the client keeps and sends again, with a call in it."""
        dialect, model = self.random.choice([*PATHS]), self.random.choice([*UPSTREAMS])
        history, names = [], []
        for what in self.random.choice([("call", "say"), ("say", "call", "say"), ("say", "say")]):
            is_result = bool(history) and history[-1][0] == "call"

            def request(turn, is_result=is_result):
                text = turn.mark()
                new = ("result", history[-1][1][0], text) if is_result else ("user", text)
                self.body(turn, [*history, new], True, self.store(turn))
                turn.new = new

            turn, answer = await self.turn_of(dialect, model, names, what, request)
            if not answer:
                return
            names = turn.names
            history.append(turn.new)
            said = [("call", call) for call in answer.calls]
            history += said or [("assistant", answer.text)]

    async def kept(self):
        """A conversation that the server keeps: by the response before, or as a conversation."""
        model, key = self.random.choice([*UPSTREAMS]), self.keys["main"]
        names, before, call = [], None, None
        by_conversation = self.random.random() < 0.3
        if by_conversation:
            status, made = await self.client.ask("POST", "/v1/conversations", {}, key)
            if status != 200:
                return self.find(f"a conversation cannot be made: {status} {made}")
        for what in self.random.choice(
            [("say", "call", "say"), ("call", "say"), ("say", "say", "say")]
        ):

            def request(turn, before=before, call=call):
                turn.key = key
                new = ("result", call, turn.mark()) if call else ("user", turn.mark())
                more = [("previous_response_id", before)] if before else []
                if by_conversation:
                    more = [("conversation", made["id"])]
                self.body(turn, [new], True, more)

            turn, answer = await self.turn_of("responses", model, names, what, request)
            if not answer:
                break
            names, before = turn.names, answer.id
            call = answer.calls[0][0] if answer.calls else None
            if self.random.random() < 0.3:
                await self.look_again(before, answer)
        if before and self.random.random() < 0.5:
            await self.forget(before)
        if by_conversation:
            status, _ = await self.client.ask(
                "DELETE", f"/v1/conversations/{made['id']}", None, key
            )
            if status != 200:
                self.find(f"a conversation cannot be deleted: {status}")

    async def look_again(self, name, answer):
        status, value = await self.client.ask(
            "GET", f"/v1/responses/{name}", None, self.keys["main"]
        )
        again = Answer()
        if status == 200:
            again.read_document("responses", value)
        if (again.text, again.calls) != (answer.text, answer.calls):
            self.find(f"the response {name} is kept otherwise: {status} {value}")
        self.counts["looked at again"] += 1

    async def forget(self, name):
        for wanted in (200, 404):
            status, _ = await self.client.ask(
                "DELETE", f"/v1/responses/{name}", None, self.keys["main"]
            )
            if status != wanted:
                self.find(f"deleting the response {name}: {status} instead of {wanted}")

    async def embedded(self):
        """The bundled model, which a schema makes write the mark."""
        dialect = self.random.choice([*PATHS])
        turn = Turn(dialect, "tiny", self.random.random() < 0.6, [self.new_name()])
        turn.key = self.keys["main"]
        schema = {
            "type": "object",
            "properties": {"mark": {"const": turn.names[-1]}},
            "required": ["mark"],
            "additionalProperties": False,
        }
        named = {"type": "json_schema", "name": "mark", "schema": schema}
        more = {
            "chat": [("response_format", {"type": "json_schema", "json_schema": named})],
            "responses": [("text", {"format": named}), ("store", False)],
            "messages": [("output_config", {"format": {"type": "json_schema", "schema": schema}})],
        }[dialect]
        self.body(turn, [("user", "Tell me the mark.")], False, more)
        if not self.is_calm and self.random.random() < 0.05:
            turn.manner = "leaves"
        await self.perform(turn)

    async def mistaken(self):
        """A request that must be refused."""
        main, chat = self.keys["main"], PATHS["chat"]
        user = {"role": "user", "content": "Hello"}
        path, body, key, status, code = self.random.choice(
            [
                (chat, b'{"model": "chat", ', main, 400, "invalid_json"),
                (chat, {"model": "nobody", "messages": [user]}, main, 404, "model_not_found"),
                (chat, {"model": "chat"}, main, 400, "missing_required_parameter"),
                (chat, {"model": "chat", "messages": "Hello"}, main, 400, "invalid_type"),
                (chat, {"model": "chat", "messages": [user]}, "no-key", 401, "invalid_api_key"),
                (
                    PATHS["responses"],
                    {"model": "llama", "input": "Hello", "previous_response_id": "resp_x"},
                    main,
                    400,
                    "previous_response_not_found",
                ),
                (
                    PATHS["messages"],
                    {"model": "vllm", "messages": [user]},
                    main,
                    400,
                    "missing_required_parameter",
                ),
                ("/v1/nothing", {}, main, 404, "not_found"),
                ("half", b"", main, 0, ""),
                ("limited", b"", self.keys["limited"], 0, ""),
            ]
        )
        if path == "half":
            connection = Connection(self.server.port)
            await connection.open()
            await connection.send("POST", chat, b'{"model": "chat", "mess', main, length=1000)
            await asyncio.sleep(self.random.choice([0, 0.1]))
            connection.close()
            self.counts["half a request"] += 1
            return
        if path == "limited":
            return await self.limited(key)
        if path in PATHS.values():
            self.sent += 1
        found, value = await self.client.ask("POST", path, body, key)
        error = value.get("error") if isinstance(value, dict) else None
        answer = Answer()
        if error:
            answer.fail(error)
        if (found, answer.error) != (status, code):
            self.find(f"{path} {body}: {found} {value} instead of {status} {code}")
        self.counts[f"refused, {found}"] += 1

    async def limited(self, key):
        turn = Turn("chat", "chat", False, [self.new_name()], "say", 3)
        turn.key = key
        self.body(turn, [("user", turn.mark())], False)
        self.sent += 1
        status, value = await self.client.ask("POST", PATHS["chat"], turn.body, key)
        answer = Answer()
        answer.read_document("chat", value)
        answer.status = status
        if answer.error == "rate_limit_exceeded" and status == 429:
            self.counts["refused, 429"] += 1
            return
        now = time.monotonic()
        self.judge(turn, answer, now - 1, now)

    def draw_conversation(self):
        kinds = [(self.single, 40), (self.sent_again, 20), (self.kept, 20), (self.embedded, 12)]
        if not self.is_calm:
            kinds.append((self.mistaken, 8))
        return self.random.choices([k for k, _ in kinds], [weight for _, weight in kinds])[0]()

    async def converse(self):
        try:
            await self.draw_conversation()
        except (Broken, OSError, EOFError, ValueError) as error:
            self.find(f"a conversation broke: {error!r}")

    # ---- faults

    async def kill_some(self):
        """Kills an upstream, and starts it again after a while."""
        while True:
            async with self.lock:
                upstream = self.random.choice(self.upstreams)
                trouble = Disturbance(upstream.model, len(UPSTREAMS[upstream.model]) > 1)
                self.disturbances.append(trouble)
                await upstream.kill()
                self.counts["upstreams killed"] += 1
                await asyncio.sleep(self.random.choice([0, 0.3, 1, 3]))
                await upstream.start()
                trouble.end = time.monotonic()
                # What has ended longer ago than any request can take explains nothing.
                self.disturbances = [
                    d for d in self.disturbances if d.end and d.end > trouble.end - 2 * ANSWER_S
                ]
            await asyncio.sleep(self.random.expovariate(1 / 12))

    async def stop_some(self):
        """Stops an upstream for less than the silence that is allowed."""
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 15))
            async with self.lock:
                upstream = self.random.choice(self.upstreams)
                upstream.process.send_signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(self.random.choice([0.2, 1]))
                finally:
                    upstream.process.send_signal(signal.SIGCONT)
                self.counts["upstreams stopped for a moment"] += 1

    async def reload_some(self):
        while True:
            await asyncio.sleep(2)
            async with self.lock:
                await self.reload()
            await asyncio.sleep(self.random.expovariate(1 / 20))

    async def reload(self):
        if self.random.random() < 0.2:  # one that is refused as a whole
            self.write_config("[nonsense]\n")
            self.server.process.send_signal(signal.SIGHUP)
            self.counts["reloads refused"] += 1
            await asyncio.sleep(1)
            self.write_config()
        self.generation += 1
        self.write_keys()
        if self.generation % 2:
            self.write_config()
        self.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        new = self.turning_key(self.generation)
        while True:
            status, _ = await self.client.ask("GET", "/v1/models", None, new)
            if status == 200:
                break
            if time.monotonic() > deadline:
                return self.find("a reload was not taken over within 30 s")
            await asyncio.sleep(0.1)
        self.turning, old = new, self.turning_key(self.generation - 2)
        status, _ = await self.client.ask("GET", "/v1/models", None, old)
        if status != 401:
            self.find(f"a key that was removed still gets {status}")
        self.counts["reloads"] += 1

    # ---- figures

    async def metrics(self):
        status, text = await self.client.ask("GET", "/metrics", None, self.keys["main"])
        if status != 200:
            self.find(f"/metrics: {status}")
            return {}
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def process(self):
        return Server(self.server.process.pid)

    async def sample(self):
        found = await self.metrics()
        ports = {upstream.port for upstream in self.upstreams}
        figures = self.process().look(self.server.port, ports)
        figures["running"] = found.get("tenon_requests_running", 0) - 1
        runs = [v for name, v in found.items() if name.startswith("tenon_upstream_runs")]
        figures["upstream_runs"] = sum(runs)
        cache = [v for name, v in found.items() if name.startswith("tenon_grammar_cache_bytes")]
        figures["grammar_cache_mb"] = sum(cache) / (1 << 20)
        figures["memory_mb"] = figures["rss_mb"] - figures["grammar_cache_mb"]
        figures["under_way"] = len(self.under_way)
        figures["at_s"] = time.monotonic() - self.begun
        return figures

    async def watch(self):
        shown = 0.0
        while True:
            try:
                self.samples.append(await self.sample())
            except (OSError, Broken, EOFError) as error:
                if not self.server.is_alive():
                    return self.find("the server has died")
                self.find(f"the server cannot be looked at: {error!r}")
            self.check_asked(time.monotonic() - 10)
            if time.monotonic() - shown >= 60 and self.samples:
                shown = time.monotonic()
                last = self.samples[-1]
                print(
                    f"{last['at_s']:.0f} s: {self.sent} requests, {self.finding_count} findings, "
                    f"RSS {last['rss_mb']:.1f} MB, {last['fds']} fds, {last['threads']} threads, "
                    f"{last['running']:.0f} running, CPU {last['cpu_s']:.0f} s",
                    flush=True,
                )
            await asyncio.sleep(self.options.every)

    async def calibrate(self, seconds):
        """Conversations a second of clients that wait for each other."""
        until, count = time.monotonic() + seconds, 0

        async def work():
            nonlocal count
            while time.monotonic() < until:
                await self.converse()
                count += 1

        await asyncio.gather(*(work() for _ in range(CALIBRATION_CLIENTS)))
        return count / seconds

    async def arrive(self, rate, until):
        """Conversations begin at random moments."""
        due = time.monotonic()
        while (now := time.monotonic()) < until and not self.is_over and self.server.is_alive():
            due += self.random.expovariate(rate)
            if due > now:
                await asyncio.sleep(due - now)
            elif due < now - 1:  # this process was kept from working
                due = now
            if len(self.under_way) >= MOST_UNDER_WAY:
                self.kept_back += 1
                continue
            task = asyncio.create_task(self.converse())
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def rest(self):
        """The figures of the server once it has nothing to do."""
        self.client.close()
        found = None
        for _ in range(60):
            await asyncio.sleep(0.5)
            found = await self.sample()
            self.client.close()
            if found["running"] == 0 and found["upstream_runs"] == 0:
                break
        await asyncio.sleep(1)
        return await self.sample()

    def end(self):
        self.is_over = True

    async def run(self):
        self.begun = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):  # the report comes all the same
            asyncio.get_running_loop().add_signal_handler(number, self.end)
        self.upstreams = [
            Upstream(self, model, kind, i)
            for model, kinds in UPSTREAMS.items()
            for i, kind in enumerate(kinds)
        ]
        write_tokenizer(self.folder / "tokenizer")
        self.write_config()
        self.write_keys()
        self.turning = self.turning_key(0)
        try:
            await asyncio.gather(*(upstream.start() for upstream in self.upstreams))
            arguments = ("--config", str(self.folder / "tenon.toml"))
            with serving.serving(self.folder / "serve.log", *arguments) as self.server:
                self.client = Client(self.server.port)
                await self.drive()
        except AssertionError as error:  # the server did not start, or did not stop
            self.find(str(error))
        finally:
            await asyncio.gather(*(upstream.kill() for upstream in self.upstreams))

    async def drive(self):
        seconds = self.options.minutes * 60
        await self.calibrate(min(2, seconds / 20))  # warm
        before = self.process().cpu_s(), time.monotonic(), self.sent
        measured = await self.calibrate(min(15, seconds / 8))
        took = time.monotonic() - before[1]
        cpu = self.process().cpu_s() - before[0]
        self.figures = {
            "measured_requests_per_s": (self.sent - before[2]) / took,
            "measured_cpu_share": cpu / took,
        }
        idle = await self.rest()
        print(
            f"Measured {self.figures['measured_requests_per_s']:.0f} requests/s, {measured:.1f} "
            f"conversations/s; the server had {cpu / took:.2f} processors.",
            flush=True,
        )
        self.is_calm = False
        self.times.clear()
        sent, begun = self.sent, time.monotonic()
        others = (self.watch, self.kill_some, self.stop_some, self.reload_some)
        tasks = [asyncio.create_task(other()) for other in others]
        await self.arrive(measured * self.options.load, begun + seconds)
        lasted = time.monotonic() - begun
        self.figures["requests_per_s"] = (self.sent - sent) / lasted
        self.figures["lasted_s"] = lasted
        async with self.lock:  # what was killed is there again
            for task in tasks:
                task.cancel()
            for done in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(done, Exception):
                    self.find(f"a part of the soak failed: {done!r}")
        if not self.server.is_alive():
            log = self.server.log.read_text(errors="replace")[-3000:]
            return self.find(f"the server ended with {self.server.process.returncode}: {log}")
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=ANSWER_S + 10)
        if self.under_way:
            self.find(f"{len(self.under_way)} conversations do not come to their end")
        self.check_asked(time.monotonic() + 1)
        await self.settle(idle)
        self.check_growth()

    async def settle(self, idle):
        """What must be as it was before the load."""
        end = await self.rest()
        self.figures["idle_before"], self.figures["idle_after"] = idle, end
        if end["running"] or end["upstream_runs"]:
            self.find(f"answers under way without a request: {end}")
        own = [found["own_fds"] + found["client_connections"] for found in (idle, end)]
        if own[1] > own[0] + 4:
            self.find(f"descriptors at rest: {own[0]} before, {own[1]} behind, {end}")
        if end["upstream_connections"] > idle["upstream_connections"] + 64:
            self.find(f"connections to upstreams at rest: {idle} before, {end} behind")
        if end["threads"] > idle["threads"] + 4:
            self.find(f"threads at rest: {idle['threads']} before, {end['threads']} behind")
        found = await self.metrics()
        counted = sum(
            value
            for name, value in found.items()
            if name.startswith("tenon_http_requests_total")
            and any(
                f'route="POST {path}"' in name or f'route="{path}"' in name
                for path in PATHS.values()
            )
        )
        self.figures["requests"], self.figures["counted"] = self.sent, counted
        # The server may not have seen all requests whose client went away at once.
        if not self.sent - self.gone <= counted <= self.sent + self.counts["half a request"]:
            self.find(
                f"/metrics counts {counted:.0f} requests, {self.sent} were sent, {self.gone} of them left"
            )

    def check_growth(self):
        """The growth over the second half, by least squares: at most a tenth, or 8 MB or descriptors or threads. Below ten minutes
        noise is larger than that. `memory_mb` leaves out the grammars that models keep (128 MiB each at most, which go with the
        model that is loaded anew); `own_fds` leaves out connections, which go up and down with the load, and are counted at rest."""
        half = self.samples[len(self.samples) // 2 :]
        self.figures["growth"] = {}
        for name in ("memory_mb", "own_fds", "threads", "rss_mb", "fds"):
            values = [sample[name] for sample in half]
            if len(values) < 2:
                continue
            grown = slope(values)
            bound = max(8, statistics.fmean(values) / 10)
            self.figures["growth"][name] = {
                "least": min(values),
                "mean": statistics.fmean(values),
                "most": max(values),
                "grown": grown,
                "bound": bound,
            }
            is_judged = name not in ("rss_mb", "fds") and self.figures["lasted_s"] >= 600
            if is_judged and grown > bound:
                self.find(f"{name} grows: by {grown:.1f} over the second half (bound {bound:.1f})")

    def report(self):
        print(f"\n{json.dumps({k: v for k, v in self.figures.items()}, indent=1)}")
        print(f"kept back: {self.kept_back} conversations")
        for title, counts in (
            ("Counts", self.counts),
            ("Errors, each with its cause", self.errors),
        ):
            print(f"{title}:")
            for name, count in sorted(counts.items()):
                print(f"  {count:8} {name}")
        print("Seconds, of whole answers (first event in brackets): p50, p90, p99, most")
        table = {}
        for kind, values in sorted(self.times.items()):
            rows = [
                [percentile(v, share) for share in (0.5, 0.9, 0.99, 1)]
                for v in (values[::2], values[1::2])
            ]
            table[kind] = {"count": len(values) // 2, "whole": rows[0], "first": rows[1]}
            told = ", ".join(f"{w:.3f} ({f:.3f})" for w, f in zip(*rows))
            print(f"  {kind}: {len(values) // 2}: {told}")
        if self.options.json:
            found = {
                "figures": self.figures,
                "counts": self.counts,
                "errors": self.errors,
                "times": table,
                "findings": self.findings,
                "samples": self.samples,
            }
            pathlib.Path(self.options.json).write_text(json.dumps(found, indent=1))
        for finding in self.findings:
            print(f"FINDING {finding[:4000]}")
        print(f"{self.finding_count} findings")


def tools_of(dialect):
    if dialect == "chat":
        return [{"type": "function", "function": TOOL}]
    if dialect == "responses":
        return [{"type": "function", **TOOL}]
    named = {"name": TOOL["name"], "description": TOOL["description"]}
    return [{**named, "input_schema": TOOL["parameters"]}]


def in_chat(history):
    messages = []
    for kind, *rest in history:
        if kind == "call":
            [[id, name, arguments]] = rest
            function = {"name": name, "arguments": arguments}
            call = {"id": id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": rest[0], "content": rest[1]})
        else:
            messages.append({"role": kind, "content": rest[0]})
    return messages


def in_responses(history):
    items = []
    for kind, *rest in history:
        if kind == "call":
            [[id, name, arguments]] = rest
            items.append(
                {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
            )
        elif kind == "result":
            items.append({"type": "function_call_output", "call_id": rest[0], "output": rest[1]})
        else:
            items.append({"role": kind, "content": rest[0]})
    return items


def in_messages(history):
    messages = []
    for kind, *rest in history:
        if kind == "call":
            [[id, name, arguments]] = rest
            block = {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
            messages.append({"role": "assistant", "content": [block]})
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": rest[0], "content": rest[1]}
            messages.append({"role": "user", "content": [block]})
        else:
            messages.append({"role": kind, "content": rest[0]})
    return messages


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--minutes", type=float, default=240)
    arguments.add_argument("--load", type=float, default=0.7, help="share of the measured rate")
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments.add_argument("--every", type=float, default=10, help="seconds between two samples")
    arguments.add_argument("--tenon", help="default: $TENON_BIN, else the release binary")
    arguments.add_argument("--json", help="file for the figures and samples")
    options = arguments.parse_args()
    if options.tenon:
        serving.TENON = pathlib.Path(options.tenon)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options, pathlib.Path(folder))
        soak.figures = {}
        asyncio.run(soak.run())
        soak.report()
    return 1 if soak.finding_count else 0


if __name__ == "__main__":
    sys.exit(main())
