"""The schema of a function, from its hints and its docstring.

    def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> str:
        '''Weather of a city.

        Args:
            city: Its name.
        '''

    tool(get_weather)     # {"type": "function", "function": {"name": "get_weather", "description": ..., "parameters": ...}}

Calls are constrained to the hints: the model cannot write values that a hint does not allow. A parameter without a
hint allows any value. Hints that JSON has no values for (callables, protocols, sets of no type) are a TypeError that names the parameter.
"""

# The file has three parts. _Reader goes over the hints and makes a schema from each; a class with fields becomes an
# entry of `definitions` before its fields are read, so a class that contains itself ends. parse_docstring() recognises
# the sections of three styles by their first lines, and gives each parameter its description. arguments_reader() goes
# the other way: it makes a function for each hint whose values differ from JSON's (enums, dataclasses, tuples, dates),
# and none for the others, so that plain arguments are passed on untouched.

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import re
import types
import typing
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

__all__ = [
    "arguments_reader",
    "check_callable",
    "doc_of",
    "name_of",
    "parse_docstring",
    "runners_of",
    "schema_of",
    "tool",
]

Json = dict[str, Any]
_SCALARS: dict[Any, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
}
_LISTS = (
    list,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.MutableSequence,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_MAX_DEPTH = 64


def tool(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Json:
    """The tool that `function` is, in the shape of Chat Completions.

    Fails with TypeError where a parameter cannot be one of a tool: `*args`, positional-only ones, hints that JSON has no values
    for; and for a generator, or a method without its object. `self` of a bound method and the arguments of functools.partial
    are not parameters, and `**kwargs` stand for further properties.
    """
    check_callable(function)
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise TypeError(
            f"{name_of(function)}() does not tell its parameters; write a function that calls it"
        ) from None
    hints = _hints_of(function)
    text = parse_docstring(doc_of(function))
    given = function.keywords if isinstance(function, functools.partial) else {}
    reader = _Reader()
    properties: Json = {}
    required = []
    additional: Any = False
    for parameter in signature.parameters.values():
        if parameter.name in given:
            continue
        where = f"{name_of(function)}(): parameter '{parameter.name}'"
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise TypeError(
                f"{where} has no name that a call could say; make it a keyword parameter"
            )
        hint = hints.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            additional = reader.read(hint, where) or True
            continue
        schema = reader.read(hint, where)
        if parameter.name in text.parameters and "description" not in schema:
            schema = {**schema, "description": text.parameters[parameter.name]}
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            default = _as_json(parameter.default)
            if default is not _NO_JSON:
                schema = {**schema, "default": default}
        properties[parameter.name] = schema
    parameters: Json = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": additional,
    }
    if reader.definitions:
        parameters["$defs"] = reader.definitions
    result: Json = {"name": name_of(function) if name is None else name, "parameters": parameters}
    described = text.summary if description is None else description
    if described:
        result["description"] = described
    if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", result["name"]):
        raise TypeError(
            f"'{result['name']}' cannot be the name of a tool: letters, digits, '_', '-', '.', at most 64; pass name="
        )
    return {"type": "function", "function": result}


def schema_of(hint: Any) -> Json:
    """The JSON schema of one hint: `schema_of(list[int])` is `{"type": "array", "items": {"type": "integer"}}`."""
    reader = _Reader()
    schema = reader.read(hint, "the hint")
    return {**schema, "$defs": reader.definitions} if reader.definitions else schema


# ---- Hints ----------------------------------------------------------------------------------------


def check_callable(function: Any) -> None:
    """Raises TypeError if the function cannot be a tool."""
    if not callable(function):
        raise TypeError(f"a tool is a function, not {type(function).__name__}")
    call = (
        function
        if inspect.isroutine(function) or isinstance(function, functools.partial)
        else getattr(function, "__call__", None)
    )
    for each in (function, call):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise TypeError(
                f"{name_of(function)}() is a generator, and a tool has one result: return a list"
            )
    owner, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    if inspect.isfunction(function) and owner and not owner.endswith("<locals>"):
        first = next(iter(inspect.signature(function).parameters), "")
        if first in ("self", "cls"):
            raise TypeError(
                f"{function.__qualname__}() is a method of no object, and a model has none for '{first}': "
                f"give that of an object, {owner}(...).{function.__name__}"
            )


def name_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__name__", None) or type(function).__name__)


def doc_of(function: Any) -> str:
    return (
        doc_of(function.func)
        if isinstance(function, functools.partial)
        else inspect.getdoc(function) or ""
    )


def _hints_of(function: Any) -> dict[str, Any]:
    target = function
    if not (inspect.isfunction(target) or inspect.ismethod(target) or inspect.isclass(target)):
        # functools.partial keeps its function in `func`; another callable object has its hints on __call__.
        target = getattr(target, "func", None) or getattr(type(target), "__call__", target)
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name_of(function)}(): a hint names what is not there: {error}"
        ) from error


