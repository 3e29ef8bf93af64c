"""Validation and repair as single functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tenon import _tenon
from tenon._schema import tool as tool_of

__all__ = ["Repaired", "repair", "validate"]


def validate(instance: Any, schema: Any, **options: Any) -> list[dict[str, str]]:
    """Every violation of `schema` by `instance`, a Python value: [] means that it is valid.

    Compiles the schema each time; hold a `Schema` for more than one instance.
    """
    return _tenon.Schema(schema, options).validate(instance)


class Repaired(NamedTuple):
    arguments: str  # JSON
    repairs: list[dict[str, str]]  # What was done: kind, path, message.

    def loads(self) -> Any:
        return json.loads(self.arguments)


def repair(
    arguments: str | bytes,
    tool: Mapping[str, Any] | Callable[..., Any],
    *,
    is_incomplete: bool = False,
) -> Repaired:
    """Repairs the arguments of a call by the schema of its tool (docs/repair.md). What is right already stays as it is, byte for byte."""
    mender = _tenon.Mender(tool if isinstance(tool, Mapping) else tool_of(tool, name="tool"))
    return Repaired(mender.feed(arguments) + mender.finish(is_incomplete), mender.repairs)
