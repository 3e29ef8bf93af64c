"""Functions that a model may call, and who runs them."""
from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tenon import _tenon
from tenon._json import dumps
from tenon._schema import arguments_reader
from tenon._schema import tool as tool_of
from tenon._service import _open
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
    sees them; what a function raises is told, too. A result that is no str is told as JSON. Functions run in threads of the library,
    several at a time; coroutines in the event loop that asks, where it alone uses the toolbox then, else in one of Tenon's.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]] = (), **options: Any) -> None:
        """`options`: max_concurrent (8), time_limit_s (60), max_result_bytes (262144)."""
        self._native = _tenon._Toolbox(options)
        self._lock = threading.RLock()  # again where the collector closes something
        self._running: set[int] = set()  # threads that run a function; guarded by the GIL
        # Who asks, and in which loop; guarded by _lock.
        self._askings: weakref.WeakKeyDictionary[_tenon._Asking, asyncio.AbstractEventLoop | None] = weakref.WeakKeyDictionary()
        _open.add(self)
        for function in functions:
            self.add(function)

    def add(self, function: Callable[..., Any], *, name: str | None = None, description: str | None = None,
            parameters: Mapping[str, Any] | None = None, strict: bool | None = None) -> None:
        """`parameters` is a JSON schema that holds instead of the hints'. `strict` False: the model is not held to it while it writes;
        what does not fit still reaches no function."""
        if parameters is None:
            tool, read = tool_of(function, name=name, description=description), arguments_reader(function)
        else:
            described = {"name": name or function.__name__, "description": description or inspect.getdoc(function) or "",
                         "parameters": dict(parameters)}
            tool, read = {"type": "function", "function": described}, lambda arguments: arguments

        if strict is not None:
            tool["function"]["strict"] = strict

        def run(call: _tenon._ToolCall, _: str, arguments: dict[str, Any]) -> None:
            thread = threading.get_ident()
            self._running.add(thread)
            try:
                result = function(**read(arguments))
                if inspect.isawaitable(result):
                    schedule(_finish(call, result), self._loop_that_asks())
                    return
                call.end(_text_of(result))
            except Exception as error:  # The model is told, and goes on.
                call.end(_told(error), True)
            finally:
                self._running.discard(thread)

        self._native.add(tool, run)

    def tool(self, function: Function) -> Function:
        """Adds it, as a decorator."""
        self.add(function)
        return function

    def add_mcp(self, servers: Mapping[str, Any], folder: str | os.PathLike[str] = ".") -> None:
        """The tools of MCP servers: `{"mcpServers": {"files": {"command": ...}}}`."""
        self._native.add_mcp(servers, os.fspath(folder))

    def tools(self) -> list[dict[str, Any]]:
        """All of them, as requests have them."""
        return self._native.tools()

    def close(self) -> None:
        """Cancels what runs, the answers that use it too, and waits for it. A tool cannot close the toolbox that it is of."""
        if threading.get_ident() in self._running:
            raise RuntimeError("a tool cannot close its own toolbox, which would wait for the tool")
        self._native.close()
        with self._lock:
            askings = list(self._askings)
        for asking in askings:
            asking.close()

    def _ask(self, conversation: _tenon._Conversation, is_submit: bool, what: str, limits: str,
             loop: asyncio.AbstractEventLoop | None) -> _tenon._Asking:
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
        return json.dumps(result, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if callable(getattr(value, "model_dump", None)):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset):
        return list(value)
    return str(value)
