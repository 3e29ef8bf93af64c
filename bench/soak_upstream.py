#!/usr/bin/env python3
"""An upstream for bench/soak.py: it answers what the mark in its prompt says, with the fault that the mark says.

    soak_upstream.py KIND PORT INDEX        # KIND: openai, llama-server or vllm

A mark is `[[ID WHAT N FAULT AT WHERE PACE]]`. The answer to a prompt has N words, each of which has the last mark's id,
and names the marks before it, so a client knows each byte that it must get. WHAT: `say`, or `call` for a call of the
tool `look_up`. FAULT is in FAULTS; it comes before the piece AT of the answer, on the server whose INDEX is WHERE, or on
each (`*`). PACE: milliseconds between two pieces; 0: in one write.

A line `ID INDEX` on stdout tells each answer that was asked for, before anything of it is sent.
"""

import asyncio
import json
import os
import pathlib
import re
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from scripted_upstream import TEMPLATE, call  # noqa: E402

MARK = re.compile(rb"\[\[(\w+) (say|call) (\d+) ([\w-]+) (\d+) ([*\d]) (\d+)\]\]")
# Those that an answer survives, and those that end it: `close` and numbers before its head, the others before a piece.
FAULTS = ("pause", "close", "500", "503", "429", "400", "cut", "reset", "stall", "error", "garbage")
CONTEXT = 1 << 20
END_OF_TURN = 257  # of the tokenizer of bytes


def marks_of(text):
    return [tuple(part.decode() for part in mark) for mark in MARK.findall(text)]


def words_of(name, count):
    return [f"{name}.{i}" for i in range(count)]


def arguments_of(names, count):
    return {
        "mark": names[-1],
        "after": ",".join(names[:-1]),
        "words": " ".join(words_of(names[-1], count)),
    }


def text_pieces(names, count):
    """The answer's text: `names` are the ids of all marks, the last one being the answer's."""
    return [
        f"Answer to {names[-1]} after {','.join(names[:-1])}:",
        *(" " + word for word in words_of(names[-1], count)),
        f" End of {names[-1]}.",
    ]


def cut_in_pieces(text, size=8):
    return [text[at : at + size] for at in range(0, len(text), size)]


