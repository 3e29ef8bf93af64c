"""Conversations of several turns, with tools."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from tenon import _tenon
from tenon._json import dumps
from tenon._service import Service, _open
from tenon._toolbox import Toolbox
from tenon._waiting import items_of

__all__ = ["Answer", "Conversation", "Turn"]


@dataclasses.dataclass(frozen=True)
class Turn:
    """An answer of the model."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The calls that wait for results."""
    finish_reason: str = ""
    usage: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The sum over all rounds."""
    rounds: int = 1
    diagnostics: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @classmethod
    def _of(cls, turn: dict[str, Any]) -> Turn:
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(
            **{name: value for name, value in turn.items() if name in known and value is not None}
        )


class Answer:
    """An answer that is coming. The question is sent when the answer is first used.

        for event in answer: ...            # or `async for`
        turn = answer.result()              # or `await answer`

    Leaving the loop early, or cancelling the task that waits, cancels the answer.
    """

    def __init__(self, conversation: Conversation, is_submit: bool, what: str) -> None:
        self._conversation = conversation
        self._is_submit = is_submit
        self._what = what
        self._is_cancelled = False
        self._is_over = False
        self._asking: _tenon._Asking | None = None
        self._turn: Turn | None = None

    def cancel(self) -> None:
        """Ends it soon, with the finish reason "cancelled"; if it has not begun, the question is not sent."""
        self._is_cancelled = True
        if self._asking is not None:
            self._asking.cancel()

    def __iter__(self) -> Iterator[_tenon.Event]:
        if self._ended_before():
            return
        asking = self._start(None)
        try:
            while (event := asking.next()) is not None:
                yield event
            self._finish(asking)
        finally:
            asking.close()

    def result(self) -> Turn:
        """Waits for the end."""
        if self._turn is None:
            for _ in self:
                pass
        assert self._turn is not None
        return self._turn

    async def __aiter__(self) -> AsyncIterator[_tenon.Event]:
        if self._ended_before():
            return
        asking = self._start(asyncio.get_running_loop())
        events = items_of(asking)
        try:
            async for event in events:
                yield event
            self._finish(asking)
        finally:
            await events.aclose()  # type: ignore[attr-defined]
            if self._turn is None:
                asking.cancel()
                # It ends soon, and the loop need not wait for that.
                threading.Thread(target=asking.close, daemon=True).start()

    def __await__(self) -> Generator[Any, None, Turn]:
        return self._aresult().__await__()

    async def _aresult(self) -> Turn:
        if self._turn is None:
            events = aiter(self)
            try:
                async for _ in events:
                    pass
            finally:
                await events.aclose()  # type: ignore[attr-defined]
        assert self._turn is not None
        return self._turn

    def _ended_before(self) -> bool:
        if self._asking is not None or self._is_over or not self._is_cancelled:
            return False
        self._turn = Turn(finish_reason="cancelled", rounds=0)
        return True

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> _tenon._Asking:
        if self._asking is not None or self._is_over:
            raise RuntimeError("this answer has been asked for already")
        self._asking = self._conversation._ask(self._is_submit, self._what, loop)
        asking = self._asking
        if self._is_cancelled:  # meanwhile
            asking.cancel()
        return asking

    def _finish(self, asking: _tenon._Asking) -> None:
        # It keeps the conversation and the tools alive in a way that the garbage collector does not see.
        if self._conversation._asking is asking:
            self._conversation._asking = None
        self._asking, self._is_over = None, True
        self._turn = Turn._of(asking.turn())


class Conversation:
    """A conversation with a model of a service. One thread, or one task, at a time.

        talk = tenon.Conversation(service, tools=[get_weather], system="Be brief.")
        turn = talk.send("Weather in Oslo?")                # runs the tools, too
        async for event in talk.stream("And in Rome?"): ...

    Without tools of its own it tells calls: `turn.tool_calls`, to be answered by submit(). A turn that fails changes nothing,
    unless tools have run: then submit({}) goes on with their results.
    """

    def __init__(
        self,
        service: Service,
        *,
        tools: Toolbox | Iterable[Callable[..., Any]] | None = None,
        system: str | None = None,
        request_tools: Iterable[Mapping[str, Any]] = (),
        max_rounds: int | None = None,
        max_time_s: float | None = None,
        saved: Mapping[str, Any] | None = None,
        **request: Any,
    ) -> None:
        """`request` is what each request has: model, temperature, ... `tools` are functions, or a Toolbox, and run here;
        `request_tools` are tools in the shape of Chat Completions, whose calls are told. `saved` is what save() gave."""
        if not isinstance(service, Service):
            raise TypeError(f"a conversation is with a tenon.Service, not {type(service).__name__}")
        if max_rounds is not None and max_rounds < 1:
            raise ValueError(f"max_rounds must be from 1 on, not {max_rounds}")
        self.service = service
        self.tools = tools if isinstance(tools, Toolbox) or tools is None else Toolbox(tools)
        if request_tools := list(request_tools):
            request["tools"] = request_tools
        if system is not None:
            request["messages"] = [
                {"role": "system", "content": system},
                *request.get("messages", []),
            ]
        limits = {"max_rounds": max_rounds, "max_time_s": max_time_s}
        self._limits = dumps({name: value for name, value in limits.items() if value is not None})
        self._asking: _tenon._Asking | None = None
        self._native = _tenon._Conversation(service._native, request, saved)

    def stream(self, message: str | Mapping[str, Any]) -> Answer:
        """Sends `message`. Events come as they happen, also those of answers before tools were run."""
        return Answer(
            self,
            False,
            dumps({"role": "user", "content": message} if isinstance(message, str) else message),
        )

    def send(self, message: str | Mapping[str, Any]) -> Turn:
        return self.stream(message).result()

    async def asend(self, message: str | Mapping[str, Any]) -> Turn:
        return await self.stream(message)

    def stream_results(self, results: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Answer:
        """The results of all calls of the last turn, by their ids, or as [{"tool_call_id", "content", "is_error"}]."""
        if isinstance(results, Mapping):
            results = [
                {"tool_call_id": id, "content": text if isinstance(text, str) else dumps(text)}
                for id, text in results.items()
            ]
        return Answer(self, True, dumps(list(results)))

    def submit(self, results: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Turn:
        return self.stream_results(results).result()

    async def asubmit(self, results: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Turn:
        return await self.stream_results(results)

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Calls that wait for results."""
        return self._idle().pending()

    def dismiss(self, why: str) -> None:
        """Gives each waiting call the result `why`; the model is not asked."""
        self._idle().dismiss(why)

    def reset(self) -> None:
        """Returns to the beginning of the conversation."""
        self._idle().reset()

    def save(self) -> dict[str, Any]:
        """{"version": 1, "messages": [...]}; tools and settings are not included."""
        return self._idle().save()

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.save()["messages"]
        return messages

    def copy(self) -> Conversation:
        """A branch: it shares the messages so far, and continues independently."""
        branch = Conversation.__new__(Conversation)
        branch.__dict__.update(self.__dict__, _native=self._idle().copy(), _asking=None)
        return branch

    def _ask(
        self, is_submit: bool, what: str, loop: asyncio.AbstractEventLoop | None
    ) -> _tenon._Asking:
        native = self._idle()
        if self.tools is None:
            asking = _tenon._Asking(native, is_submit, what, None, self._limits)
        else:
            asking = self.tools._ask(native, is_submit, what, self._limits, loop)
        self._asking = asking
        _open.add(asking)
        return asking

    def _idle(self) -> _tenon._Conversation:
        if self._asking is not None:
            if not self._asking.is_over:
                raise RuntimeError("the conversation waits for an answer")
            self._asking.close()  # of one that was cancelled
            self._asking = None
        return self._native
