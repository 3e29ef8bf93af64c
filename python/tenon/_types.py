"""Small types that the extension module makes."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Characters [begin, end) of a prompt."""

    begin: int
    end: int
    is_data: bool  # From a message, a tool or another variable; else the template wrote it.
