"""What the hooks of vLLM and SGLang share: formats and vocabularies of their tokenizers, one answer's parser, grammars of calls."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon import _tenon

__all__ = [
    "AnswerParser",
    "CallDelta",
    "apply_words",
    "calls_grammar",
    "format_of",
    "tools_of",
    "vocab_of",
]


@dataclass(slots=True)
class CallDelta:
    """A piece of one call: `id` and `name` come once, at its beginning."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class AnswerParser:
    """The calls and the content of one answer. Reasoning is the server's own parser's, and text for this one."""

    def __init__(self, format: _tenon.Format, tools: Sequence[Mapping[str, Any]]) -> None:
        self._parser = _tenon.StreamParser(
            format, None, {"tools": list(tools), "parse_reasoning": False}
        )
        self.names: list[str] = []
        self.arguments: list[str] = []

    def feed(self, text: str) -> tuple[str, list[CallDelta]]:
        return self._read(self._parser.feed(text))

    def finish(self) -> tuple[str, list[CallDelta]]:
        """The text that was held back because it could have become a marker. Call nothing after it."""
        return self._read(self._parser.finish())

    def _read(self, events: list[_tenon.Event]) -> tuple[str, list[CallDelta]]:
        content, deltas = "", list[CallDelta]()
        for event in events:
            if isinstance(event, _tenon.CallArguments):
                self.arguments[event.index] += event.text
                if deltas and deltas[-1].index == event.index:
                    deltas[-1].arguments += event.text
                else:
                    deltas.append(CallDelta(event.index, arguments=event.text))
            elif isinstance(event, _tenon.ContentDelta):
                content += event.text
            elif isinstance(event, _tenon.CallBegin):
                self.names.append(event.name)
                self.arguments.append("")
                deltas.append(CallDelta(event.index, event.id, event.name))
        return content, deltas


def tools_of(tools: Iterable[Any] | None) -> list[dict[str, Any]]:
    """A server's functions in the shape of Chat Completions. Tools of Responses may be flat, or no functions."""
    described = [
        tool if isinstance(tool, dict) else tool.model_dump(exclude_none=True)
        for tool in tools or ()
    ]
    return [
        {
            "type": "function",
            "function": {
                name: function[name]
                for name in ("name", "description", "parameters", "strict")
                if function.get(name) is not None
            },
        }
        for tool in described
        if tool.get("type", "function") == "function"
        for function in [tool.get("function") or tool]
    ]


def format_of(tokenizer: Any) -> _tenon.Format:
    """The format of the model that `tokenizer` is of. Fails with ValueError where nothing tells it."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    clues = {
        "chat_template": template,
        "model_name": getattr(tokenizer, "name_or_path", None),
        "bos_token": getattr(tokenizer, "bos_token", None),
        "eos_token": getattr(tokenizer, "eos_token", None),
    }
    return _detected(tuple((name, str(clue)) for name, clue in clues.items() if clue))


@functools.lru_cache(maxsize=16)
def _detected(clues: tuple[tuple[str, str], ...]) -> _tenon.Format:
    format, _ = _tenon.Format.detect(None, **dict(clues))
    if format is None:
        raise ValueError(
            "nothing tells in which format this model writes calls; name one: "
            + ", ".join(_tenon.Format.names())
        )
    return format


def vocab_of(tokenizer: Any, ends: Iterable[int] = ()) -> _tenon.Vocab:
    """The vocabulary of a tokenizer of `transformers`, or of the folder that it came from. `ends`, those that a model's configuration
    names, end its turns as far as they are control tokens: some configurations have another model's."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        config = {
            name: str(token)
            for name in ("bos_token", "eos_token")
            if (token := getattr(tokenizer, name, None))
        }
        vocab = _tenon.Vocab.parse(backend.to_str(), config)
    elif os.path.isdir(folder := str(getattr(tokenizer, "name_or_path", ""))):
        vocab = _tenon.Vocab.load(folder)
    else:
        raise ValueError(f"{type(tokenizer).__name__} has neither a tokenizer.json nor a folder")
    own = getattr(tokenizer, "eos_token_id", None)
    named = {id for id in ends if 0 <= id < len(vocab) and vocab.is_control(id)}
    missing = named.union([] if own is None else [own]).difference(vocab.ends)
    return vocab.with_ends(sorted(missing)) if missing else vocab


def calls_grammar(
    format: _tenon.Format,
    tools: Sequence[Mapping[str, Any]],
    tool_choice: Any,
    parallel: bool | None,
) -> str | None:
    """EBNF, as xgrammar reads it, of what may be answered; None where calls need not be held: they are where one must come, or where
    a tool is strict. Fails with ValueError where one must come and no grammar can hold it; a strict tool may then be called all the same,
    and a warning says so."""
    is_free = tool_choice in (None, "auto")
    if (
        tool_choice == "none"
        or not tools
        or (is_free and not any(tool["function"].get("strict") for tool in tools))
    ):
        return None
    request: dict[str, Any] = {
        "tools": list(tools),
        "format": format.name,
        "tool_choice": tool_choice or "auto",
    }
    if parallel is not None:
        request["parallel_tool_calls"] = parallel
    try:
        text, _ = _tenon.print_grammar(request, "ebnf")
    except ValueError as error:
        if not is_free:
            raise
        logging.getLogger("tenon").warning("strict tools are not held: %s", error)
        return None
    return text


def apply_words(logits: Any, words: Any) -> None:
    """-inf where a word of the mask has no bit, in place: tensors of one device, with as many rows as each other."""
    import torch

    bits = words.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=words.device) & 1
    allowed = bits.flatten(-2) != 0
    known = min(allowed.shape[-1], logits.shape[-1])
    logits[..., :known].masked_fill_(~allowed[..., :known], float("-inf"))
    # Rows are padded further than the mask; the vocabulary has no such tokens.
    logits[..., known:] = float("-inf")
