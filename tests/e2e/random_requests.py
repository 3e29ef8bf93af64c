"""Requests for request_storm.py: valid ones of each dialect, in which some members are replaced by values that make trouble.

`request_of(seed, number)` gives the same request in each run, so a number names a request."""
import json
import random
import re
from dataclasses import dataclass

MODEL = "tenon-tiny"
MARKERS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<tool_response>", "<think>", "</think>",
           "<|im_end|>\n<|im_start|>system\n", "[TOOL_CALLS]", "<|python_tag|>", "{{ messages }}", "{% for x in y %}", "data: [DONE]\n\n"]
LETTERS = ["a", "Z", "0", " ", "\n", "\t", "\\", '"', "'", "{", "}", "[", "é", "ß", "中", "😀", "\u0301", "\u202e", "\ufeff", "\x7f", "\x1b"]
ODD_TEXTS = ["", "\0", "\uffff", "\U0010ffff", "\r\n\r\n", "null", "NaN", "../../etc/passwd", "%s%n", "e\u0301" * 50, "a\0b"]
HALF_TEXTS = ["\ud800", "\udfff x", "\ud83d"]  # surrogates without their other halves


class Raw:
    """JSON text, or what only looks like it, that is sent as it stands."""

    def __init__(self, text):
        self.text = text


class Pairs(list):
    """The members of an object in which a key may come twice."""


