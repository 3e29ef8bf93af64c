"""JSON Schemas as tools and configuration files have them, each with instances that fit it and that do not; and groups of single rules
in the shape of JSON-Schema-Test-Suite. Written for Tenon; tests/samples/make.py holds every verdict against Python's jsonschema."""


def object_of(required=(), closed=False, **members):
    return {"type": "object", "properties": members, "required": list(required), **({"additionalProperties": False} if closed else {})}


TEXT, INTEGER, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
TREE = {"$ref": "#/$defs/node", "$defs": {"node": object_of(["name"], True, name=TEXT, parts={"type": "array", "items": {"$ref": "#/$defs/node"}})}}
SHAPE = {"oneOf": [object_of(["kind", "radius"], True, kind={"const": "circle"}, radius={"type": "number", "exclusiveMinimum": 0}),
                   object_of(["kind", "sides"], True, kind={"const": "polygon"}, sides={"type": "integer", "minimum": 3})]}
EVENT = object_of(["title", "begins"], title={"type": "string", "minLength": 1, "maxLength": 40}, begins={"type": "string", "format": "date-time"},
                  guests={"type": "array", "items": {"type": "string", "format": "email"}, "uniqueItems": True, "maxItems": 3})

# (name, schema, instances that fit, instances that do not)
SCHEMAS = [
    ("anything", {}, [None, 1, "a", [], {"a": {}}], []),
    ("nothing_but_null", {"type": "null"}, [None], [0, "", False]),
    ("flag", FLAG, [True, False], [0, "true", None]),
    ("text", TEXT, ["", "a \"b\" \\ \n ü 🎈"], [1, None, ["a"]]),
    ("text_of_a_length", {"type": "string", "minLength": 2, "maxLength": 5}, ["ab", "abcde", "äöü", "🎈🎈"], ["", "a", "abcdef", "🎈"]),
    ("text_by_pattern", {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}$"}, ["AB-123", "ZZ-00000"], ["ab-123", "AB-12", "AB-123456", "xAB-123"]),
    ("text_that_holds", {"type": "string", "pattern": "o{2}"}, ["food", "oo", "zoo!"], ["fod", "", "O0"]),
    ("text_by_several_patterns", {"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}, {"maxLength": 4}]}, ["az", "abcz"], ["a", "abcdz", "za"]),
    ("text_without_a_word", {"type": "string", "not": {"pattern": "bad"}}, ["good", "ba d"], ["bad", "a bad one"]),
    ("date", {"type": "string", "format": "date"}, ["2024-02-29", "1999-12-31"], ["2023-02-29", "2024-2-3", "yesterday"]),
    ("time_stamp", {"type": "string", "format": "date-time"}, ["2024-06-01T08:30:00Z", "2024-06-01T08:30:00.25+02:00"], ["2024-06-01", "2024-06-01 08:30"]),
    ("address", {"type": "string", "format": "ipv4"}, ["10.0.0.1", "255.255.255.255"], ["10.0.0", "256.1.1.1", "10.0.0.1.2"]),
    ("identifier", {"type": "string", "format": "uuid"}, ["00000000-0000-4000-8000-000000000000"], ["00000000-0000-4000-8000", "not one"]),
    ("integer", INTEGER, [0, -7, 10**20, 3.0], [0.5, "1", None]),
    ("integer_in_a_range", {"type": "integer", "minimum": -5, "maximum": 120}, [-5, 0, 99, 120], [-6, 121, 1000, 5.5]),
    ("integer_between", {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, [1, 9], [0, 10, -1]),
    ("integer_in_steps", {"type": "integer", "multipleOf": 15}, [0, 15, -30, 900], [1, 14, 100]),
    ("number", NUMBER, [0, -0.5, 1e30, 12.75], ["0", True]),
    ("number_in_a_range", {"type": "number", "minimum": 0, "maximum": 1}, [0, 0.5, 1, 1e-9], [-0.1, 1.01, 2]),
    ("number_in_steps", {"type": "number", "multipleOf": 0.25}, [0, 0.25, -1.5, 7], [0.1, 0.3]),
    ("several_types", {"type": ["string", "integer", "null"]}, ["", 5, None], [0.5, [], {}]),
    ("choice", {"enum": ["red", "reddish", "blue", 7, None]}, ["red", "reddish", 7, None], ["re", "green", 8, False]),
    ("choice_of_objects", {"enum": [{"a": 1}, {"a": [2, {"b": None}]}]}, [{"a": 1}, {"a": [2, {"b": None}]}], [{"a": 2}, {}, {"a": 1, "b": 1}]),
    ("constant", {"const": "v1"}, ["v1"], ["v2", "", None]),
    ("list", {"type": "array", "items": INTEGER}, [[], [1, 2, 3]], [["1"], {}, [1, None]]),
    ("list_of_a_length", {"type": "array", "items": FLAG, "minItems": 1, "maxItems": 3}, [[True], [True, False, True]], [[], [True] * 4]),
    ("pair", {"type": "array", "prefixItems": [TEXT, NUMBER], "items": False, "minItems": 2}, [["x", 1.5]], [["x"], ["x", 1, 2], [1, "x"]]),
    ("list_of_different_ones", {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True}, [[], ["a", "c"], ["b", "a", "c"]], [["a", "a"], ["d"]]),
    ("list_that_has_one", {"type": "array", "contains": {"const": "ready"}}, [["ready"], [1, "ready", 2]], [[], [1, 2]]),
    ("object", {"type": "object"}, [{}, {"a": [1]}], [[], "x"]),
    ("closed_object", object_of(["city"], True, city=TEXT, days={"type": "integer", "minimum": 1, "maximum": 14}),
     [{"city": "Ghent"}, {"city": "", "days": 14}], [{}, {"days": 1}, {"city": "x", "days": 0}, {"city": "x", "more": 1}]),
    ("open_object", object_of(["id"], id=INTEGER), [{"id": 1}, {"id": 2, "more": {"x": []}}], [{}, {"id": "1"}]),
    ("required_without_a_schema", {"type": "object", "required": ["a", "b"]}, [{"a": 1, "b": None}, {"b": 0, "a": 0, "c": 0}], [{"a": 1}, {}]),
    ("names_of_odd_characters", object_of(["a b"], True, **{"a b": TEXT, "ä\"ö": INTEGER, "$x": FLAG}), [{"a b": "x", "ä\"ö": 1}, {"a b": "", "$x": True}],
     [{"a": "x"}, {"a b": 1}]),
    ("others_of_a_type", {"type": "object", "properties": {"name": TEXT}, "additionalProperties": INTEGER}, [{"name": "x"}, {"n": 1, "m": 2}], [{"n": "x"}, {"name": 1}]),
    ("names_by_pattern", {"type": "object", "patternProperties": {"^x-": TEXT, "^n-": INTEGER}, "additionalProperties": False},
     [{}, {"x-a": "1", "n-a": 1}], [{"x-a": 1}, {"y": 1}]),
    ("names_of_a_form", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, [{}, {"abc": 1}], [{"A": 1}, {"a1": 1}]),
    ("number_of_members", {"type": "object", "minProperties": 1, "maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": 1, "b": 2, "c": 3}]),
    ("one_needs_another", {"type": "object", "properties": {"card": TEXT, "code": TEXT}, "dependentRequired": {"card": ["code"]}},
     [{}, {"code": "1"}, {"card": "1", "code": "2"}], [{"card": "1"}]),
    ("either_or", {"anyOf": [{"type": "integer", "minimum": 10}, {"type": "string", "maxLength": 2}]}, [10, 99, "", "ab"], [9, "abc", None]),
    ("exactly_one", {"oneOf": [{"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 3}]}, [2, 3, 4, 9], [6, 12, 5, 1]),
    ("all_of_them", {"allOf": [object_of(["a"], a=INTEGER), object_of(["b"], b=TEXT)]}, [{"a": 1, "b": "x"}], [{"a": 1}, {"b": "x"}, {"a": "1", "b": "x"}]),
    ("none_of_them", {"type": "integer", "not": {"enum": [1, 2, 3]}}, [0, 4], [1, 3]),
    ("if_then_else", {"type": "object", "properties": {"mode": {"enum": ["fast", "slow"]}, "wait": INTEGER}, "required": ["mode"],
                      "if": {"properties": {"mode": {"const": "slow"}}}, "then": {"required": ["wait"]}, "else": {"properties": {"wait": False}}},
     [{"mode": "fast"}, {"mode": "slow", "wait": 5}], [{"mode": "slow"}, {"mode": "fast", "wait": 5}, {}]),
    ("shapes", SHAPE, [{"kind": "circle", "radius": 0.5}, {"kind": "polygon", "sides": 3}],
     [{"kind": "circle", "sides": 3}, {"kind": "polygon", "sides": 2}, {"kind": "circle", "radius": 0}, {}]),
    ("tree", TREE, [{"name": "a"}, {"name": "a", "parts": [{"name": "b", "parts": []}, {"name": "c"}]}], [{}, {"name": "a", "parts": [{}]}, {"name": 1}]),
    ("list_of_itself", {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}, [[], [[]], [[], [[], []]]], [[1], [[], [], []]]),
    ("event", EVENT, [{"title": "Tea", "begins": "2030-01-02T15:00:00Z"}, {"title": "T", "begins": "2030-01-02T15:00:00+01:00", "guests": ["a@example.org"]}],
     [{"title": "", "begins": "2030-01-02T15:00:00Z"}, {"title": "Tea"}, {"title": "Tea", "begins": "soon"}]),
    ("table_of_numbers", {"type": "array", "items": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}}, [[], [[1, 2], [0.5, -3]]], [[[1]], [[1, "2"]]]),
    ("settings", object_of(["version"], True, version={"const": 2}, log=object_of([], True, level={"enum": ["debug", "info"]}, file={"type": ["string", "null"]}),
                           limits={"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}),
     [{"version": 2}, {"version": 2, "log": {"level": "info", "file": None}, "limits": {"cpu": 4}}],
     [{"version": 1}, {"version": 2, "log": {"level": "loud"}}, {"version": 2, "limits": {"cpu": -1}}]),
    ("order", object_of(["customer", "lines"], True, customer={"$ref": "#/$defs/person"},
                        lines={"type": "array", "minItems": 1, "items": object_of(["article", "amount"], True, article={"type": "string", "pattern": "^A[0-9]+$"},
                                                                               amount={"type": "integer", "minimum": 1}, price=NUMBER)})
     | {"$defs": {"person": object_of(["name"], True, name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 150})}},
     [{"customer": {"name": "Ann"}, "lines": [{"article": "A1", "amount": 2}]}],
     [{"customer": {"name": "Ann"}, "lines": []}, {"customer": {}, "lines": [{"article": "A1", "amount": 1}]},
      {"customer": {"name": "A", "age": 151}, "lines": [{"article": "A1", "amount": 1}]}, {"customer": {"name": "A"}, "lines": [{"article": "B1", "amount": 1}]}]),
    ("forbidden_member", {"type": "object", "properties": {"secret": False, "open": TEXT}}, [{}, {"open": "x"}], [{"secret": 1}]),
    ("with_titles", {"title": "A title", "description": "Words", "type": "object", "properties": {"n": {"type": "integer", "default": 3, "examples": [1]}},
                     "required": ["n"], "additionalProperties": False}, [{"n": 3}], [{}, {"n": "3"}]),
    ("types_are_implied", {"properties": {"n": {"minimum": 3}}, "required": ["n"]}, [{"n": 3}, {"n": "text"}, 5, []], [{"n": 2}, {}]),
    ("many_choices", {"enum": [f"code-{number:03}" for number in range(200)]}, ["code-000", "code-199"], ["code-200", "code-"]),
    ("long_text", {"type": "string", "maxLength": 300}, ["x" * 300, ""], ["x" * 301]),
    ("deep", object_of(["a"], True, a=object_of(["b"], True, b=object_of(["c"], True, c=object_of(["d"], True, d=INTEGER)))),
     [{"a": {"b": {"c": {"d": 1}}}}], [{"a": {"b": {"c": {}}}}, {"a": {"b": {"c": {"d": "1"}}}}]),
    ("merged", {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"extra": FLAG}}], "unevaluatedProperties": False,
                "$defs": {"base": object_of(["id"], id=INTEGER)}}, [{"id": 1}, {"id": 1, "extra": True}], [{"id": 1, "other": 1}, {"extra": True}]),
    ("by_anchor", {"type": "array", "items": {"$ref": "#item"}, "$defs": {"x": {"$anchor": "item", "type": "string", "minLength": 1}}}, [[], ["a"]], [[""], [1]]),
    ("some_of_a_kind", {"type": "array", "contains": INTEGER, "minContains": 2, "maxContains": 3}, [[1, "a", 2], [1, 2, 3]], [[1], [1, 2, 3, 4], ["a"]]),
]


def mask_rows():
    for name, schema, valid, invalid in SCHEMAS:
        tests = [{"data": data, "valid": is_valid} for instances, is_valid in ((valid, True), (invalid, False)) for data in instances]
        yield {"id": f"own_{name}", "schema": schema, "tests": tests, "meta": {"split": "own"}}


D4, D6, D7, D19, D20 = DRAFTS = ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"]
LATER = [D6, D7, D19, D20]
REMOTES = {
    "https://example.org/tenon/whole.json": {"type": "integer"},
    "https://example.org/tenon/parts.json": {"definitions": {"short": {"type": "string", "maxLength": 3}}},
}
# (drafts, section, keyword, what it says, schema, [(instance, is it valid?)])
GROUPS = [
    (DRAFTS, "required", "type", "an integer may be written with a point where the draft says so", {"type": "integer"},
     [(1, True), (1.5, False), ("1", False), (None, False)]),
    (DRAFTS, "required", "enum", "members of objects have no order", {"enum": [{"a": 1, "b": 2}]}, [({"b": 2, "a": 1}, True), ({"a": 1}, False)]),
    (DRAFTS, "required", "minimum", "the bound itself fits", {"minimum": 1.5}, [(1.5, True), (1.4, False), ("x", True)]),
    ([D4], "required", "exclusiveMaximum", "a flag beside maximum", {"maximum": 3, "exclusiveMaximum": True}, [(2.9, True), (3, False)]),
    (LATER, "required", "exclusiveMaximum", "a bound by itself", {"exclusiveMaximum": 3}, [(2.9, True), (3, False)]),
    (DRAFTS, "required", "multipleOf", "of a fraction", {"multipleOf": 0.5}, [(1.5, True), (1.25, False), (0, True)]),
    (DRAFTS, "required", "maxLength", "characters count, not bytes", {"maxLength": 2}, [("üü", True), ("🎈🎈", True), ("üüü", False)]),
    (DRAFTS, "required", "pattern", "it may be anywhere", {"pattern": "b+c"}, [("abbcd", True), ("ac", False), (1, True)]),
    (DRAFTS, "required", "required", "only objects lack members", {"required": ["a"]}, [({"a": None}, True), ({}, False), ([], True)]),
    (DRAFTS, "required", "properties", "of its own and by pattern and others", {"properties": {"a": {"type": "integer"}}, "patternProperties": {"^b": {"type": "string"}},
                                                                                "additionalProperties": False},
     [({"a": 1, "b1": "x"}, True), ({"a": "x"}, False), ({"b1": 1}, False), ({"c": 1}, False)]),
    ([D4, D6, D7, D19], "required", "items", "one schema for each place, another for the rest", {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False},
     [([1, "a"], True), ([1], True), (["a"], False), ([1, "a", 2], False)]),
    ([D20], "required", "prefixItems", "one schema for each place, another for the rest", {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
     [([1, "a"], True), ([1], True), (["a"], False), ([1, "a", 2], False)]),
    (DRAFTS, "required", "uniqueItems", "numbers are equal by value", {"uniqueItems": True}, [([1, True, "1"], True), ([1, 1.0], False), ([{"a": 1}, {"a": 1}], False)]),
    (LATER, "required", "contains", "one is enough", {"contains": {"minimum": 5}}, [([1, 6], True), ([1], False), ([], False)]),
    (LATER, "required", "propertyNames", "names are texts", {"propertyNames": {"maxLength": 1}}, [({"a": 1}, True), ({"ab": 1}, False), ({}, True)]),
    (LATER, "required", "const", "an array", {"const": [1, {"a": None}]}, [([1, {"a": None}], True), ([1], False)]),
    (LATER, "required", "boolean_schema", "false takes nothing", {"properties": {"a": False}}, [({}, True), ({"a": 1}, False)]),
    ([D4, D6, D7], "required", "dependencies", "of names and of schemas", {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
     [({"a": 1, "b": 1}, True), ({"a": 1}, False), ({"c": 1}, False), ({"c": 1, "d": 1}, True)]),
    ([D19, D20], "required", "dependentSchemas", "a member brings a schema", {"dependentSchemas": {"a": {"maxProperties": 1}}}, [({"a": 1}, True), ({"a": 1, "b": 1}, False)]),
    (DRAFTS, "required", "allOf", "with a base", {"required": ["a"], "allOf": [{"required": ["b"]}]}, [({"a": 1, "b": 1}, True), ({"b": 1}, False)]),
    (DRAFTS, "required", "oneOf", "two are too many", {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [(1, True), (2.5, True), (3, False)]),
    (DRAFTS, "required", "not", "of an object", {"not": {"required": ["a"]}}, [({}, True), ({"a": 1}, False)]),
    ([D7, D19, D20], "required", "if-then-else", "each branch", {"if": {"minimum": 0}, "then": {"multipleOf": 2}, "else": {"maximum": -5}},
     [(4, True), (3, False), (-6, True), (-1, False)]),
    (DRAFTS, "required", "ref", "to itself", {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
     [({"next": {"next": {}}}, True), ({"next": {"x": 1}}, False)]),
    (DRAFTS, "required", "ref", "by a pointer with escapes", {"definitions": {"a/b~c": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a~1b~0c"}}},
     [({"x": "y"}, True), ({"x": 1}, False)]),
    (DRAFTS, "required", "refRemote", "a whole document", {"items": {"$ref": "https://example.org/tenon/whole.json"}}, [([1], True), (["a"], False)]),
    (DRAFTS, "required", "refRemote", "a part of one", {"properties": {"a": {"$ref": "https://example.org/tenon/parts.json#/definitions/short"}}},
     [({"a": "abc"}, True), ({"a": "abcd"}, False)]),
    ([D19, D20], "required", "unevaluatedProperties", "beside anyOf", {"anyOf": [{"properties": {"a": True}, "required": ["a"]}, {"properties": {"b": True}}],
                                                                       "unevaluatedProperties": False}, [({"a": 1}, True), ({"c": 1}, False)]),
    ([D19, D20], "required", "minContains", "none is enough", {"contains": {"const": 1}, "minContains": 0, "maxContains": 1}, [([], True), ([1], True), ([1, 1], False)]),
    (DRAFTS, "format", "date-time", "a day that there is", {"format": "date-time"}, [("2024-02-29T00:00:00Z", True), ("2023-02-29T00:00:00Z", False), (1, True)]),
    (DRAFTS, "format", "ipv4", "four numbers", {"format": "ipv4"}, [("1.2.3.4", True), ("1.2.3", False), ("1.2.3.256", False)]),
    (DRAFTS, "optional", "ecmascript-regex", "digits are those of ASCII", {"pattern": "^\\d$"}, [("7", True), ("৭", False)]),
]


def suite_rows(draft):
    number = {}
    for drafts, section, keyword, group, schema, cases in GROUPS:
        if draft not in drafts:
            continue
        at = number[keyword] = number.get(keyword, -1) + 1
        for index, (instance, is_valid) in enumerate(cases):
            yield {"id": f"{draft}/own-{keyword}/{at}/{index}", "draft": draft, "section": section, "keyword": keyword, "group": group, "test": f"case {index}",
                   "schema": schema, "instance": instance, "valid": is_valid}