class Connection:
    """One HTTP/1.1 connection, and what of it the three kinds have in common."""

    def __init__(self, kind, index, reader, writer):
        self.kind, self.index, self.reader, self.writer = kind, index, reader, writer

    async def run(self):
        try:
            while await self.one():
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writer.close()

    async def one(self):
        """Answers a request; whether the connection is kept."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"\r\ncontent-length: *(\d+)", head)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        path = head.split(" ", 2)[1]
        if path in ("/v1/chat/completions", "/completion", "/v1/completions"):
            return await self.answer(body)
        self.document(self.told(path, body))
        await self.writer.drain()
        return True

    def told(self, path, body):
        """Answers to questions: what this server is, and its tokens."""
        if path == "/props":
            return {
                "default_generation_settings": {"n_ctx": CONTEXT},
                "total_slots": 64,
                "chat_template": TEMPLATE,
                "bos_token": "",
                "eos_token": "",
            }
        if path == "/v1/models":
            return {
                "object": "list",
                "data": [
                    {
                        "id": "soak",
                        "object": "model",
                        "max_model_len": CONTEXT,
                        "meta": {"n_vocab": 256},
                    }
                ],
            }
        if path == "/tokenize":
            content = json.loads(body)["content"]
            if isinstance(content, str):
                return {"tokens": list(content.encode())}
            return {
                "tokens": [{"id": i, "piece": chr(i) if i < 128 else [i]} for i in content],
            }
        return {}

    def document(self, value, status=200, more=""):
        data = json.dumps(value).encode()
        self.writer.write(
            f"HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n{more}"
            f"content-length: {len(data)}\r\n\r\n".encode()
            + data
        )

    def prompt_of(self, body):
        """The bytes of the prompt. A mark has no character that JSON would escape."""
        if self.kind == "openai":
            return body
        ids = json.loads(body)["prompt"]
        return bytes(i for i in ids if i < 256)

    async def answer(self, body):
        marks = marks_of(self.prompt_of(body))
        if not marks:
            self.document({"error": {"message": "the prompt has no mark", "code": 400}}, 400)
            return True
        name, what, count, fault, at, where, pace = marks[-1]
        os.write(1, f"{name} {self.index}\n".encode())
        if where not in ("*", str(self.index)):
            fault = "ok"
        if fault == "close":
            return False
        if fault.isdigit():
            error = {"message": f"{name} meets {fault}", "code": int(fault)}
            self.document({"error": error}, int(fault), "retry-after: 1\r\n")
            await self.writer.drain()
            return True
        self.is_whole = self.kind == "openai" and b'"stream":true' not in body.replace(b" ", b"")
        names = [mark[0] for mark in marks]
        events = self.events(what, names, int(count))
        if self.is_whole:
            if fault in ("ok", "pause"):
                self.document(self.whole(what, names, int(count)))
                await self.writer.drain()
                return True
            return False
        self.writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        return await self.stream(events, fault, int(at), int(pace) / 1000)

    async def stream(self, events, fault, at, pace):
        waiting = []
        for i, event in enumerate(events):
            if i == at and fault != "ok":
                self.send(waiting)
                await self.writer.drain()
                waiting = []
                if not await self.broken(fault):
                    return False
            waiting.append(event)
            if pace or len(waiting) >= 64:
                self.send(waiting)
                waiting = []
                await self.writer.drain()
                if pace:
                    await asyncio.sleep(pace)
        self.send(waiting)
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True

    async def broken(self, fault):
        """Does what the fault is; whether the answer goes on."""
        if fault == "pause":
            await asyncio.sleep(1)
            return True
        if fault == "stall":
            await self.reader.read(1)  # until the other side gives up
        elif fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
        elif fault == "error":
            self.send([b'{"error": {"message": "the model died", "code": 500}}'])
        elif fault == "garbage":
            self.send([b"{no JSON"])
        await self.writer.drain()
        return False

    def send(self, events):
        if events:
            data = b"".join(b"data: " + event + b"\n\n" for event in events)
            self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def events(self, what, names, count):
        """The events of an answer; the first ones are its pieces."""
        if self.kind == "openai":
            return self.chat_events(what, names, count)
        pieces = text_pieces(names, count)
        if what == "call":
            pieces = cut_in_pieces(call("look_up", arguments_of(names, count)))
        if self.kind == "llama-server":
            events = [json.dumps({"content": piece, "stop": False}).encode() for piece in pieces]
            last = {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": count}
            return [*events, json.dumps(last).encode()]
        events = [self.vllm_event(list(piece.encode())) for piece in pieces]
        return [*events, self.vllm_event([END_OF_TURN], "stop"), b"[DONE]"]

    def vllm_event(self, ids, reason=None):
        choice = {
            "index": 0,
            "text": "?",
            "logprobs": None,
            "finish_reason": reason,
            "stop_reason": None,
            "token_ids": ids,
        }
        return json.dumps({"id": "cmpl-1", "model": "soak", "choices": [choice]}).encode()

    def chat_events(self, what, names, count):
        if what == "call":
            begin = {"name": "look_up", "arguments": ""}
            first = {"index": 0, "id": "up-" + names[-1], "type": "function", "function": begin}
            parts = cut_in_pieces(json.dumps(arguments_of(names, count)))
            deltas = [{"role": "assistant", "tool_calls": [first]}]
            deltas += [
                {"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts
            ]
        else:
            deltas = [{"content": piece} for piece in text_pieces(names, count)]
        chunks = [self.chunk(delta, None) for delta in deltas]
        return [*chunks, self.chunk({}, "tool_calls" if what == "call" else "stop"), b"[DONE]"]

    def chunk(self, delta, reason):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        return json.dumps({**head, "model": "soak", "choices": [choice]}).encode()

    def whole(self, what, names, count):
        message = {"role": "assistant", "content": "".join(text_pieces(names, count))}
        if what == "call":
            function = {"name": "look_up", "arguments": json.dumps(arguments_of(names, count))}
            calls = [{"id": "up-" + names[-1], "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "tool_calls" if what == "call" else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": "1", "object": "chat.completion", "model": "soak", "choices": [choice]}


def write_tokenizer(folder):
    """A tokenizer of bytes with ids as they are, and two control tokens, for `tokenizer` of engine vllm."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    spelling = {byte: chr(byte) if byte in printable else chr(next(others)) for byte in range(256)}
    control = [
        {
            "id": i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, text in ((256, "<|im_start|>"), (END_OF_TURN, "<|im_end|>"))
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    vocabulary = {text: byte for byte, text in spelling.items()}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    tokenizer = {
        "version": "1.0",
        "added_tokens": control,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": model,
    }
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    about = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


async def main():
    kind, port, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    async def serve(reader, writer):
        await Connection(kind, index, reader, writer).run()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024, limit=1 << 26)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
