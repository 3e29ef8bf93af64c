"""Tenon: tool calls of language models, in process.

    import tenon

    vocab = tenon.Vocab.load("model.gguf")
    matcher = tenon.Matcher(tenon.Grammar(vocab, {"schema": {"type": "object"}}))
    mask = numpy.zeros(vocab.mask_words, dtype=numpy.int32)
    matcher.fill_mask(mask)

Nothing is loaded before it is used. docs/python.md has all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenon._conversation import Answer, Conversation, Turn
    from tenon._errors import (
        ApiError,
        Error,
        InternalError,
        InvalidError,
        LimitExceededError,
        UnavailableError,
        UnsatisfiableError,
        UnsupportedError,
    )
    from tenon._logits import LogitsProcessor, apply_mask
    from tenon._message import Fold, parse
    from tenon._schema import schema_of, tool
    from tenon._service import Service, serve
    from tenon._tenon import (
        CallArguments,
        CallBegin,
        CallEnd,
        ChatTemplate,
        ContentDelta,
        Diagnostic,
        Event,
        Finish,
        Format,
        Grammar,
        MaskPool,
        Matcher,
        Mender,
        Prompt,
        ReasoningDelta,
        Schema,
        StreamParser,
        Vocab,
        __version__,
        print_grammar,
    )
    from tenon._toolbox import Toolbox
    from tenon._types import Span
    from tenon._validate import Repaired, repair, validate

_HOMES = {
    "_conversation": ["Answer", "Conversation", "Turn"],
    "_errors": [
        "ApiError",
        "Error",
        "InternalError",
        "InvalidError",
        "LimitExceededError",
        "UnavailableError",
        "UnsatisfiableError",
        "UnsupportedError",
    ],
    "_logits": ["LogitsProcessor", "apply_mask"],
    "_message": ["Fold", "parse"],
    "_schema": ["schema_of", "tool"],
    "_service": ["Service", "serve"],
    "_tenon": [
        "CallArguments",
        "CallBegin",
        "CallEnd",
        "ChatTemplate",
        "ContentDelta",
        "Diagnostic",
        "Finish",
        "Format",
        "Grammar",
        "MaskPool",
        "Matcher",
        "Mender",
        "Prompt",
        "ReasoningDelta",
        "Schema",
        "StreamParser",
        "Vocab",
        "__version__",
        "print_grammar",
    ],
    "_toolbox": ["Toolbox"],
    "_types": ["Span"],
    "_validate": ["Repaired", "repair", "validate"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*(name for name in _HOME if not name.startswith("_"))]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tenon' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"tenon.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
