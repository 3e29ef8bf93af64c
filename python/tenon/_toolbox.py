"""Functions that a model may call, and who runs them."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tenon import _tenon
from tenon._json import dumps
from tenon._schema import arguments_reader, check_callable, doc_of, name_of
from tenon._schema import tool as tool_of
from tenon._service import _open, keep_until_the_end
from tenon._waiting import schedule

__all__ = ["Toolbox"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Toolbox:
    """Functions, and servers of the Model Context Protocol. Any number of threads and conversations may use one.

        tools = tenon.Toolbox([get_weather])

        @tools.tool
        async def search(query: str) -> list[str]:
            '''Search the archive.'''

    The schema is that of the hints and the docstring (`tenon.tool`). Arguments that break it are told to the model, and no function
    sees them; what a function raises is told, too. A result that is no str is told as JSON, in which NaN is null. Functions run in
    threads, several at a time; coroutines in the event loop that asks, where it alone uses the toolbox then, else in one of Tenon's.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]] = (), **options: Any) -> None:
        """`options`: max_concurrent (8), time_limit_s (60), max_result_bytes (262144)."""
        self._native = _tenon._Toolbox(options)
        self._lock = threading.RLock()  # reentrant, since the garbage collector may close something
        # What runs a function, and the event that a thread of the library waits for meanwhile; guarded by the GIL.
        self._running: dict[threading.Thread, threading.Event] = {}
        self._is_waited_for = True
        # The thread that asks, and its loop; guarded by _lock.
        self._askings: weakref.WeakKeyDictionary[
            _tenon._Asking, asyncio.AbstractEventLoop | None
        ] = weakref.WeakKeyDictionary()
        _open.add(self)
        for function in functions:
            self.add(function)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        strict: bool | None = None,
    ) -> None:
        """`parameters` is a JSON schema that holds instead of the hints'. `strict` False: the model is not held to it while it writes;
        what does not fit still reaches no function."""
        if parameters is None:
            tool, read = (
                tool_of(function, name=name, description=description),
                arguments_reader(function),
            )
        else:
            check_callable(function)
            described = {
                "name": name_of(function) if name is None else name,
                "description": doc_of(function) if description is None else description,
                "parameters": dict(parameters),
            }
            tool, read = {"type": "function", "function": described}, lambda arguments: arguments

        if strict is not None:
            tool["function"]["strict"] = strict

        def work(
            call: _tenon._ToolCall, arguments: dict[str, Any], has_ended: threading.Event
        ) -> None:
            try:
                result = function(**read(arguments))
                if inspect.isawaitable(result):
                    schedule(_finish(call, result), self._loop_that_asks())
                else:
                    call.end(_text_of(result))
            except Exception as error:  # The model gets it as the result.
                call.end(_told(error), True)
            finally:
                self._running.pop(threading.current_thread(), None)
                has_ended.set()

        def run(call: _tenon._ToolCall, name: str, arguments: dict[str, Any]) -> None:
            # In a thread that the end of the interpreter can leave behind, which it cannot do with one of the library.
            has_ended = threading.Event()
            thread = threading.Thread(
                target=work, args=(call, arguments, has_ended), name=f"tenon-{name}", daemon=True
            )
            keep_until_the_end(thread)
            self._running[thread] = has_ended
            try:
                thread.start()
            except RuntimeError as error:  # there are too many
                del self._running[thread]
                call.end(_told(error), True)
                return
            if self._is_waited_for:
                has_ended.wait()

        self._native.add(tool, run)

    def tool(self, function: Function) -> Function:
        """Adds it, as a decorator."""
        self.add(function)
        return function

    def add_mcp(self, servers: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> None:
        """The tools of MCP servers: `{"mcpServers": {"files": {"command": ...}}}`."""
        self._native.add_mcp(servers, os.fspath(folder))

    def tools(self) -> list[dict[str, Any]]:
        """All tools, as in a request."""
        return self._native.tools()

    def close(self) -> None:
        """Cancels what runs, the answers that use it too, and waits for it. A tool cannot close the toolbox that it is of."""
        if threading.current_thread() in self._running:
            raise RuntimeError("a tool cannot close its own toolbox, which would wait for the tool")
        self._native.close()
        with self._lock:
            askings = list(self._askings)
        for asking in askings:
            asking.close()

    def _stop_waiting(self) -> None:
        """For the end of the interpreter: running tools get no more time."""
        self._is_waited_for = False
        for has_ended in list(self._running.values()):
            has_ended.set()

    def _ask(
        self,
        conversation: _tenon._Conversation,
        is_submit: bool,
        what: str,
        limits: str,
        loop: asyncio.AbstractEventLoop | None,
    ) -> _tenon._Asking:
        with self._lock:  # Its first call finds the loop.
            asking = _tenon._Asking(conversation, is_submit, what, self._native, limits)
            self._askings[asking] = loop
        return asking

    def _loop_that_asks(self) -> asyncio.AbstractEventLoop | None:
        """None where a thread asks, which may be a loop's that waits for the answer, or several loops do."""
        with self._lock:
            loops = {loop for asking, loop in self._askings.items() if not asking.is_over}
        return loops.pop() if len(loops) == 1 else None


async def _finish(call: _tenon._ToolCall, result: Any) -> None:
    task = asyncio.ensure_future(result)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=0.1)
            if call.is_cancelled:
                task.cancel()
        call.end(_text_of(task.result()))
    except asyncio.CancelledError:
        task.cancel()
        call.end("cancelled", True)
    except Exception as error:
        call.end(_told(error), True)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _text_of(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, bytes):
        return result.decode(errors="replace")
    if callable(getattr(result, "model_dump_json", None)):  # a pydantic model
        return str(result.model_dump_json())
    try:
        return dumps(result)
    except (TypeError, ValueError):
        return dumps(_plain(result))


def _plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's terms."""
    if depth > _MAX_DEPTH:
        raise ValueError(
            f"the tool's result is more than {_MAX_DEPTH} levels deep, or holds itself"
        )
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else _key_of(key): _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), depth + 1)
            for field in dataclasses.fields(value)
        }
    if callable(getattr(value, "model_dump", None)):
        return _plain(value.model_dump(mode="json"), depth + 1)
    if callable(getattr(value, "tolist", None)):  # NumPy's
        return _plain(value.tolist(), depth + 1)
    if _has_text(type(value)):  # a date, a path, a number of another kind
        return str(value)
    raise TypeError(
        f"the tool's result has a {type(value).__name__}, which has no JSON: give a str, numbers, lists, dicts"
    )


def _has_text(kind: type) -> bool:
    """Whether the type has a text of its own, which tells more than the address of the object."""
    return any("__str__" in each.__dict__ for each in kind.__mro__[:-1])


def _key_of(key: Any) -> str:
    return (
        dumps(_plain(key))
        if key is None or isinstance(key, bool | int | float)
        else str(_plain(key))
    )


_MAX_DEPTH = 200