class _Reader:
    """Reads hints. Classes that have fields become definitions, so one that contains itself ends."""

    def __init__(self) -> None:
        self.definitions: Json = {}
        self._names: dict[Any, str] = {}

    def read(self, hint: Any, where: str, depth: int = 0) -> Json:
        if depth > _MAX_DEPTH:
            raise TypeError(f"{where}: the hint is more than {_MAX_DEPTH} levels deep")
        if hint is Any or hint is object or hint is inspect.Parameter.empty:
            return {}
        if hint is None:
            return {"type": "null"}
        if isinstance(hint, str | typing.ForwardRef):
            raise TypeError(
                f"{where}: '{getattr(hint, '__forward_arg__', hint)}' names a type that is not known where it stands"
            )
        if isinstance(hint, typing.TypeVar):
            return self._type_variable(hint, where, depth)
        if isinstance(hint, typing.NewType):
            return self.read(hint.__supertype__, where, depth + 1)
        if type(hint).__name__ == "TypeAliasType":  # `type X = ...` of Python 3.12
            return self._named(hint, lambda: self.read(hint.__value__, where, depth + 1))
        origin = typing.get_origin(hint)
        if origin is not None:
            return self._generic(hint, origin, typing.get_args(hint), where, depth)
        if isinstance(hint, type):
            return self._class(hint, where, depth)
        raise self._refused(hint, where)

    def _refused(self, hint: Any, where: str) -> TypeError:
        return TypeError(
            f"{where}: {hint!r} has no values in JSON; use str, int, float, bool, None, list, dict, tuple, Literal, "
            "Optional, Enum, a dataclass, a TypedDict or a pydantic model"
        )

    def _type_variable(self, hint: Any, where: str, depth: int) -> Json:
        if hint.__constraints__:
            return _one_of([self.read(each, where, depth + 1) for each in hint.__constraints__])
        return self.read(hint.__bound__, where, depth + 1) if hint.__bound__ is not None else {}

    def _generic(
        self, hint: Any, origin: Any, arguments: tuple[Any, ...], where: str, depth: int
    ) -> Json:
        if origin is typing.Annotated:
            return _annotated(self.read(arguments[0], where, depth + 1), arguments[1:], where)
        if origin is typing.Literal:
            values = [_as_json(value) for value in arguments]
            if any(value is _NO_JSON for value in values):
                raise TypeError(f"{where}: {hint!r} has values that JSON does not have")
            return _enumeration(values)
        if origin is typing.Union or origin is types.UnionType:
            return _one_of([self.read(each, where, depth + 1) for each in arguments])
        if origin is tuple:
            return self._tuple(arguments, where, depth)
        if origin in _SETS:
            return {
                "type": "array",
                "items": self.read(arguments[0], where, depth + 1),
                "uniqueItems": True,
            }
        if origin in _LISTS:
            return {"type": "array", "items": self.read(arguments[0], where, depth + 1)}
        if origin in _DICTS:
            return self._mapping(arguments, where, depth)
        if origin in (
            typing.Required,
            typing.NotRequired,
            typing.Final,
            typing.ClassVar,
        ) or _is_read_only(origin):
            return self.read(arguments[0], where, depth + 1)
        if isinstance(origin, type) and _is_model(hint):
            return self._class(hint, where, depth)
        raise self._refused(hint, where)

    def _tuple(self, arguments: tuple[Any, ...], where: str, depth: int) -> Json:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.read(arguments[0], where, depth + 1)}
        items = [self.read(each, where, depth + 1) for each in arguments]
        schema: Json = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        return {**schema, "prefixItems": items} if items else schema

    def _mapping(self, arguments: tuple[Any, ...], where: str, depth: int) -> Json:
        key, value = arguments
        schema: Json = {
            "type": "object",
            "additionalProperties": self.read(value, where, depth + 1) or True,
        }
        if key is str or key is Any:
            return schema
        names = self.read(key, where, depth + 1)
        if "enum" in names and all(isinstance(name, str) for name in names["enum"]):
            return {**schema, "propertyNames": {"enum": names["enum"]}}
        if key is int:
            return {**schema, "propertyNames": {"pattern": "^-?(0|[1-9][0-9]*)$"}}
        raise TypeError(f"{where}: keys of JSON objects are strings, not {key!r}")

    def _class(self, hint: type, where: str, depth: int) -> Json:
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        if hint in _SETS:
            return {"type": "array", "uniqueItems": True}
        if hint is tuple or hint in _LISTS:
            return {"type": "array"}
        if hint in _DICTS:
            return {"type": "object"}
        if _is_model(hint):
            return self._model(hint)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._enum(hint, where)
        if typing.is_typeddict(hint):
            return self._named(hint, lambda: self._typed_dict(hint, where, depth))
        if dataclasses.is_dataclass(hint):
            return self._named(hint, lambda: self._dataclass(hint, where, depth))
        if issubclass(hint, tuple) and hasattr(hint, "_fields"):
            return self._named(hint, lambda: self._named_tuple(hint, where, depth))
        raise self._refused(hint, where)

    def _named(self, hint: Any, read: Callable[[], Json]) -> Json:
        if hint not in self._names:
            name = self._free_name(hint.__name__)
            self._names[hint] = name
            self.definitions[name] = {}  # so that a class that contains itself finds it
            self.definitions[name] = read()
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.definitions:
            number += 1
            name = f"{wanted}{number}"
        return name

    def _enum(self, hint: type[enum.Enum], where: str) -> Json:
        values = [_as_json(member.value) for member in hint]
        if not values or any(value is _NO_JSON for value in values):
            raise TypeError(f"{where}: the values of {hint.__name__} cannot be JSON")
        return _enumeration(values)

    def _fields(
        self, owner: Any, fields: list[tuple[str, Any, bool, Any]], where: str, depth: int
    ) -> Json:
        text = parse_docstring(_own_docstring(owner))
        properties: Json = {}
        for name, hint, _, default in fields:
            schema = self.read(hint, f"{where}: {owner.__name__}.{name}", depth + 1)
            if name in text.parameters and "description" not in schema:
                schema = {**schema, "description": text.parameters[name]}
            if default is not _NO_JSON:
                schema = {**schema, "default": default}
            properties[name] = schema
        required = [name for name, _, is_required, _ in fields if is_required]
        result: Json = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        return {"description": text.summary, **result} if text.summary else result

    def _typed_dict(self, hint: Any, where: str, depth: int) -> Json:
        hints = typing.get_type_hints(hint, include_extras=True)
        # If annotations are strings, __required_keys__ does not see NotRequired in them.
        marks = {typing.Required: True, typing.NotRequired: False}
        return self._fields(
            hint,
            [
                (
                    name,
                    each,
                    marks.get(typing.get_origin(each), name in hint.__required_keys__),
                    _NO_JSON,
                )
                for name, each in hints.items()
            ],
            where,
            depth,
        )

    def _dataclass(self, hint: Any, where: str, depth: int) -> Json:
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = []
        for field in dataclasses.fields(hint):
            if not field.init:
                continue
            is_required = (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            )
            default = (
                _as_json(field.default) if field.default is not dataclasses.MISSING else _NO_JSON
            )
            fields.append((field.name, hints[field.name], is_required, default))
        return self._fields(hint, fields, where, depth)

    def _named_tuple(self, hint: Any, where: str, depth: int) -> Json:
        hints = typing.get_type_hints(hint, include_extras=True)
        defaults = hint._field_defaults
        return self._fields(
            hint,
            [
                (
                    name,
                    hints.get(name, Any),
                    name not in defaults,
                    _as_json(defaults.get(name, _NO_JSON)),
                )
                for name in hint._fields
            ],
            where,
            depth,
        )

    def _model(self, hint: Any) -> Json:
        schema = hint.model_json_schema(ref_template="#/$defs/{model}")
        for name, definition in schema.pop("$defs", {}).items():
            known = self.definitions.setdefault(name, definition)
            if known != definition:
                raise TypeError(f"two models are called {name}; give one another name")
        return typing.cast(Json, schema)


