"""The schemas of functions: a row for each hint and each style of docstring."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import typing
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import annotated_types
import pydantic
import pytest
from tenon._schema import arguments_reader, parse_docstring, schema_of, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Place:
    """A place.

    Args:
        name: What it is called.
    """

    name: str
    height: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    value: int
    next: Optional[Node] = None


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Point(NamedTuple):
    x: int
    y: int = 0


class Order(pydantic.BaseModel):
    id: int = pydantic.Field(ge=1, description="Its number.")
    note: str | None = None


UserId = typing.NewType("UserId", int)
Either = typing.TypeVar("Either", int, str)

PLACE = {
    "type": "object",
    "description": "A place.",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "What it is called."},
        "height": {"type": "number", "default": 0.0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}

HINTS = {
    "Str": (str, {"type": "string"}),
    "Int": (int, {"type": "integer"}),
    "Float": (float, {"type": "number"}),
    "Bool": (bool, {"type": "boolean"}),
    "None": (None, {"type": "null"}),
    "AnyTakesAll": (Any, {}),
    "ObjectTakesAll": (object, {}),
    "BareList": (list, {"type": "array"}),
    "List": (list[int], {"type": "array", "items": {"type": "integer"}}),
    "NestedList": (
        list[list[str]],
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    ),
    "Sequence": (collections.abc.Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    "Set": (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    "BareDict": (dict, {"type": "object"}),
    "Dict": (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    "DictOfAny": (dict[str, Any], {"type": "object", "additionalProperties": True}),
    "DictOfEnum": (
        dict[Literal["a", "b"], int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"enum": ["a", "b"]},
        },
    ),
    "Tuple": (
        tuple[int, str],
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
        },
    ),
    "TupleOfAnyLength": (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    "EmptyTuple": (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    "Optional": (Optional[int], {"type": ["integer", "null"]}),
    "Union": (int | str, {"type": ["integer", "string"]}),
    "UnionOfMore": (
        list[int] | str,
        {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
    ),
    "UnionWithAny": (typing.Union[int, Any], {}),
    "Literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "LiteralOfInts": (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    "LiteralOfKinds": (Literal[1, "a", None, True], {"enum": [1, "a", None, True]}),
    "Enum": (Color, {"type": "string", "enum": ["red", "blue"]}),
    "IntEnum": (Level, {"type": "integer", "enum": [1, 2]}),
    "Date": (datetime.date, {"type": "string", "format": "date"}),
    "Uuid": (uuid.UUID, {"type": "string", "format": "uuid"}),
    "NewType": (UserId, {"type": "integer"}),
    "TypeVar": (Either, {"type": ["integer", "string"]}),
    "Dataclass": (Place, {"$ref": "#/$defs/Place", "$defs": {"Place": PLACE}}),
    "DataclassWithinItself": (
        Node,
        {
            "$ref": "#/$defs/Node",
            "$defs": {
                "Node": {
                    "type": "object",
                    "required": ["value"],
                    "additionalProperties": False,
                    "properties": {
                        "value": {"type": "integer"},
                        "next": {
                            "anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}],
                            "default": None,
                        },
                    },
                }
            },
        },
    ),
    "TypedDict": (
        Film,
        {
            "$ref": "#/$defs/Film",
            "$defs": {
                "Film": {
                    "type": "object",
                    "required": ["title"],
                    "additionalProperties": False,
                    "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
                }
            },
        },
    ),
    "NamedTuple": (
        Point,
        {
            "$ref": "#/$defs/Point",
            "$defs": {
                "Point": {
                    "type": "object",
                    "required": ["x"],
                    "additionalProperties": False,
                    "properties": {
                        "x": {"type": "integer"},
                        "y": {"type": "integer", "default": 0},
                    },
                }
            },
        },
    ),
    "AnnotatedText": (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
    "AnnotatedSchema": (Annotated[str, {"format": "email"}], {"type": "string", "format": "email"}),
    "AnnotatedBounds": (
        Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
    ),
    "AnnotatedLength": (
        Annotated[list[int], annotated_types.Len(1, 3)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    ),
    "AnnotatedField": (
        Annotated[str, pydantic.Field(description="A name.", max_length=5)],
        {"type": "string", "description": "A name.", "maxLength": 5},
    ),
}


@pytest.mark.parametrize("row", HINTS)
def test_hint(row):
    hint, schema = HINTS[row]
    assert schema_of(hint) == schema


def test_pydantic_model():
    assert schema_of(Order)["properties"]["id"] == {
        "type": "integer",
        "minimum": 1,
        "description": "Its number.",
        "title": "Id",
    }
    nested = schema_of(list[Order] | None)
    assert nested["anyOf"][0]["items"]["required"] == ["id"]


class Unknown:
    pass


HOSTILE = {
    "Callable": collections.abc.Callable[[int], int],
    "BareCallable": collections.abc.Callable,
    "Bytes": bytes,
    "Complex": complex,
    "OwnClass": Unknown,
    "Module": typing,
    "Instance": 5,
    "KeysOfFloat": dict[float, int],
    "Type": type[int],
    "LiteralOfBytes": Literal[b"a"],
    "DeepWithin": list[dict[str, tuple[int, Unknown]]],
    "DeeperThanAnyone": functools.reduce(lambda hint, _: list[hint], range(100), int),
}


@pytest.mark.parametrize("row", HOSTILE)
def test_hint_is_refused(row):
    with pytest.raises(TypeError, match="the hint"):
        schema_of(HOSTILE[row])


def plain(city: str, days: int = 3, units: Literal["c", "f"] = "c"):
    """Weather of a city."""


def google(city: str, days: int = 3):
    """Weather of a city.

    It may be late.

    Args:
        city (str): Its name,
            in English.
        days: How many.

    Returns:
        str: what the sky does.
    """


def numpy_style(city: str, days: int = 3):
    """Weather of a city.

    It may be late.

    Parameters
    ----------
    city : str
        Its name,
        in English.
    days : int, optional
        How many.

    Returns
    -------
    str
        What the sky does.
    """


def rest(city: str, days: int = 3):
    """Weather of a city.

    It may be late.

    :param str city: Its name,
        in English.
    :param days: How many.
    :type days: int
    :returns: what the sky does
    :raises ValueError: never
    """


@pytest.mark.parametrize("function", [google, numpy_style, rest])
def test_docstring(function):
    described = tool(function)["function"]
    assert described == {
        "name": function.__name__,
        "description": "Weather of a city.\n\nIt may be late.",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "additionalProperties": False,
            "properties": {
                "city": {"type": "string", "description": "Its name, in English."},
                "days": {"type": "integer", "description": "How many.", "default": 3},
            },
        },
    }


DOCSTRINGS = {
    "Empty": ("", "", {}),
    "SummaryAlone": ("Does it.", "Does it.", {}),
    "TextWithColon": ("Note that: this stays.", "Note that: this stays.", {}),
    "WordBeforeSection": ("Does it.\nArgs:\n    a: one", "Does it.", {"a": "one"}),
    "StarsFallOff": (
        "Args:\n    *args: many\n    **more: others",
        "",
        {"args": "many", "more": "others"},
    ),
    "ColonInText": ("Args:\n    a: one: two", "", {"a": "one: two"}),
    "SeveralOfNumpy": (
        "Parameters\n----------\na, b : int\n    Numbers.",
        "",
        {"a": "Numbers.", "b": "Numbers."},
    ),
    "NumpyWithoutType": ("Parameters\n----------\na\n    One.", "", {"a": "One."}),
    "FieldWithoutName": (":param: nothing", "", {}),
}


@pytest.mark.parametrize("row", DOCSTRINGS)
def test_parse_docstring(row):
    text, summary, parameters = DOCSTRINGS[row]
    parsed = parse_docstring(text)
    assert (parsed.summary, parsed.parameters) == (summary, parameters)


def test_defaults_that_json_has_not_are_left_out():
    def search(
        query: str,
        marker: object = object(),
        limit: float = float("inf"),
        colors: tuple[Color, ...] = (Color.RED,),
    ):
        pass

    properties = tool(search)["function"]["parameters"]["properties"]
    assert "default" not in properties["marker"] and "default" not in properties["limit"]
    assert properties["colors"]["default"] == ["red"]
    assert tool(search)["function"]["parameters"]["required"] == ["query"]


def test_what_is_not_a_plain_function():
    class Service:
        def look_up(self, key: str) -> str:
            """Looks it up."""

        def __call__(self, key: str):
            """Calls."""

    assert list(tool(Service().look_up)["function"]["parameters"]["properties"]) == ["key"]
    assert tool(Service(), name="service")["function"]["name"] == "service"
    # What is given already is no business of a model's.
    given = tool(functools.partial(plain, city="Rome"))["function"]
    assert list(given["parameters"]["properties"]) == ["days", "units"] and given["name"] == "plain"
    assert given.get("description", "") == tool(plain)["function"].get("description", "")
    assert list(
        tool(functools.partial(plain, "Rome"), name="rome")["function"]["parameters"]["properties"]
    ) == ["days", "units"]

    async def later(key: str):
        pass

    assert tool(later)["function"]["name"] == "later"

    def more(key: str, **rest: int):
        pass

    assert tool(more)["function"]["parameters"]["additionalProperties"] == {"type": "integer"}


def positional(a, /, b):
    pass


def stars(*values: int):
    pass


def forward(a: "NobodyKnows"):  # noqa: F821
    pass


FUNCTIONS = {
    "PositionalOnly": (positional, "'a' has no name"),
    "Stars": (stars, "'values' has no name"),
    "ForwardReference": (forward, "NobodyKnows"),
    "NameOfLambda": (lambda a: a, "pass name="),
}


@pytest.mark.parametrize("row", FUNCTIONS)
def test_function_is_refused(row):
    function, why = FUNCTIONS[row]
    with pytest.raises(TypeError, match=why):
        tool(function)


def hinted(
    color: Color,
    place: Place,
    when: datetime.datetime,
    pairs: list[tuple[int, str]],
    film: Film,
    order: Order,
    node: Node | None = None,
    names: set[str] = frozenset(),
    plain: int = 0,
    who: str | Color = "",
    by_id: dict[int, Point] = {},
):
    pass


def test_arguments_become_what_the_hints_say():
    made = arguments_reader(hinted)(
        {
            "color": "red",
            "place": {"name": "Oslo"},
            "when": "2026-01-02T03:04:05Z",
            "pairs": [[1, "a"]],
            "film": {"title": "M"},
            "order": {"id": 1},
            "node": {"value": 1, "next": {"value": 2}},
            "names": ["a"],
            "plain": 5,
            "who": "x",
            "by_id": {"7": {"x": 1}},
        }
    )
    assert (
        made["color"] is Color.RED and made["place"] == Place("Oslo") and made["when"].year == 2026
    )
    assert (
        made["pairs"] == [(1, "a")]
        and made["film"] == {"title": "M"}
        and made["order"] == Order(id=1)
    )
    assert (
        made["node"] == Node(1, Node(2))
        and made["names"] == {"a"}
        and made["plain"] == 5
        and made["who"] == "x"
    )
    assert made["by_id"] == {7: Point(1, 0)}


def test_arguments_of_plain_hints_are_passed_as_they_are():
    arguments = {"city": "Rome"}
    assert arguments_reader(plain)(arguments) is arguments
