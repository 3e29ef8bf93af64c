"""Waiting for the library: in a thread, or in an event loop that watches a file descriptor. No thread of the library needs the GIL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")


class Source(Protocol[Item]):
    def take(self) -> tuple[list[Item], bool]: ...
    def fileno(self) -> int: ...


async def items_of(source: Source[Item]) -> AsyncIterator[Item]:
    """The items of `source` until its end. The event loop is free meanwhile."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(source.fileno(), readable.set)
    try:
        while True:
            readable.clear()
            items, is_ended = source.take()
            for item in items:
                yield item
            if is_ended and not items:
                return
            if not is_ended:
                await readable.wait()
    finally:
        loop.remove_reader(source.fileno())


class _OwnLoop:
    """A loop in a thread of its own, for coroutines without a running loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        import threading

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="tenon-asyncio", daemon=True
            ).start()
        return self._loop


own_loop = _OwnLoop()
os.register_at_fork(after_in_child=own_loop.__init__)  # type: ignore[misc]  # its thread is not there


def schedule(coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop | None) -> None:
    """Runs it in `loop`, or in a loop of ours if that one is not running."""
    if loop is None or not loop.is_running():
        loop = own_loop.get()
    asyncio.run_coroutine_threadsafe(coroutine, loop)