def _is_model(hint: Any) -> bool:
    """Whether it is a pydantic model, found out by its methods, so that pydantic is not imported."""
    return callable(getattr(hint, "model_json_schema", None)) and callable(
        getattr(hint, "model_validate", None)
    )


def _is_read_only(origin: Any) -> bool:
    return getattr(origin, "_name", None) == "ReadOnly"


def _own_docstring(owner: Any) -> str:
    """Dataclasses and named tuples without a docstring have one made of their fields, which tells nothing."""
    text = vars(owner).get("__doc__")
    return "" if not text or text.startswith(f"{owner.__name__}(") else inspect.cleandoc(text)


def _enumeration(values: list[Any]) -> Json:
    kinds = {
        "boolean"
        if isinstance(value, bool)
        else "string"
        if isinstance(value, str)
        else "integer"
        if isinstance(value, int)
        else "null"
        if value is None
        else "other"
        for value in values
    }
    kind = kinds.pop() if len(kinds) == 1 else "other"
    return {"enum": values} if kind == "other" else {"type": kind, "enum": values}


def _one_of(schemas: list[Json]) -> Json:
    """`anyOf`, or a list of types if the schemas have nothing else."""
    if any(not schema for schema in schemas):
        return {}
    flat: list[Json] = []
    for schema in schemas:
        if schema not in flat:
            flat.append(schema)
    if len(flat) == 1:
        return flat[0]
    if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in flat):
        return {"type": [schema["type"] for schema in flat]}
    return {"anyOf": flat}


_BOUNDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def _annotated(schema: Json, notes: tuple[Any, ...], where: str) -> Json:
    """A text is the description, a dict goes into the schema as it is; bounds are those of annotated_types and pydantic.Field."""
    result = dict(schema)
    for note in notes:
        if isinstance(note, str):
            result["description"] = note
        elif isinstance(note, Mapping):
            if _as_json(dict(note)) is _NO_JSON:
                raise TypeError(f"{where}: {note!r} has values that JSON does not have")
            result.update(note)
        else:
            _bounds(result, note)
    return result


def _bounds(schema: Json, note: Any) -> None:
    for nested in getattr(note, "metadata", ()):  # the notes of pydantic.Field
        _bounds(schema, nested)
    if getattr(note, "description", None):
        schema["description"] = note.description
    for name, keyword in _BOUNDS.items():
        value = _as_json(getattr(note, name, None))
        if value is not None and value is not _NO_JSON:
            schema[keyword] = value
    if schema.get("type") in _LENGTHS:
        for name, keyword in zip(
            ("min_length", "max_length"), _LENGTHS[schema["type"]], strict=True
        ):
            if isinstance(getattr(note, name, None), int):
                schema[keyword] = getattr(note, name)


class _NoJson:
    """Raises for values that JSON does not have; None is one that it has."""


_NO_JSON = _NoJson()


