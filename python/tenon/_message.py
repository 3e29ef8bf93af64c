"""From events to messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenon import _tenon

__all__ = ["Fold", "parse"]


class Fold:
    """Folds events into the message that they describe.

    fold = Fold()
    for event in parser.feed(text) + parser.finish():
        fold.add(event)
    fold.message        # {"role": "assistant", "content": ..., "tool_calls": [...]}
    """

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self.incomplete: set[int] = set()  # Calls that have not ended, or were cut.
        self.diagnostics: list[_tenon.Diagnostic] = []
        self.finish: _tenon.Finish | None = None

    def add(self, event: _tenon.Event) -> None:
        if isinstance(event, _tenon.CallArguments):
            self._arguments[event.index].append(event.text)
        elif isinstance(event, _tenon.ContentDelta):
            self._content.append(event.text)
        elif isinstance(event, _tenon.ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, _tenon.CallBegin):
            self._calls[event.index] = {
                "id": event.id,
                "type": "function",
                "function": {"name": event.name},
            }
            self._arguments[event.index] = []
            self.incomplete.add(event.index)
        elif isinstance(event, _tenon.CallEnd):
            if not event.is_incomplete:
                self.incomplete.discard(event.index)
        elif isinstance(event, _tenon.Diagnostic):
            self.diagnostics.append(event)
        elif isinstance(event, _tenon.Finish):
            self.finish = event
        else:
            raise TypeError(f"an event is wanted, not {type(event).__name__}")

    def add_all(self, events: Iterable[_tenon.Event]) -> None:
        for event in events:
            self.add(event)

    @property
    def message(self) -> dict[str, Any]:
        """The message in the shape of Chat Completions. `content` is None if there was no text."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._content) or None}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {
                    **call,
                    "function": {**call["function"], "arguments": "".join(self._arguments[index])},
                }
                for index, call in sorted(self._calls.items())
            ]
        return message


def parse(
    text: str | bytes,
    format: _tenon.Format | str,
    tools: list[dict[str, Any]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The message that a model's whole output `text` is. `options` are those of StreamParser."""
    parser = _tenon.StreamParser(
        format, None, {"tools": tools, **options} if tools is not None else options
    )
    fold = Fold()
    fold.add_all(parser.feed(text))
    fold.add_all(parser.finish())
    return fold.message
