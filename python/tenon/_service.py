"""Models that answer, in this process: what `tenon serve` has, without HTTP, or with it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import threading
import time
import weakref
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeAlias

from tenon import _tenon
from tenon._errors import ApiError, UnavailableError
from tenon._json import dumps
from tenon._waiting import items_of

__all__ = ["Service", "serve"]

Messages = Sequence[Mapping[str, Any]]
_AnyCall: TypeAlias = "_tenon._Call | _tenon._WatchedCall"
_Asked: TypeAlias = "tuple[_tenon.Service, str, str, str | bytes]"

# The library's threads must have ended before the interpreter does: a tool that is written in Python needs it.
_open: weakref.WeakSet[Any] = weakref.WeakSet()
# Those of engines and tools that are written in Python, too: one that comes back from the library later aborts the process. One
# that does not end within a moment is left behind: it comes back from elsewhere, and ends there.
_answering: set[threading.Thread] = set()
_PATIENCE_S = 2.0


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        if hasattr(each, "_stop_waiting"):
            each._stop_waiting()
    for each in list(_open):
        each.close()
    deadline = time.monotonic() + _PATIENCE_S
    # A conversation that the program still has keeps its engine and toolbox, whose threads may be in Python just now.
    _tenon._end_callbacks(_PATIENCE_S)
    for thread in list(_answering):
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))


def keep_until_the_end(thread: threading.Thread) -> None:
    """A thread for which the interpreter waits at its end, for a moment."""
    _answering.difference_update(
        [each for each in list(_answering) if each.ident is not None and not each.is_alive()]
    )
    _answering.add(thread)


def _bundled_model() -> str:
    return os.environ.get("TENON_MODEL_PATH") or str(
        pathlib.Path(__file__).parent / "models" / "tenon-tiny.gguf"
    )


class Service:
    """The models of a configuration. Any number of threads may use one.

    service = tenon.Service()                              # the bundled model
    service = tenon.Service.load("model.gguf")             # or a tenon.toml
    answer = service.chat([{"role": "user", "content": "Hello"}])
    async for chunk in service.astream(messages, tools=tools): ...
    """

    def __init__(self, config: str = "", folder: str | os.PathLike[str] = ".") -> None:
        """`config` is the text of a tenon.toml, files in it seen from `folder`."""
        self._native = (
            _tenon.Service(config, os.fspath(folder))
            if config
            else _tenon.Service._load(_bundled_model())
        )
        _open.add(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Service:
        """From a tenon.toml, or from a GGUF file alone."""
        self = cls.__new__(cls)
        self._native = _tenon.Service._load(os.fspath(path))
        _open.add(self)
        return self

    def close(self) -> None:
        """Ends all answers."""
        self._native.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Requests as HTTP has them

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to any request that the server knows: `request("GET", "/v1/models")`. A body that is a str or bytes is JSON
        already. ApiError where it is refused."""
        call = _tenon._Call(*self._asked(method, path, body))
        _open.add(call)
        try:
            pieces = list(iter(call.next, None))
        finally:
            call.close()
        return _checked(call, b"".join(pieces))

    async def arequest(self, method: str, path: str, body: Any = None) -> Any:
        async with _watching(self._asked(method, path, body)) as call:
            pieces = [piece async for piece in items_of(call)]
        return _checked(call, b"".join(pieces))

    def _asked(self, method: str, path: str, body: Any) -> _Asked:
        return (
            self._native,
            method,
            path,
            b"" if body is None else body if isinstance(body, str | bytes) else dumps(body),
        )

    # ---- Chat Completions

    def chat(self, messages: Messages, **request: Any) -> dict[str, Any]:
        """A whole answer. `request` is what Chat Completions has: tools, temperature... (docs/api.md), and
        `model`, where there is more than one."""
        body = _body(messages, _whole(request, "chat", "stream"))
        answer: dict[str, Any] = self.request("POST", _CHAT, self._with_model(body))
        return answer

    async def achat(self, messages: Messages, **request: Any) -> dict[str, Any]:
        body = _body(messages, _whole(request, "achat", "astream"))
        answer: dict[str, Any] = await self.arequest("POST", _CHAT, await self._with_amodel(body))
        return answer

    def stream(self, messages: Messages, **request: Any) -> Generator[dict[str, Any], None, None]:
        """The chunks of an answer as they come. Leaving the loop early cancels it."""
        call = _tenon._Call(
            *self._asked(
                "POST", _CHAT, self._with_model(_body(messages, {**request, "stream": True}))
            )
        )
        _open.add(call)
        chunks = _Chunks(call)
        try:
            while (piece := call.next()) is not None:
                yield from chunks.read(piece)
            chunks.end()
        finally:
            call.close()

    async def astream(self, messages: Messages, **request: Any) -> AsyncIterator[dict[str, Any]]:
        body = await self._with_amodel(_body(messages, {**request, "stream": True}))
        async with _watching(self._asked("POST", _CHAT, body)) as call:
            chunks = _Chunks(call)
            pieces = items_of(call)
            try:
                async for piece in pieces:
                    for chunk in chunks.read(piece):
                        yield chunk
                chunks.end()
            finally:
                await pieces.aclose()  # type: ignore[attr-defined]

    def _with_model(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if "model" in body else _with_only(self.models, body)

    async def _with_amodel(self, body: dict[str, Any]) -> dict[str, Any]:
        return (
            body
            if "model" in body
            else _with_only(_ids_of(await self.arequest("GET", "/v1/models")), body)
        )

    @property
    def models(self) -> list[str]:
        return _ids_of(self.request("GET", "/v1/models"))

    # ---- HTTP

    def listen(self, host: str = "", port: int = -1) -> str:
        """Lets others in by HTTP, as the configuration's [server] says, or here: `port` 0 is any free one. Without a configuration
        it is 127.0.0.1 and any free port. Gives the URL of the server; clients of OpenAI's API want `url + "/v1"`."""
        if not -1 <= port <= 65535:
            raise ValueError(
                f"port must be from 0 to 65535, or -1 for the configuration's, not {port}"
            )
        return self._native.listen(host, port)

    def stop_listening(self, grace_s: float = 5.0) -> None:
        """Lets HTTP answers end within `grace_s`, then closes the port."""
        if not 0 <= grace_s <= 1_000_000:
            raise ValueError(f"grace_s must be from 0 to 1000000, not {grace_s}")
        self._native.stop_listening(grace_s)

    # ---- Engines of the caller

    def add_engine(
        self,
        name: str,
        generate: Callable[[list[int], dict[str, Any], _tenon.Matcher | None], Iterable[int]],
        vocab: _tenon.Vocab,
        chat_template: _tenon.ChatTemplate | None = None,
        *,
        context_tokens: int = 4096,
        max_concurrent: int = 1,
    ) -> None:
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

        if not callable(generate):
            raise TypeError(
                f"generate must be a function that gives token ids, not {type(generate).__name__}"
            )

        def start(
            generation: _tenon.Generation, prompt: list[int], request: dict[str, Any]
        ) -> None:
            thread = threading.Thread(
                target=_run_engine,
                args=(generate, generation, prompt, request),
                name=f"tenon-{name}",
                daemon=True,
            )
            thread.start()
            keep_until_the_end(thread)

        self._native._add_engine(name, start, vocab, chat_template, context_tokens, max_concurrent)


def _run_engine(
    generate: Callable[..., Iterable[int]],
    generation: _tenon.Generation,
    prompt: list[int],
    request: dict[str, Any],
) -> None:
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
    except BaseException as error:  # Any exception must end the answer, and the answer says why.
        reason, message = "error", f"{type(error).__name__}: {error}"
    generation.end(reason, message)


_CHAT = "/v1/chat/completions"


def _whole(request: dict[str, Any], method: str, streams: str) -> dict[str, Any]:
    if request.get("stream"):
        raise TypeError(
            f"{method}() gives the whole answer: {streams}() gives it as it comes, without stream="
        )
    return request


def _body(messages: Messages, request: dict[str, Any]) -> dict[str, Any]:
    if isinstance(messages, str | bytes | Mapping):
        raise TypeError(
            'messages must be a list of messages, as [{"role": "user", "content": "Hello"}], '
            f"not {type(messages).__name__}"
        )
    return {"messages": list(messages), **request}


def _ids_of(models: dict[str, Any]) -> list[str]:
    return [model["id"] for model in models["data"]]


def _with_only(models: list[str], body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "model": models[0]} if len(models) == 1 else body


@contextlib.asynccontextmanager
async def _watching(asked: _Asked) -> AsyncIterator[_tenon._WatchedCall]:
    call = _tenon._WatchedCall(*asked)
    _open.add(call)
    try:
        yield call
    except BaseException:
        call.cancel()
        # It ends soon, and the loop need not wait for that.
        threading.Thread(target=call.close, daemon=True).start()
        raise
    call.close()


def _check_whole(call: _AnyCall) -> None:
    if call.was_cut:
        raise UnavailableError("the answer was cut: the service has ended")


def _checked(call: _AnyCall, answer: bytes) -> Any:
    _check_whole(call)
    try:
        body = json.loads(answer) if answer else None
    except ValueError:
        body = answer.decode(errors="replace")
    if call.status >= 400:
        error = body.get("error", body) if isinstance(body, dict) else {"message": str(body)}
        raise ApiError(call.status, error if isinstance(error, dict) else {"message": str(error)})
    return body


class _Chunks:
    """Reads the JSON of server-sent events, cut anywhere."""

    def __init__(self, call: _AnyCall) -> None:
        self._call = call
        self._rest = b""

    def read(self, piece: bytes) -> Iterator[dict[str, Any]]:
        self._rest += piece
        if self._call.status >= 400:
            return
        *events, self._rest = self._rest.split(b"\n\n")
        for event in events:
            data = b"\n".join(
                line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")
            )
            if data and data != b"[DONE]":
                chunk = json.loads(data)
                if "error" in chunk:
                    raise ApiError(500, chunk["error"])
                yield chunk

    def end(self) -> None:
        _check_whole(self._call)
        if self._call.status >= 400:
            _checked(self._call, self._rest)


def serve(
    path: str | os.PathLike[str] | None = None,
    *,
    config: str = "",
    host: str = "",
    port: int = -1,
    grace_s: float = 5.0,
    on_ready: Callable[[str], None] | None = print,
) -> None:
    """`tenon serve` in this process: the models of a tenon.toml or a GGUF file (`path`), of a configuration's text, or the bundled
    one. It listens where the configuration says, which is http://127.0.0.1:8080 where that says nothing, or at `host` and `port` (0: any
    free one). Runs until Ctrl-C or SIGTERM where it is called in the main thread. `on_ready` gets the URL."""
    import signal

    is_configured = bool(config) if path is None else not os.fspath(path).endswith(".gguf")
    if port == -1 and not is_configured:
        port = 8080

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
