"""What Tenon refuses or fails at. Each says in one sentence what is wrong, where, and how to mend it."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """All errors of Tenon."""


class InvalidError(Error, ValueError):
    """The input breaks its own rules: another try cannot help."""


class UnsupportedError(Error, ValueError):
    """It is well formed, but outside of what Tenon does."""


class LimitExceededError(Error, ValueError):
    """A limit was reached; a higher one may help."""


class UnsatisfiableError(Error, ValueError):
    """Nothing can ever fit it."""


class UnavailableError(Error, OSError):
    """A server, a file or the system failed: another try may help."""


class InternalError(Error, RuntimeError):
    """No memory, or a mistake of Tenon's."""


class ApiError(Error):
    """A model's refusal, as HTTP has it: `status`, `error` (`message`, `type`, `param`, `code`)."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", f"status {status}"))
        self.status = status
        self.error = error

    def __reduce__(self) -> tuple[type[ApiError], tuple[int, dict[str, Any]]]:
        return type(self), (self.status, self.error)
