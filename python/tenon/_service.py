"""Models that answer, in this process: what `tenon serve` has, without HTTP, or with it."""
from __future__ import annotations

import atexit
import json
import os
import pathlib
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tenon import _tenon
from tenon._errors import ApiError
from tenon._json import dumps
from tenon._waiting import items_of

__all__ = ["Service", "serve"]

Messages = Sequence[Mapping[str, Any]]

# The library's threads must have ended before the interpreter does: a tool that is written in Python needs it.
_open: weakref.WeakSet[Any] = weakref.WeakSet()
# Those of engines that are written in Python, too: one that comes back from the library later aborts the process.
_answering: set[threading.Thread] = set()
_PATIENCE_S = 2.0


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        each.close()
    deadline = time.monotonic() + _PATIENCE_S
    for thread in list(_answering):
        thread.join(max(0.0, deadline - time.monotonic()))


def _bundled_model() -> str:
    return os.environ.get("TENON_MODEL_PATH") or str(pathlib.Path(__file__).parent / "models" / "tenon-tiny.gguf")


class Service:
    """The models of a configuration. Any number of threads may use one.

        service = tenon.Service()                              # the bundled model
        service = tenon.Service.load("model.gguf")             # or a tenon.toml
        answer = service.chat([{"role": "user", "content": "Hello"}])
        async for chunk in service.astream(messages, tools=tools): ...
    """

    def __init__(self, config: str = "", folder: str | os.PathLike[str] = ".") -> None:
        """`config` is the text of a tenon.toml, files in it seen from `folder`."""
        self._native = _tenon.Service(config, os.fspath(folder)) if config else _tenon.Service._load(_bundled_model())
        _open.add(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Service:
        """Of a tenon.toml, or of a GGUF file alone."""
        self = cls.__new__(cls)
        self._native = _tenon.Service._load(os.fspath(path))
        _open.add(self)
        return self

    def close(self) -> None:
        """Ends what is under way."""
        self._native.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Requests as HTTP has them

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to any request that the server knows: `request("GET", "/v1/models")`. ApiError where it is refused."""
        status, answer = self._native._ask(method, path, b"" if body is None else dumps(body))
        return _checked(status, answer)

    async def arequest(self, method: str, path: str, body: Any = None) -> Any:
        call = _tenon._Call(self._native, method, path, b"" if body is None else dumps(body))
        try:
            pieces = [piece async for piece in items_of(call)]
        finally:
            call.cancel()
        return _checked(call.status, b"".join(pieces))

    # ---- Chat Completions

    def chat(self, messages: Messages, **request: Any) -> dict[str, Any]:
        """A whole answer. `request` is what Chat Completions has: tools, temperature... (docs/api.md), and
        `model`, where there is more than one."""
        answer: dict[str, Any] = self.request("POST", "/v1/chat/completions", self._body(messages, request))
        return answer

    async def achat(self, messages: Messages, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self.arequest("POST", "/v1/chat/completions", self._body(messages, request))
        return answer

    def stream(self, messages: Messages, **request: Any) -> Iterator[dict[str, Any]]:
        """The chunks of an answer as they come. Leaving the loop early cancels it."""
        call = self._start(messages, request)
        chunks = _Chunks(call)
        try:
            while (piece := call.next()) is not None:
                yield from chunks.read(piece)
            chunks.end()
        finally:
            call.close()

    async def astream(self, messages: Messages, **request: Any) -> AsyncIterator[dict[str, Any]]:
        call = self._start(messages, request)
        chunks = _Chunks(call)
        pieces = items_of(call)
        try:
            async for piece in pieces:
                for chunk in chunks.read(piece):
                    yield chunk
            chunks.end()
        finally:
            call.cancel()
            await pieces.aclose()  # type: ignore[attr-defined]

    def _start(self, messages: Messages, request: dict[str, Any]) -> _tenon._Call:
        body = dumps({**self._body(messages, request), "stream": True})
        return _tenon._Call(self._native, "POST", "/v1/chat/completions", body)

    def _body(self, messages: Messages, request: dict[str, Any]) -> dict[str, Any]:
        if "model" not in request and len(models := self.models) == 1:
            request["model"] = models[0]
        return {"messages": list(messages), **request}

    @property
    def models(self) -> list[str]:
        return [model["id"] for model in self.request("GET", "/v1/models")["data"]]

    # ---- HTTP

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Lets others in by HTTP, as the configuration's [server] says. `port` 0: any free one. Gives the base URL."""
        return self._native.listen(host, port)

    def stop_listening(self, grace_s: float = 5.0) -> None:
        """Lets answers under way end within `grace_s`, then closes the port."""
        if not 0 <= grace_s <= 1_000_000:
            raise ValueError(f"grace_s must be from 0 to 1000000, not {grace_s}")
        self._native.stop_listening(grace_s)

    # ---- Engines of the caller

    def add_engine(self, name: str, generate: Callable[[list[int], dict[str, Any], _tenon.Matcher | None], Iterable[int]],
                   vocab: _tenon.Vocab, chat_template: _tenon.ChatTemplate | None = None, *, context_tokens: int = 4096,
                   max_concurrent: int = 1) -> None:
        """Adds a model that `generate` is: given the prompt's ids, what was asked for ("max_tokens", "temperature", ...) and, where
        the answer is constrained, a matcher, it gives one id after the other, at the end an end token.

            def generate(prompt, request, matcher):
                while True:
                    if matcher is not None:
                        matcher.fill_mask(mask)
                    yield sample(mask)

        The matcher takes each token by itself. `generate` runs in a thread for each answer; it is closed (GeneratorExit) when
        nothing more is wanted, and what it raises fails the answer.
        """

        def start(generation: _tenon.Generation, prompt: list[int], request: dict[str, Any]) -> None:
            thread = threading.Thread(target=_run_engine, args=(generate, generation, prompt, request), name=f"tenon-{name}", daemon=True)
            thread.start()
            _answering.add(thread)
            _answering.difference_update([each for each in list(_answering) if not each.is_alive()])

        self._native._add_engine(name, start, vocab, chat_template, context_tokens, max_concurrent)


def _run_engine(generate: Callable[..., Iterable[int]], generation: _tenon.Generation, prompt: list[int], request: dict[str, Any]) -> None:
    reason, message = "stop", ""
    try:
        tokens = iter(generate(prompt, request, generation.matcher))
        try:
            for count, token in enumerate(tokens, 1):
                if not generation.token(int(token)):
                    break
                if count >= request.get("max_tokens", count + 1):
                    reason = "length"
                    break
        finally:
            if hasattr(tokens, "close"):
                tokens.close()
        if generation.is_cancelled:
            reason = "cancelled"
    except BaseException as error:  # Whatever it is, the answer has to end, and say why.
        reason, message = "error", f"{type(error).__name__}: {error}"
    generation.end(reason, message)


def _checked(status: int, answer: bytes) -> Any:
    try:
        body = json.loads(answer) if answer else None
    except ValueError:
        body = answer.decode(errors="replace")
    if status >= 400 or status == 0:
        error = body.get("error", body) if isinstance(body, dict) else {"message": str(body or "cancelled")}
        raise ApiError(status, error if isinstance(error, dict) else {"message": str(error)})
    return body


class _Chunks:
    """Reads the JSON of server-sent events, cut anywhere."""

    def __init__(self, call: _tenon._Call) -> None:
        self._call = call
        self._rest = b""

    def read(self, piece: bytes) -> Iterator[dict[str, Any]]:
        self._rest += piece
        if self._call.status >= 400:
            return
        *events, self._rest = self._rest.split(b"\n\n")
        for event in events:
            data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
            if data and data != b"[DONE]":
                chunk = json.loads(data)
                if "error" in chunk:
                    raise ApiError(500, chunk["error"])
                yield chunk

    def end(self) -> None:
        if self._call.status >= 400:
            _checked(self._call.status, self._rest)


def serve(path: str | os.PathLike[str] | None = None, *, config: str = "", host: str = "127.0.0.1", port: int = 8080,
          grace_s: float = 5.0, on_ready: Callable[[str], None] | None = print) -> None:
    """`tenon serve` in this process: the models of a tenon.toml or a GGUF file (`path`), of a configuration's text, or the bundled
    one. Runs until Ctrl-C or SIGTERM where it is called in the main thread. `on_ready` gets the base URL."""
    import signal

    service = Service.load(path) if path is not None else Service(config)
    stopped = threading.Event()
    with service:
        before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, lambda *_: stopped.set())
        try:
            url = service.listen(host, port)
            if on_ready is not None:
                on_ready(url)
            stopped.wait()
        finally:
            service.stop_listening(grace_s)
            for number, handler in before.items():
                signal.signal(number, handler)