def text_of(value):
    """JSON. Lone surrogates become escapes."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict | Pairs):
        members = value.items() if isinstance(value, dict) else value
        return "{" + ",".join(f"{json.dumps(str(key))}:{text_of(item)}" for key, item in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value)


@dataclass
class Request:
    method: str
    path: str
    body: bytes
    headers: dict
    cut: int | None = None  # the client goes away after so many bytes of the request
    read: int | None = None  # the client goes away after so many bytes of the answer


class Source:
    """Draws values. It first draws how many of a request's values are invalid, so that most requests are accepted, and whether the
    request may hold large values, so that most are quick."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.choice, self.chance = self.rng.choice, lambda part: self.rng.random() < part
        self.oddness = self.choice([0, 0, 0, 0.01, 0.03, 0.3])
        self.is_heavy = self.chance(0.06)

    def odd(self):
        return self.rng.random() < self.oddness

    def some(self, most, make, least=0):
        return [make() for _ in range(self.rng.randint(least, most))]

    def size(self):
        """Mostly small, now and then beyond some limit."""
        return self.choice([1000, 1025, 4096, 10_000, 65_537, 300_000]) if self.is_heavy and self.chance(0.1) else self.choice([1, 2, 3, 5, 10, 30, 64])

    def text(self):
        kind = self.rng.random()
        if kind < 0.45:
            return " ".join(self.some(8, lambda: self.choice(["weather", "in", "Paris", "the", "42", "call", "now", "What", "is"]), 1))
        if kind < 0.6:
            return "".join(self.some(30, lambda: self.choice(LETTERS)))
        if kind < 0.75:
            return "".join(self.some(3, lambda: self.choice(MARKERS + ["hi"]), 1))
        if kind < 0.85:
            return self.choice(HALF_TEXTS if self.odd() else ODD_TEXTS)
        if kind < 0.9:
            return json.dumps({"city": self.choice(LETTERS)}) + self.choice(["", "}", ","])
        return self.choice(LETTERS + MARKERS[:4]) * self.size()

    def name(self):
        if not self.odd():
            return self.choice(["get_weather", "f", "a-b", "x.y", "_", "ns::tool", "functions/f", "A" * 64, "true", "null", "0", "a" * 128])
        return self.choice(["", "a" * 129, "<tool_call>", "ä", "a b", "a\0", "{}", '"', "f" * 10_000, *MARKERS])

    def number(self):
        return Raw(self.choice(["0", "-0", "1", "-1", "0.5", "1e400", "-1e400", "1e-400", "9007199254740993", "9223372036854775808", "2147483648",
                                "-2147483649", "4294967296", "1" * 400, "0." + "3" * 400, "1E+2"])
                   if not self.odd() else self.choice(["NaN", "-Infinity", "01", "1.", "0x10"]))

    def deep(self):
        depth = self.choice([5, 20, 60, 100]) if not self.odd() else self.choice([126, 127, 128, 129, 1000, 30_000])
        opens, closes = self.choice([("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])
        return Raw(opens * depth + "0" + closes * depth)

    def wide(self):
        count = self.choice([100, 2000, 10_000])
        return self.choice([lambda: ["a"] * count, lambda: [{}] * count, lambda: {f"k{i}": i for i in range(count)},
                            lambda: [[0] * 10] * (count // 10)])()

    def value(self, depth=2):
        """Any JSON value."""
        kind = self.rng.random()
        if kind < 0.2:
            return self.text()
        if kind < 0.35:
            return self.number()
        if kind < 0.5:
            return self.choice([None, True, False, [], {}, "", "auto", "none", 0, 1, -1])
        if kind < 0.53:
            return self.deep()
        if kind < 0.55 and self.is_heavy:
            return self.wide()
        if depth == 0:
            return self.choice([0, "x", None])
        if kind < 0.75:
            return self.some(4, lambda: self.value(depth - 1))
        if self.odd():
            return Pairs([("a", 1), ("a", self.value(depth - 1)), ("", None)])
        return {self.choice(["a", "type", "name", "content", "$ref", "", "text"]): self.value(depth - 1) for _ in range(self.rng.randint(0, 4))}

    # ---- languages

    def count(self):
        least = self.choice([0, 1, 2, 3, 5] + [20, 100, 1000] * self.is_heavy)
        most = least + self.choice([0, 1, 4] + [16, 100, 1000, 100_000] * self.is_heavy)
        return self.choice(["*", "+", "?", "*?", f"{{{least}}}", f"{{{least},}}", f"{{{least},{most}}}"] if not self.odd() else ["{4294967296}", "{3,2}", "{,5}", "**"])

    def pattern(self, depth=None):
        """ECMA-262, Rust's or what is neither: counts, alternatives, look-arounds, back references."""
        if depth is None:
            return self.whole_pattern()

        def atom():
            plain = ["a", "b", "/", "-", ".", r"\d", r"\w", r"\s", r"\S", "[a-z]", "[^/]", "[^a]", "[0-9a-f]", r"[\w.-]", r"\.", "ab", "é", "😀", " "]
            rare = [r"\b", r"\B", "^", "$", r"\p{L}", r"\P{Lu}", r"\p{Script=Greek}", r"\u{1F600}", r"\u0041", r"\x41", r"\cJ", "[^]", r"[\b]", "(?i:aB)"]
            wrong = [r"\1", r"\k<n>", "(?<n>a)(?<n>b)", "[]", "[z-a]", r"\u{110000}", r"\ud800", r"\0", "(", ")", "[", "*", "\\", "(?i)", "[[:alpha:]]", r"\p{Nope}", r"\z"]
            if depth > 0 and self.chance(0.35):
                opens = self.choice(["(", "(", "(", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!"])
                return opens + self.pattern(depth - 1) + ")"
            if self.odd():
                return self.choice(wrong)
            return self.choice(rare) if self.chance(0.03) else self.choice(plain)

        def branch():
            return "".join(atom() + (self.count() if self.chance(0.3) else "") for _ in range(self.rng.randint(1, 5 if self.is_heavy else 4)))

        return "|".join(self.some(3 if self.is_heavy else 2, branch, 1))

    def whole_pattern(self):
        whole = self.choice(["", "^"]) + self.pattern(self.choice([2, 3, 3]) if self.is_heavy else self.choice([0, 0, 1, 1, 2])) + self.choice(["", "$"])
        if self.is_heavy and self.chance(0.1):
            return self.choice([lambda: whole * self.choice([10, 100, 500]), lambda: "(" * self.choice([50, 1000, 20_000]) + whole])()
        return whole

    def reference(self):
        if self.odd():
            return self.choice(["#/properties/a", "#a", "#/nowhere", "http://example.com/s", "", "#/~2", "https://json-schema.org/draft/2020-12/schema"])
        return self.choice(["#", "#/$defs/a", "#/$defs/a", "#/$defs/b", "#/$defs/%61"])

    def schema(self, depth=3):
        """JSON Schema with any of its keywords; values are right for the most part."""
        if self.chance(0.04):
            return self.choice([True, False])
        if depth == 0:
            return self.choice([{"type": "string"}, {"type": "integer"}, {}, {"$ref": self.reference()}, {"enum": ["a", "b"]}])

        def inner():
            return self.schema(depth - 1)

        keywords = {
            "type": lambda: self.choice(["object", "object", "array", "string", "string", "integer", "number", "boolean", "null", ["string", "null"],
                                         ["object", "array"]] if not self.odd() else [[], "nope", ["string", "string"], 5]),
            "properties": lambda: {self.choice(["a", "b", "c", "city", "", "a b", "ä", "</tool_call>"]): inner() for _ in range(self.rng.randint(0, 4))},
            "required": lambda: self.some(3, lambda: self.choice(["a", "b", "c", "zz", ""])),
            "additionalProperties": lambda: self.choice([True, False, inner()]),
            "patternProperties": lambda: {self.pattern(): inner() for _ in range(self.rng.randint(0, 3))},
            "propertyNames": lambda: self.choice([{"pattern": self.pattern()}, {"maxLength": 3}, inner()]),
            "pattern": self.pattern, "format": lambda: self.choice(["date-time", "uuid", "email", "ipv6", "regex", "nope", "date"]),
            "minLength": lambda: self.choice([0, 1, 5, 1000, 10**9] if not self.odd() else [-1, 0.5]), "maxLength": lambda: self.choice([0, 1, 5, 1000, 10**9]),
            "enum": lambda: self.choice([["x"], ["a", "b", "ab"], [1, 1.0, "1"], [self.text() for _ in range(5)], [None, {}, []],
                                         [f"value{i}" for i in range(self.size())]]),
            "const": lambda: self.value(1),
            "minimum": self.bound, "maximum": self.bound, "exclusiveMinimum": self.bound, "exclusiveMaximum": self.bound,
            "multipleOf": lambda: Raw(self.choice(["1", "2", "0.1", "0.01", "7", "1e-300", "1e300", "123456789"] if not self.odd() else ["0", "-1"])),
            "items": inner, "prefixItems": lambda: self.some(4, inner), "contains": inner, "uniqueItems": lambda: self.chance(0.8),
            "minItems": lambda: self.choice([0, 1, 3, 100, 10**9]), "maxItems": lambda: self.choice([0, 1, 3, 100, 10**9]),
            "minContains": lambda: self.choice([0, 1, 3]), "maxContains": lambda: self.choice([0, 1, 3]),
            "minProperties": lambda: self.choice([0, 1, 3, 100]), "maxProperties": lambda: self.choice([0, 1, 3]),
            "anyOf": lambda: self.some(4, inner, 1), "oneOf": lambda: self.some(4, inner, 1), "allOf": lambda: self.some(3, inner, 1), "not": inner,
            "if": inner, "then": inner, "else": inner, "dependentRequired": lambda: {"a": ["b"]}, "dependentSchemas": lambda: {"a": inner()},
            "unevaluatedProperties": lambda: self.choice([False, inner()]), "unevaluatedItems": lambda: self.choice([False, inner()]),
            "$ref": self.reference, "$dynamicRef": self.reference, "$id": lambda: self.choice(["http://example.com/s", "", "x"]),
            "$anchor": lambda: "a", "$schema": lambda: self.choice(["http://json-schema.org/draft-07/schema#", "nope"]),
            "description": self.text, "default": lambda: self.value(1), "nullable": lambda: True, "readOnly": lambda: True}
        common = ["type", "properties", "required", "pattern", "enum", "items", "anyOf", "additionalProperties", "$ref", "allOf", "oneOf"]
        drawn = {self.choice(common if self.chance(0.7) else list(keywords)) for _ in range(self.rng.randint(1, 4))}
        schema = {key: self.value(1) if self.odd() else keywords[key]() for key in sorted(drawn)}
        if depth == 3:
            schema["$defs"] = {"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": inner()}]}, "b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}
            if self.odd():
                schema["$defs"]["b"] = {"anyOf": [{"$ref": "#/$defs/b"}, inner()]}
            if self.is_heavy and self.chance(0.2):
                schema["properties"] = {f"p{i}": {"type": "string"} for i in range(self.choice([100, 1000]))}
        return schema

    def bound(self):
        return Raw(self.choice(["0", "1", "-5", "10", "1.5", "1e3", "-1e400", "1e400", "99999999999999999999", "0." + "1" * 50]))

    def object_schema(self):
        if self.odd():
            return self.schema()
        properties = {name: self.schema(2) for name in self.rng.sample(["a", "b", "city", "unit"], self.rng.randint(1, 3))}
        schema = {"type": "object", "properties": properties, "$defs": {"a": {"type": "object", "properties": {"a": self.schema(1)}}, "b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}}
        if self.chance(0.7):
            schema["required"] = self.rng.sample(list(properties), self.rng.randint(0, len(properties)))
        return schema

    def lark(self):
        names = ["start", "a", "b", "T", "U"]

        def item(depth=2):
            kind = self.rng.random()
            if kind < 0.25:
                return self.choice(['"x"', '"ab"i', '""', '"a".."z"', '"é"', '"</tool_call>"'])
            if kind < 0.45:
                return "/" + self.pattern(1).replace("/", r"\/") + "/" + self.choice(["", "", "i", "s"] + ["z"] * self.odd())
            if kind < 0.75 or depth == 0:
                return self.choice(names if not self.odd() else ["nowhere", "WS"])
            return "(" + alternatives(depth - 1) + ")" + self.choice(["", "*", "+", "?", "~2", "~2..5"] + ["{1000}", "~0..100000"] * self.is_heavy)

        def alternatives(depth=2):
            return " | ".join(" ".join(self.some(4, lambda: item(depth), 0 if self.chance(0.1) else 1)) for _ in range(self.rng.randint(1, 4)))

        lines = [f"{name}{self.choice(['', '', '', '[lazy]', '[stop=/x/]'])}: {alternatives()}" for name in names]
        lines += self.some(2, lambda: self.choice(["%ignore / +/", "%import common.WS", "%import common.INT", "// remark"] if not self.odd()
                                                  else ["%json {}", "a: a a | a", "%declare X", "start: a"]))
        text = "\n".join(lines)
        return text if not self.odd() else text[:self.rng.randint(0, len(text))]

    def gbnf(self):
        names = ["root", "a", "b", "c"]

        def item(depth=2):
            kind = self.rng.random()
            if kind < 0.3:
                return self.choice(['"x"', '"ab"', '""', r'"\u00e9"', r'"\x41"', "<|im_end|>", "<[5]>", "!<think>"])
            if kind < 0.5:
                return self.choice(["[a-z]", "[^a]", ".", "[]", "[z-a]", r"[\]]", r"[^\x00-\x1f]"])
            if kind < 0.75 or depth == 0:
                return self.choice(names if not self.odd() else ["nowhere"])
            return "(" + alternatives(depth - 1) + ")" + self.choice(["", "*", "+", "?", "{2}", "{2,}", "{,5}"] + ["{0,100000}", "{1000000}"] * self.is_heavy)

        def alternatives(depth=2):
            return " | ".join(" ".join(self.some(4, lambda: item(depth), 0 if self.chance(0.1) else 1)) for _ in range(self.rng.randint(1, 4)))

        text = "\n".join(f"{name} ::= {alternatives()}" for name in names)
        return text if not self.odd() else text[:self.rng.randint(0, len(text))]

    def tag_format(self, depth=3):
        def inner():
            return self.tag_format(depth - 1)

        def tag():
            return {"type": "tag", "begin": self.choice(["<a>", "<b>", "", "<|im_end|>"]), "content": inner(), "end": self.choice(["</a>", "", ["x", "y"]])}

        kinds = [lambda: {"type": "const_string", "value": self.text()}, lambda: {"type": "json_schema", "json_schema": self.schema(2)},
                 lambda: {"type": "regex", "pattern": self.pattern()}, lambda: {"type": "grammar", "grammar": self.gbnf()},
                 lambda: {"type": "any_text", "excludes": self.some(2, self.text)}, lambda: {"type": "token", "token": self.choice(["<|im_end|>", 5, -1])}]
        if depth > 0:
            kinds += [lambda: {"type": self.choice(["sequence", "or"]), "elements": self.some(3, inner)},
                      lambda: {"type": self.choice(["optional", "star", "plus"]), "content": inner()},
                      lambda: {"type": "repeat", "content": inner(), "min": self.choice([0, 2, 10**6]), "max": self.choice([-1, 1, 3, 10**9])}, tag,
                      lambda: {"type": "triggered_tags", "triggers": ["<"], "tags": self.some(3, tag, 1), "at_least_one": self.chance(0.5)},
                      lambda: {"type": "tags_with_separator", "tags": self.some(3, tag, 1), "separator": self.choice([",", ""])},
                      lambda: {"type": "dispatch", "rules": [[self.text(), inner()]]}]
        return self.choice(kinds)()

    # ---- what requests are made of

    def sampling(self):
        makers = {"temperature": lambda: self.choice([0, 0.7, 2]), "top_p": lambda: self.choice([0, 0.5, 1]), "top_k": lambda: self.choice([-1, 0, 1, 40, 10**6]),
                  "min_p": lambda: self.choice([0, 0.1, 1]), "seed": lambda: self.choice([0, -1, 2**63 - 1]),
                  "presence_penalty": lambda: self.choice([-2, 2]), "frequency_penalty": lambda: self.choice([-2, 2]),
                  "repetition_penalty": lambda: self.choice([0.01, 1, 10])}
        return {key: self.value(1) if self.odd() else makers[key]() for key in self.rng.sample(list(makers), self.rng.randint(0, 3))}

    def stops(self):
        if self.odd():
            return self.choice([self.text, lambda: ["x"] * 10_000, lambda: [""], lambda: ["x" * 1025], lambda: ["x"] * 17])()
        return self.choice([lambda: "a", lambda: self.some(16, lambda: self.text()[:1000] or "x", 1), lambda: ["a", "b"], lambda: MARKERS[:8], lambda: ["aab" * 340],
                            lambda: LETTERS[:16], lambda: ["\0"], lambda: ["a" * n for n in range(1, 17)]])()

    def bias(self):
        if self.odd():
            return {str(self.choice([16_405, -1, 10**12, "x"])): self.choice([101, "1", None]) for _ in range(3)}
        if self.is_heavy and self.chance(0.3):
            return {str(i): -100 for i in range(4096)}
        return {str(self.rng.randrange(16_405)): self.choice([-100, 100, 0, 0.5]) for _ in range(self.rng.randint(0, 20))}

    def kwargs(self):
        keys = ["enable_thinking", "reasoning_effort", "documents", "date_string", "custom", "loop", "namespace", "tools_in_user_message", "strftime_now",
                "raise_exception", "range", "tojson", "self"] + (["messages", "eos_token"] if self.odd() else [])
        return {self.choice(keys): self.value() for _ in range(self.rng.randint(0, 4))}

    def arguments(self):
        return self.choice(['{"city": "Paris"}', "{}", "", "{", "null", "[1]", '{"a": "\\ud800"}', '{"a": 1e400}', "not JSON", '{"a":' * 200 + "0" + "}" * 200,
                            '{"a": 1, "a": 2}']) if self.chance(0.9) else self.text()

    def content(self, part_type="text"):
        if self.chance(0.7):
            return self.text()
        if self.odd():
            return self.choice([None, [], {}, 0])
        return self.some(4, lambda: {"type": self.choice(["image_url", "refusal", "thinking", ""]) if self.odd() else part_type, "text": self.text()})

    def chat_messages(self):
        def call():
            kind = self.choice(["function", "function", "custom"])
            inside = {"name": self.name(), "arguments": self.arguments()} if kind == "function" else {"name": self.name(), "input": self.text()}
            return {"id": self.choice(["call_1", "call_2", "", self.text()]), "type": kind, kind: inside}

        def message():
            role = self.choice(["user", "user", "assistant", "assistant", "tool", "tool", "system", "developer", "function"]) if not self.odd() else self.text()
            one = {"role": role, "content": self.content()}
            if role == "assistant" and self.chance(0.5):
                one["tool_calls"] = self.some(3, call)
            if role == "tool":
                one["tool_call_id"] = self.choice(["call_1", "call_2", "nowhere", ""])
            if self.chance(0.1):
                one[self.choice(["name", "reasoning_content"])] = self.text()
            if self.chance(0.05) or self.odd():
                one[self.choice(["custom", "weight", "tools"] + ["function_call", "name"] * self.odd())] = self.value(1)
            return one

        if self.chance(0.5):
            return [{"role": "user", "content": self.text()}]
        if self.is_heavy and self.chance(0.1):
            return [{"role": self.choice(["user", "assistant", "tool"]), "content": "x"}] * self.choice([500, 3000])
        return self.some(8, message, 0 if self.odd() else 1)

    def chat_tool(self):
        if self.chance(0.3):
            syntax = self.choice(["lark", "regex"])
            grammar = {"syntax": syntax, "definition": self.lark() if syntax == "lark" else self.pattern()}
            return {"type": "custom", "custom": {"name": self.name(), "description": self.text(),
                                                 "format": self.choice([{"type": "text"}, {"type": "grammar", "grammar": grammar}, {"type": "grammar", "grammar": grammar}])}}
        function = {"name": self.name(), "description": self.text(), "parameters": self.object_schema()}
        if self.chance(0.2):
            function["strict"] = self.choice([True, False])
        return {"type": "function", "function": function}

    def tools(self, make):
        if self.odd():
            one = make()
            return [one] * (1025 if self.chance(0.02) and len(text_of(one)) < 300 else 2)
        tools, names = [], set()
        for tool in self.some(3, make, 1):
            inside = tool.get("function") or tool.get("custom") or tool
            if inside["name"] not in names:
                tools.append(tool)
            names.add(inside["name"])
        if self.is_heavy and self.chance(0.05):
            tools = [{**tools[0], **({"name": f"f{i}"} if "name" in tools[0] else {key: {**tools[0][key], "name": f"f{i}"} for key in ("function", "custom") if key in tools[0]})}
                     for i in range(1024 if len(text_of(tools[0])) < 1000 else 20)]
        return tools

    def format(self, nested=True):
        kind = self.choice(["text", "json_object", "json_schema", "json_schema", "json_schema"])
        if kind != "json_schema":
            return {"type": kind}
        inside = {"name": self.name(), "schema": self.schema() if self.chance(0.5) else self.object_schema(), "strict": self.chance(0.3)}
        return {"type": kind, "json_schema": inside} if nested else {"type": kind, **inside}

    def common(self, limit):
        """What all dialects have."""
        body = {"model": MODEL, limit: self.choice([1, 2, 4, 8] + [16] * self.is_heavy), "stream": self.chance(0.4)}
        if self.chance(0.15):
            body["chat_template_kwargs"] = self.kwargs()
        if self.chance(0.1):
            body["tenon"] = self.choice([{"normalize": False}, {"close_calls": True}, {"close_calls": True}, {"argument_order": "any"}, {"argument_order": None}, {"bounds": "none"}])
        return body

    def chat(self):
        body = {**self.common("max_tokens"), "messages": self.chat_messages(), **self.sampling()}
        if self.chance(0.6):
            body["tools"] = self.tools(self.chat_tool)
            tool = body["tools"][0]
            body["tool_choice"] = self.choice(["auto", "required", "required", "none", {"type": tool["type"], tool["type"]: {"name": tool[tool["type"]]["name"]}},
                                               {"type": "allowed_tools", "allowed_tools": {"mode": self.choice(["auto", "required"]), "tools": [{"type": tool["type"], tool["type"]: {"name": tool[tool["type"]]["name"]}}]}}])
        elif self.chance(0.7):
            body["response_format"] = self.format()
        optional = {"stop": self.stops, "logit_bias": self.bias, "n": lambda: self.choice([1, 2] + [16] * self.is_heavy), "logprobs": lambda: True, "top_logprobs": lambda: self.choice([0, 20]),
                    "parallel_tool_calls": lambda: self.chance(0.5), "reasoning_effort": lambda: self.choice(["none", "low", "max"]), "stream_options": lambda: {"include_usage": True},
                    "user": self.text, "metadata": lambda: {"a": self.value(1)}}
        if self.odd():
            optional |= {"grammar": self.gbnf, "n": lambda: self.choice([0, 17, 10**6]), "top_logprobs": lambda: 21, "metadata": self.value}
        for key in self.rng.sample(list(optional), self.choice([0, 0, 1, 2])):
            body[key] = optional[key]()
        if "tools" not in body and self.chance(0.1):
            body |= {"functions": [{"name": "f", "parameters": self.object_schema()}], "function_call": self.choice(["auto", {"name": "f"}])}
        if "top_logprobs" in body:
            body["logprobs"] = True
        if "stream_options" in body and not self.odd():
            body["stream"] = True
        return "/v1/chat/completions" if self.chance(0.9) else "/v1/chat/completions/render", body

    def responses(self):
        def item():
            return self.choice([lambda: {"type": "message", "role": self.choice(["user", "assistant", "system"]) if not self.odd() else "nope", "content": self.content("input_text")},
                                lambda: {"type": "function_call", "call_id": "c", "name": self.name(), "arguments": self.arguments()},
                                lambda: {"type": "function_call_output", "call_id": self.choice(["c", "d"]), "output": self.content("input_text")},
                                lambda: {"type": "custom_tool_call", "call_id": "c", "name": self.name(), "input": self.text()},
                                lambda: {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": self.text()}]},
                                *([lambda: {"type": "item_reference", "id": self.text()}] if self.odd() else [])])()

        def tool():
            if self.chance(0.3):
                syntax = self.choice(["lark", "regex"])
                return {"type": "custom", "name": self.name(), "format": {"type": "grammar", "syntax": syntax, "definition": self.lark() if syntax == "lark" else self.pattern()}}
            return {"type": "function", "name": self.name(), "parameters": self.object_schema(), "strict": self.chance(0.5)}

        body = {**self.common("max_output_tokens"), "input": self.text() if self.chance(0.5) else self.some(6, item, 1)}
        if self.chance(0.6):
            body["tools"] = self.tools(tool)
            body["tool_choice"] = self.choice(["auto", "required", "none", {"type": body["tools"][0]["type"], "name": body["tools"][0]["name"]}])
        elif self.chance(0.6):
            body["text"] = {"format": self.format(nested=False)}
        optional = {"instructions": self.text, "store": lambda: self.chance(0.5), "include": lambda: ["message.output_text.logprobs"],
                    "metadata": lambda: {"a": self.text()[:500]}, "reasoning": lambda: {"effort": "low"}}
        if self.odd():
            optional |= {"previous_response_id": lambda: self.choice(["resp_x", "", self.text()]), "top_logprobs": lambda: 5, "truncation": lambda: "auto"}
        for key in self.rng.sample(list(optional), self.choice([0, 1, 2])):
            body[key] = optional[key]()
        return "/v1/responses" if self.chance(0.9) else "/v1/responses/input_tokens", body

    def messages(self):
        def block(role):
            if role == "user":
                return self.choice([lambda: {"type": "text", "text": self.text()}, lambda: {"type": "tool_result", "tool_use_id": self.choice(["t1", "t2"]), "content": self.content()},
                                    lambda: {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": self.text()}}, *([lambda: {"type": "image", "source": {}}] if self.odd() else [])])()
            return self.choice([lambda: {"type": "text", "text": self.text()}, lambda: {"type": "tool_use", "id": "t1", "name": self.name(), "input": self.value() if self.odd() else {"city": self.value()}},
                                lambda: {"type": "thinking", "thinking": self.text(), "signature": ""}, lambda: {"type": "redacted_thinking", "data": ""}])()

        def message():
            role = self.choice(["user", "user", "assistant", "system"]) if not self.odd() else "nope"
            return {"role": role, "content": self.text() if role == "system" or self.chance(0.5) else self.some(4, lambda: block(role))}

        body = {**self.common("max_tokens"), "messages": [{"role": "user", "content": self.text()}] if self.chance(0.5) else self.some(6, message, 1)}
        if self.chance(0.6):
            body["tools"] = self.tools(lambda: {"name": self.name(), "description": self.text(), "input_schema": self.object_schema()})
            body["tool_choice"] = self.choice([{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": body["tools"][0]["name"]}])
        elif self.chance(0.6):
            body["output_config"] = {"format": {"type": "json_schema", "schema": self.schema() if self.chance(0.5) else self.object_schema()}}
        optional = {"system": self.content, "stop_sequences": self.stops, "thinking": lambda: {"type": "enabled", "budget_tokens": 1024}, "temperature": lambda: 1,
                    "top_k": lambda: 5, "metadata": lambda: {"user_id": self.text()}}
        for key in self.rng.sample(list(optional), self.choice([0, 1, 2])):
            body[key] = optional[key]()
        return "/v1/messages" if self.chance(0.85) else "/v1/messages/count_tokens", body

    def completions(self):
        def token():
            return self.choice([16_405, 2**31 - 1, -1]) if self.odd() else self.rng.randrange(16_405)

        prompt = self.choice([self.text, lambda: self.some(6, self.text, 1), lambda: self.some(20, token, 1), lambda: self.some(3, lambda: self.some(4, token, 1), 1)])
        body = {"model": MODEL, "prompt": prompt(), "max_tokens": self.choice([1, 4, 8]), "stream": self.chance(0.4), **self.sampling()}
        optional = {"n": lambda: self.choice([1, 2]), "best_of": lambda: self.choice([2] + [16] * self.is_heavy), "echo": lambda: True, "logprobs": lambda: self.choice([0, 20]), "stop": self.stops,
                    "logit_bias": self.bias, "response_format": self.format} | ({"suffix": self.text} if self.odd() else {})
        for key in self.rng.sample(list(optional), self.choice([0, 1, 2, 3])):
            body[key] = optional[key]()
        return "/v1/completions", body

    def tokens(self):
        if self.chance(0.6):
            return "/tokenize", {"content": self.text(), "parse_special": self.chance(0.5)}
        return "/detokenize", {"tokens": self.some(30, lambda: self.choice([16_405, -1, 2**31]) if self.odd() else self.rng.randrange(16_405))}

    # ---- many costly parts that differ

    def costly_pattern(self, number):
        """One that no other number has."""
        letters = self.rng.sample("abcdefghijklmnop", self.rng.randint(1, self.most_letters))
        counts = [max(self.rng.randint(1, self.most_count), len(letters)) for _ in letters]  # there is room for all letters
        literal = self.choice(["", "z", f"n{number}-"]) * self.rng.randint(1, self.most_literals)
        start = self.choice([
            lambda: "".join(f"(?=.*{letter})" for letter in letters) + ".*",
            lambda: "".join(f"(?=.{{0,{count}}}{letter})" for letter, count in zip(letters, counts)) + ".+",
            lambda: "".join(f"(?!.*{letter}.{{{count}}}{number})" for letter, count in zip(letters, counts)) + ".*",
            lambda: "".join(f"[^{letter}]{{0,{count}}}" for letter, count in zip(letters, counts)),
            lambda: "".join(f".{{1,{count}}}{letter}" for letter, count in zip(letters, counts)),
            lambda: "|".join(f"(?:[^{letter}]|{letter}{number}){{0,{count}}}{letter}" for letter, count in zip(letters, counts)),
            lambda: f"(?:\\S+\\s+){{0,{counts[0]}}}\\S+",
            lambda: f"(?=.*[a-z]{{{number % 50},{counts[0] + 50}}}).*(x|y){{3,100}}[^/]{{2,400}}"])()
        return f"^(?:{start}){literal}{number}$"[:10_000 + self.choice([0, 0, 1])]

    def costly_object(self, number, keys=1):
        properties = {f"p{i}": {"type": "string", "pattern": self.costly_pattern(number * keys + i)} for i in range(keys)}
        return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    def costly_schema(self):
        kind = self.choice(["anyOf", "anyOf", "oneOf", "allOf", "properties", "items"])
        if kind == "properties":
            return self.costly_object(0, self.choice([1, 5, 40, 300]))
        if kind == "items":
            return {"type": "array", "prefixItems": [self.costly_object(i) for i in range(self.choice([3, 30, 300]))], "minItems": 1}
        return {kind: [self.costly_object(i) for i in range(self.choice([2, 3] if kind == "allOf" else [2, 30, 300, 900]))]}

    def costly_grammar(self, number):
        """Members of a custom tool's grammar."""
        if self.chance(0.4):
            return {"syntax": "regex", "definition": self.costly_pattern(number).strip("^$")}
        if self.chance(0.3):
            return {"syntax": "lark", "definition": self.lark() + f"\n// {number}"}
        patterns = [self.costly_pattern(number * 10 + i).strip("^$").replace("/", "\\/") for i in range(self.choice([1, 3, 8]))]
        names = [f"T{i}" for i in range(len(patterns))]
        start = self.choice([" ", " | "]).join(names)
        return {"syntax": "lark", "definition": "\n".join([f"start: ({start})" + self.choice(["", "+", "~2..50"]), *(f"{name}: /{one}/" for name, one in zip(names, patterns))])}

    def costly(self):
        """A request of one dialect, with up to 1,024 tools, a schema of hundreds of parts, or 16 answers."""
        # Where one part asks for too much the whole request is refused, so most are far from that.
        self.most_letters, self.most_count, self.most_literals = self.choice([1, 2, 4, 6, 10, 16]), self.choice([3, 9, 19, 100]), self.choice([1, 1, 10, 100, 1000])
        dialect = self.choice(["chat", "chat", "responses", "messages"])
        body = {"model": MODEL, "max_output_tokens" if dialect == "responses" else "max_tokens": self.choice([1, 4, 16]), "stream": self.chance(0.3)}
        body |= {"input": "x"} if dialect == "responses" else {"messages": [{"role": "user", "content": "x"}]}
        kind = self.choice(["functions", "functions", "schema", "schema"] + ["custom", "custom"] * (dialect != "messages"))
        if kind == "functions":
            objects = [self.costly_object(i, self.choice([1, 1, 3])) for i in range(self.choice([2, 16, 128, 1024]))]
            body["tools"] = [{"chat": lambda: {"type": "function", "function": {"name": f"f{i}", "parameters": one}},  # noqa: B023
                              "responses": lambda: {"type": "function", "name": f"f{i}", "parameters": one},  # noqa: B023
                              "messages": lambda: {"name": f"f{i}", "input_schema": one}}[dialect]() for i, one in enumerate(objects)]
        elif kind == "custom":
            formats = [{"type": "grammar", **({"grammar": one} if dialect == "chat" else one)} for one in map(self.costly_grammar, range(self.choice([2, 4, 8, 32])))]
            body["tools"] = [{"type": "custom", **({"custom": {"name": f"f{i}", "format": one}} if dialect == "chat" else {"name": f"f{i}", "format": one})} for i, one in enumerate(formats)]
        else:
            inside = {"type": "json_schema", "schema": self.costly_schema()}
            body |= {"chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": inside["schema"]}}},
                     "responses": {"text": {"format": {**inside, "name": "x"}}}, "messages": {"output_config": {"format": inside}}}[dialect]
        if "tools" in body:
            body["tool_choice"] = {"type": self.choice(["auto", "any"])} if dialect == "messages" else self.choice(["auto", "required"])
        if dialect == "chat" and self.chance(0.4):
            body |= {"n": self.choice([2, 16]), "temperature": self.choice([0, 2])}
        return {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[dialect], body

    # ---- trouble

    def spoil(self, body):
        """Replaces, removes or renames a member anywhere in `body`."""
        places = []

        def walk(value):
            for key in list(value) if isinstance(value, dict) else range(min(len(value), 50)):
                places.append((value, key))
                if type(value[key]) in (dict, list):
                    walk(value[key])

        walk(body)
        if not places:
            return
        where, key = self.choice(places)
        kind = self.rng.random()
        if kind < 0.7 or isinstance(where, list):
            where[key] = self.value()
        elif kind < 0.8:
            del where[key]
        elif kind < 0.9:
            where[self.choice(["typo", "", "\ud800", "__proto__", key + " "])] = where.pop(key)
        else:
            where[key] = self.choice([[where[key]], {key: where[key]}, Raw(text_of(where[key]) + "," + json.dumps(key) + ":null")])

    def flip(self, body):
        """Changes some of the bytes."""
        data = bytearray(body)
        for _ in range(self.choice([1, 1, 3, 20])):
            at = self.rng.randrange(len(data) + 1)
            data[at:at + self.choice([0, 0, 1, 4])] = self.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b'"', b"}", b"[", b"\\", b",", b"\xf4\x90\x80\x80", b"/*"])
        return bytes(data)


# Requests that need no model.
OTHER = [("GET", "/v1/models"), ("GET", "/v1/models/tenon-tiny"), ("GET", "/v1/models/%00"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/v1/responses/resp_x"),
         ("DELETE", "/v1/responses/resp_x"), ("GET", "/v1/responses/resp_x/input_items?limit=-1&after=x"), ("POST", "/v1/responses/x/cancel"), ("PUT", "/v1/chat/completions"),
         ("OPTIONS", "/v1/messages"), ("GET", "/" + "a" * 9000), ("POST", "/nowhere"), ("HEAD", "/health"), ("GET", "/../../etc/passwd")]
ODD_HEADERS = [("x-request-id", "a" * 129), ("x-request-id", "mine"), ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"), ("traceparent", "junk"), ("content-type", "text/plain"),
               ("content-encoding", "gzip"), ("expect", "100-continue"), ("authorization", "Bearer \xff"), ("accept", "*/*"), ("anthropic-version", "x"), ("x-long", "y" * 5000)]


def costly_request_of(seed, number):
    path, body = Source(f"costly/{seed}/{number}").costly()
    return Request("POST", path, text_of(body).encode(), {})


def request_of(seed, number):
    source = Source(f"{seed}/{number}")
    rng = source.rng
    if source.chance(0.004):  # they are large
        return costly_request_of(seed, number)
    if source.chance(0.03):
        method, path = source.choice(OTHER)
        request = Request(method, path, b"{}" if method in ("POST", "PUT") else b"", {})
    else:
        make = rng.choices([source.chat, source.responses, source.messages, source.completions, source.tokens], [40, 22, 22, 11, 5])[0]
        path, body = make()
        if source.chance(0.08) or source.odd():
            for _ in range(source.choice([1, 1, 2, 3])):
                source.spoil(body)
        data = text_of(body).encode()
        request = Request("POST", path, source.flip(data) if source.chance(0.02) or source.odd() else data, {})
    if source.chance(0.08):
        name, value = source.choice(ODD_HEADERS)
        request.headers[name] = value
    going = rng.random()
    if going < 0.02:
        request.cut = rng.randrange(len(request.body) + 1)
    elif going < 0.1:
        request.read = source.choice([0, 0, 1, 200, 500, 2000])
    return request


def mask_line_of(seed, number):
    """A line for `tenon mask --batch`: what no request of the server can hold, GBNF and structural tags, and the rest."""
    source = Source(f"mask/{seed}/{number}")
    syntax = source.choice(["gbnf", "structural_tag", "lark", "regex", "schema"])
    texts = [{"text": text} for text in source.some(3, lambda: re.sub("[\ud800-\udfff]", "", source.text())[:2000], 1)]
    if syntax == "schema":
        return {"id": number, "schema": source.schema(), "tests": texts}
    grammar = {"gbnf": source.gbnf, "lark": source.lark, "regex": source.pattern,
               "structural_tag": lambda: text_of({"type": "structural_tag", "format": source.tag_format()})}[syntax]()
    return {"id": number, "grammar": grammar, "syntax": syntax, "tests": texts}
