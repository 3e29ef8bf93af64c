"""The exceptions of Tenon. Each message is one sentence: what is wrong, where, and what helps."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """All errors of Tenon."""

    path: str = ""
    """The place in the input: a JSON pointer into a schema (`/properties/a/type`), the field of a
    request (`tools[0].function.parameters`), the member of options, or the parameter. Empty: the
    error is not about one place."""
    line: int = 0
    """The line, from 1, at which a text (JSON, TOML, GBNF, Lark, a template) is wrong. 0: not known."""

    failed: dict[int, Error]
    """An error that MaskPool.fill_masks() raises has all errors here, by the place of their matcher."""


class InvalidError(Error, ValueError):
    """The input breaks the rules of its language: trying again cannot help."""


class UnsupportedError(Error, ValueError):
    """The input is well formed, but Tenon does not support it."""


class LimitExceededError(Error, ValueError):
    """A limit was reached; a higher one may help."""


class UnsatisfiableError(Error, ValueError):
    """No value or text can ever fit it."""


class UnavailableError(Error, OSError):
    """A server, a file or the system failed: trying again may help."""


class InternalError(Error, RuntimeError):
    """Out of memory, or a bug in Tenon."""


class ApiError(Error):
    """A model's refusal, as HTTP has it: `status`, `error` (`message`, `type`, `param`, `code`).

    `path` is `param`, or "".
    """

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", f"status {status}"))
        self.status = status
        self.error = error
        self.path = error.get("param") or ""

    def __reduce__(self) -> tuple[type[ApiError], tuple[int, dict[str, Any]]]:
        return type(self), (self.status, self.error)