def _as_json(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _as_json(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else _NO_JSON
    if isinstance(value, list | tuple):
        items = [_as_json(item) for item in value]
        return _NO_JSON if any(item is _NO_JSON for item in items) else items
    if isinstance(value, dict):
        members = {name: _as_json(item) for name, item in value.items()}
        return (
            members
            if all(isinstance(name, str) and item is not _NO_JSON for name, item in members.items())
            else _NO_JSON
        )
    return _NO_JSON


# ---- Docstrings ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Docstring:
    """What a docstring says: all that stands before its sections, and of each parameter."""

    summary: str
    parameters: dict[str, str]


_GOOGLE_SECTIONS = (
    "args",
    "arguments",
    "parameters",
    "params",
    "keyword args",
    "keyword arguments",
    "other parameters",
    "attributes",
)
_OTHER_SECTIONS = (
    "returns",
    "return",
    "yields",
    "yield",
    "raises",
    "raise",
    "example",
    "examples",
    "note",
    "notes",
    "see also",
    "references",
    "warning",
    "warnings",
    "warns",
    "todo",
    "todos",
    "methods",
    "receives",
)
_FIELD = re.compile(r":(?P<kind>\w+)\s*(?P<what>[^:]*):\s?(?P<text>.*)")
_GOOGLE_PARAMETER = re.compile(r"(?P<name>\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY_PARAMETER = re.compile(r"(?P<names>\*{0,2}\w+(\s*,\s*\*{0,2}\w+)*)\s*(:.*)?$")


def parse_docstring(text: str) -> Docstring:
    """Reads the styles of Google, NumPy and reStructuredText; a docstring of another style is all summary. `text` is as
    inspect.getdoc() gives it."""
    lines = text.splitlines()
    summary: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        line = lines[index]
        underlined = (
            index + 1 < len(lines)
            and re.fullmatch(r"-{3,}|={3,}", lines[index + 1].strip()) is not None
        )
        section = line.strip().rstrip(":").lower()
        if underlined and section in _GOOGLE_SECTIONS + _OTHER_SECTIONS:
            body, index = _until_next_underline(lines, index + 2)
            if section in _GOOGLE_SECTIONS:
                parameters.update(_numpy_parameters(body))
        elif (
            line.rstrip().endswith(":")
            and not line[:1].isspace()
            and section in _GOOGLE_SECTIONS + _OTHER_SECTIONS
        ):
            body, index = _indented(lines, index + 1)
            if section in _GOOGLE_SECTIONS:
                parameters.update(_google_parameters(body))
        elif (field := _FIELD.match(line)) is not None:
            body, index = _indented(lines, index + 1)
            if (
                field["kind"] in ("param", "parameter", "arg", "argument", "key", "keyword")
                and field["what"].split()
            ):
                parameters[field["what"].split()[-1].lstrip("*\\")] = _joined(
                    [field["text"], *body]
                )
        else:
            summary.append(line)
            index += 1
    return Docstring(
        "\n".join(summary).strip(), {name: text for name, text in parameters.items() if text}
    )


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _indented(lines: list[str], index: int) -> tuple[list[str], int]:
    body = []
    while index < len(lines) and (not lines[index].strip() or lines[index][0].isspace()):
        body.append(lines[index])
        index += 1
    return inspect.cleandoc("\n" + "\n".join(body)).splitlines(), index


def _until_next_underline(lines: list[str], index: int) -> tuple[list[str], int]:
    body = []
    while index < len(lines):
        if (
            index + 1 < len(lines)
            and lines[index].strip()
            and re.fullmatch(r"-{3,}|={3,}", lines[index + 1].strip())
        ):
            break
        body.append(lines[index])
        index += 1
    return body, index


def _google_parameters(body: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body:
        match = _GOOGLE_PARAMETER.match(line)
        if match is not None:
            current = found.setdefault(match["name"].lstrip("*"), [])
            current.append(match["text"])
        elif line[:1].isspace():
            current.append(line)
    return {name: _joined(texts) for name, texts in found.items()}


def _numpy_parameters(body: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    index = 0
    while index < len(body):
        match = (
            _NUMPY_PARAMETER.match(body[index])
            if body[index].strip() and not body[index][0].isspace()
            else None
        )
        text, index = _indented(body, index + 1)
        if match is not None:
            found.update(
                (name.strip().lstrip("*"), _joined(text)) for name in match["names"].split(",")
            )
    return found


# ---- Arguments -----------------------------------------------------------------------------------


def arguments_reader(function: Callable[..., Any]) -> Callable[[Json], Json]:
    """Turns JSON values into what the hints say: a value into its Enum, an object into a dataclass, an array into a tuple.

    Other values are passed as they are, so a function with plain hints gets its arguments at no cost.
    """
    makers = {}
    for name, hint in _hints_of(function).items():
        make = _maker(hint) if name != "return" else None
        if make is not None:
            makers[name] = make
    if not makers:
        return lambda arguments: arguments
    return lambda arguments: {
        name: makers[name](value) if name in makers else value for name, value in arguments.items()
    }


def runners_of(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any] | None, Callable[..., Awaitable[Any]]]:
    """Two functions that call it with JSON arguments: one directly (None for a coroutine function), one to be awaited."""
    read = arguments_reader(function)

    def run(**arguments: Any) -> Any:
        return function(**read(arguments))

    async def arun(**arguments: Any) -> Any:
        result = run(**arguments)
        return await result if inspect.isawaitable(result) else result

    return None if inspect.iscoroutinefunction(function) else run, arun


def _maker(hint: Any, depth: int = 0) -> Callable[[Any], Any] | None:
    """None if the value already is what the hint says."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if depth > _MAX_DEPTH:
        return None
    if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired):
        return _maker(arguments[0], depth + 1)
    if origin is typing.Union or origin is types.UnionType:
        return _union_maker(arguments, depth)
    if origin is tuple and arguments:
        return _tuple_maker(arguments, depth)
    if origin in _SETS or hint in _SETS:
        kind = frozenset if frozenset in (origin, hint) else set
        item = _maker(arguments[0], depth + 1) if arguments else None
        return lambda value: kind(map(item, value)) if item else kind(value)
    if origin in _LISTS and arguments:
        item = _maker(arguments[0], depth + 1)
        return (lambda value: [item(each) for each in value]) if item else None
    if origin in _DICTS and len(arguments) == 2:
        return _dict_maker(arguments, depth)
    return _class_maker(hint, depth) if isinstance(hint, type) else None


def _union_maker(choices: tuple[Any, ...], depth: int) -> Callable[[Any], Any] | None:
    makers = [(choice, _maker(choice, depth + 1)) for choice in choices]
    if not any(make for _, make in makers):
        return None

    def make_first_that_fits(value: Any) -> Any:
        for choice, make in makers:
            if make is None:
                plain = typing.get_origin(choice) or choice
                if isinstance(plain, type) and isinstance(value, plain):
                    return value
                continue
            try:
                return make(value)
            except (TypeError, ValueError, KeyError, AttributeError):
                continue
        return value

    return make_first_that_fits


def _tuple_maker(arguments: tuple[Any, ...], depth: int) -> Callable[[Any], Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _maker(arguments[0], depth + 1)
        return lambda value: tuple(map(item, value)) if item else tuple(value)
    items = [_maker(each, depth + 1) for each in arguments]
    return lambda value: tuple(
        make(each) if make else each for make, each in zip(items, value, strict=True)
    )


def _dict_maker(arguments: tuple[Any, ...], depth: int) -> Callable[[Any], Any] | None:
    key = int if arguments[0] is int else _maker(arguments[0], depth + 1)
    item = _maker(arguments[1], depth + 1)
    if key is None and item is None:
        return None
    return lambda value: {
        (key(name) if key else name): (item(each) if item else each) for name, each in value.items()
    }


def _class_maker(hint: Any, depth: int) -> Callable[[Any], Any] | None:
    if _is_model(hint):
        return typing.cast(Callable[[Any], Any], hint.model_validate)
    if issubclass(hint, enum.Enum):
        return lambda value: hint(value)
    if hint in (datetime.datetime, datetime.date, datetime.time):
        # fromisoformat() takes "Z" from Python 3.11 on.
        return lambda value: hint.fromisoformat(value.replace("Z", "+00:00"))
    if hint in (uuid.UUID, decimal.Decimal, float):
        return typing.cast(Callable[[Any], Any], hint)
    if hint is tuple:
        return tuple
    if dataclasses.is_dataclass(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields")):
        return lambda value: hint(**_made(hint, value, depth))
    if typing.is_typeddict(hint):
        return lambda value: _made(hint, value, depth)
    return None


def _made(hint: Any, value: Json, depth: int) -> Json:
    # Looked up at the first value, since a class may contain itself.
    hints = typing.get_type_hints(hint, include_extras=True)
    made = {}
    for name, each in value.items():
        make = _maker(hints.get(name, Any), depth + 1) if _holds_something(each) else None
        made[name] = make(each) if make else each
    return made


def _holds_something(value: Any) -> bool:
    return value is not None
