"""What `tenon grammar` prints, as the engines read it that it is printed for.

llama.cpp is always there. llguidance and xgrammar are asked in the Python that MASK_PEERS_PYTHON names (this one by default),
if it has them.
"""
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

import pytest
from data import LARGE, over_each_set
from serving import ROOT, TENON

HERE = pathlib.Path(__file__).parent
IS_LONG = bool(os.environ.get("TENON_LONG"))
ENGINES = {"gbnf": "llama_cpp", "ebnf": "xgrammar", "lark": "llguidance"}
TREE = {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"], "additionalProperties": False}


def properties(required=(), closed=True, **members):
    return {"type": "object", "properties": members, "required": list(required)} | ({"additionalProperties": False} if closed else {})


# (schema, valid values, invalid ones), members in the schema's order.
TABLE = [
    ({}, [None, True, -1.5, "a\n\"\\\u0001é😀", [], [1, [None]], {}, {"a": {"b": [1, 2]}, "": 0}], []),
    ({"type": ["null", "boolean"]}, [None, True, False], [0, "null", [], {}]),
    ({"type": "string"}, ["", "a", "\u001f\t\"", "日本"], [None, 1]),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ["ab", "abcd", "\n\"\\/", "日本語"], ["a", "abcde", "日本語中文"]),
    ({"type": "string", "maxLength": 300}, ["", "x" * 300, "é" * 299 + "\n"], ["x" * 301]),
    ({"type": "string", "maxLength": 2500}, ["", "x" * 2500], ["x" * 2501]),
    ({"type": "string", "pattern": "^(?:[^\\s]+\\s+){0,99}\\S+$"}, ["a", "£ b\ncé", "a " * 99 + "a"], ["", "a ", "a " * 100 + "a"]),
    ({"type": "string", "pattern": "^[a-z]{900}x*$|^y"}, ["a" * 900, "a" * 900 + "x", "y", "yz"], ["a" * 899, "x", "a" * 900 + "y"]),
    ({"type": "string", "pattern": "^[a-z][a-z0-9_-]{2,30}$"}, ["abc", "a-9_", "x" * 31], ["ab", "9ab", "abC", "x" * 32]),
    ({"type": "string", "pattern": "b+"}, ["b", "abc", "\nbb\n"], ["", "a", "aca"]),
    ({"type": "string", "pattern": "^(?!tmp)[a-z]+(?<!x)$"}, ["abc", "tm", "xa"], ["tmpa", "abx", ""]),
    ({"type": "string", "pattern": "\\p{Lu}\\d$", "maxLength": 3}, ["É1", "aA0"], ["a1", "aaA0", "A"]),
    ({"type": "string", "pattern": "^[-0-9ac]{2}[!--][---][+-9]$"}, ["-0!-.", "a9,--", "c-+-9"], ["b0!-.", "-0.-.", "-0!+.", "-0!-*", "!0!-."]),
    ({"type": "string", "pattern": "^[^-0-9]\\^[\\]-a]$"}, ["a^]", "]^^", "\\^`"], ["-^]", "5^]", "a^b", "a^["]),
    ({"type": "string", "pattern": "^(\"|\\\\|/|\n)*$"}, ["\"\\/\n", ""], ["\"a", "\t"]),
    ({"type": "string", "format": "date-time"}, ["2024-02-29T12:00:00Z", "2024-12-31T23:59:59.5+01:00"], ["2024-02-29", "x"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", "123e4567-e89b-12d3-a456-42661417400g"]),
    ({"type": "string", "format": "ipv4"}, ["127.0.0.1", "255.255.255.255"], ["256.0.0.1", "1.2.3"]),
    ({"type": "string", "format": "email"}, ["a.b@example.com"], ["a.b", "@example.com"]),
    ({"type": "string", "not": {"enum": ["a", "ab"]}}, ["", "b", "abc", "aa"], ["a", "ab"]),
    ({"anyOf": [{"type": "string", "maxLength": 1}, {"const": "long"}, {"type": "null"}]}, ["", "a", "long", None], ["lo", "longer", 1]),
    ({"type": "integer"}, [0, -1, 10 ** 30, 1.0], [1.5, "1", None]),
    ({"type": "number"}, [0, -0.5, 1e-7, 1e16, 12345678901234567890], ["1", None]),
    ({"type": "integer", "minimum": -7, "maximum": 130}, [-7, -6, 0, 5, 99, 100, 129, 130], [-8, -70, 131, 200, 1300, 1.5]),
    ({"type": "integer", "exclusiveMinimum": 999, "exclusiveMaximum": 100001}, [1000, 9999, 100000], [999, 0, -1000, 100001, 1000000]),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, [0, 0.5, 0.999, 1e-7, 0.0], [1, 1.0, -0.1, 1e16]),
    ({"type": "number", "minimum": -2.75, "maximum": -0.125}, [-2.75, -2.7, -1, -0.125, -0.5], [-2.76, -3, -0.1, 0, 1, -1e-7]),
    ({"type": "integer", "multipleOf": 7}, [0, 7, -14, 700, 7007], [1, 8, 701]),
    ({"type": "number", "multipleOf": 0.01}, [0, 1.25, -3.1, 10], [0.001, 1.255]),
    ({"type": "number", "not": {"type": "integer"}}, [0.5, -1.25], [1, 2.0]),
    ({"enum": ["a", "ab", "b\"c", 1, 2.5, True, None, [1, "x"], {"k": 1, "j": [None]}]},
     ["a", "ab", "b\"c", 1, 1.0, 2.5, True, None, [1, "x"], {"k": 1, "j": [None]}], ["abc", "", 2, False, [1], {"k": 1}]),
    ({"const": 100}, [100, 100.0], [10, 1000, 100.5, "100"]),
    ({"enum": [f"value-{i}" for i in range(300)]}, ["value-0", "value-299"], ["value-", "value-300", "value-29x"]),
    ({"type": "array"}, [[], [1, "a", []]], [{}, None]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}, [[1, 2], [1, 2, 3, 4]], [[], [1], [1, 2, 3, 4, 5], [1, "a"]]),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 120}, [[], [True] * 120], [[True] * 121]),
    ({"type": "array", "items": {"type": "string", "maxLength": 255}, "maxItems": 20}, [["a"] * 20], [["a"] * 21, ["a" * 256]]),
    ({"type": "array", "items": {"enum": ["a", 1]}, "maxItems": 1200}, [[], [1] * 1200], [[1] * 1201, ["b"]]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": False, "minItems": 1}, [[1], [1, "a"]], [[], [2], [1, "a", 3]]),
    ({"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"}}, [[], [1], [1, None, None]], [[None], [1, 1]]),
    (properties(["b"], a={"type": "integer"}, b={"type": "string"}, c={"type": "null"}),
     [{"b": ""}, {"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": None}, {"b": "x", "c": None}],
     [{}, {"a": 1}, {"a": 1, "c": None}, {"b": "", "d": 1}, {"a": "x", "b": ""}]),
    (properties((), **{f"p{i}": {"type": "integer"} for i in range(60)}),
     [{}, {"p0": 1}, {"p59": 1}, {"p3": 1, "p40": 2, "p41": 3}, {f"p{i}": i for i in range(60)}], [{"p60": 1}, {"p1": "x"}]),
    (properties(["city"], closed=False, city={"type": "string"}, unit={"enum": ["C", "F"]}),
     [{"city": "a"}, {"city": "a", "unit": "C"}, {"city": "a", "units": "K", "cit": 1, "": [], "cityy": 0}],
     [{"unit": "C"}, {"city": 1}, {"city": "a", "unit": "K"}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1}, {"a\"": 1, "é": 2}], [{"a": "x"}, {"a": 1, "b": None}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2, "maxProperties": 3},
     [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}], [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3, "d": 4}]),
    (properties((), a={}, b={}, c={}) | {"minProperties": 1, "maxProperties": 2},
     [{"a": 1}, {"b": 1}, {"c": 1}, {"a": 1, "c": 2}, {"b": 1, "c": 2}], [{}, {"a": 1, "b": 1, "c": 1}]),
    ({"type": "object", "patternProperties": {"^x-[a-z]+$": {"type": "string"}, "^n": {"type": "number"}}, "additionalProperties": False},
     [{}, {"x-a": "b"}, {"n": 1, "nn": 2, "x-b": ""}], [{"x-": ""}, {"x-a": 1}, {"m": 1}]),
    ({"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": {"type": "null"}}, [{}, {"abc": None}], [{"abcd": None}, {"a": 1}]),
    (properties((), a={"type": "boolean"}, b={}) | {"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": True, "b": 1}], [{"a": True}]),
    ({"oneOf": [properties(["k", "n"], k={"const": "a"}, n={"type": "integer"}), properties(["k", "s"], k={"const": "b"}, s={"type": "string"})]},
     [{"k": "a", "n": 1}, {"k": "b", "s": "x"}], [{"k": "a", "s": "x"}, {"k": "c", "n": 1}, {"k": "b"}]),
    ({"allOf": [properties(["a"], closed=False, a={"type": "integer", "minimum": 3}), {"properties": {"a": {"maximum": 5}}}]},
     [{"a": 3}, {"a": 5, "b": 1}], [{"a": 2}, {"a": 6}, {}]),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}, [1, [], [1, [2, []]]], ["a", [1, "a"], {}]),
    (TREE, [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": []}, {"name": "c"}]}], [{}, {"name": "a", "children": [{}]}]),
    ({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["a"]}, "type": "object",
      "properties": {"k": {"type": "integer"}, "a": {}}, "additionalProperties": False},
     [{}, {"k": 2}, {"k": 1, "a": 0}, {"a": 0}], [{"k": 1}]),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [[], [1, 2]], [["a"], [1, 1]]),
    ({"type": "array", "contains": {"const": 1}}, [[1], [0, 1, 2], ["1", 1]], [[], [0], ["1", 11]]),
    ({"type": "array", "contains": {"const": 1}, "maxContains": 1}, [[1], [0, 1, 2]], [[], [1, 1]]),
    (properties((), **{"a b": {"const": "x\ny"}, "q\"": {"const": "\\"}, "é": {"const": "😀"}}),
     [{"a b": "x\ny", "q\"": "\\", "é": "😀"}, {"é": "😀"}], [{"a b": "x y"}]),
]


def objects(text):
    return [json.loads(line) for line in text.split("\n") if line]  # splitlines() knows more ends than JSON lines have


def printed(dialect, lines):
    run = subprocess.run([str(TENON), "grammar", "--batch"], capture_output=True, text=True, check=True,
                         input="".join(json.dumps({"to": dialect, "assert_format": True, "whitespace": "spaced", **line}) + "\n" for line in lines))
    return objects(run.stdout)


def masked(lines):
    """Whether our own masks accept each text, in the schema's order."""
    lines = [{"schema": line["schema"], "assert_format": True, "whitespace": "spaced", "property_order": "schema",
              "tests": [{"text": text} for text in line["texts"]]} for line in lines]
    run = subprocess.run([str(TENON), "mask", "--batch", "--vocab", str(ROOT / "models/tenon-tiny.gguf")], capture_output=True, text=True,
                         check=True, input="".join(json.dumps(line) + "\n" for line in lines))
    return [[test["accepted"] for test in answer.get("tests", [])] for answer in objects(run.stdout)]


@pytest.fixture(params=ENGINES)
def engine(request):
    """(dialect, what asks the engine of that dialect)"""
    dialect = request.param
    python = os.environ.get("MASK_PEERS_PYTHON", sys.executable) if dialect != "gbnf" else sys.executable
    if subprocess.run([python, "-c", f"import {ENGINES[dialect]}"], capture_output=True).returncode != 0:
        pytest.skip(f"{python} has no {ENGINES[dialect]}: what is printed as {dialect} is not held against it")

    def ask(lines):
        run = subprocess.run([python, HERE / "printer_peer.py", dialect], capture_output=True, text=True, check=True,
                             input="".join(json.dumps(line) + "\n" for line in lines))
        return objects(run.stdout)

    return dialect, ask


def judge(dialect, ask, lines):
    """Compares what the engine accepts with what is valid; returns the counts."""
    grammars = printed(dialect, [{"schema": line["schema"]} for line in lines])
    answers = iter(ask([{"grammar": grammar["grammar"], "texts": line["texts"]} for grammar, line in zip(grammars, lines) if "grammar" in grammar]))
    counts = {"schemas": 0, "exact": 0, "no grammar": 0, "too large": 0, "valid": 0, "out of order": 0, "invalid": 0, "invalid, relaxed": 0}
    wrong = []
    for grammar, line, ours in zip(grammars, lines, masked(lines)):
        if "grammar" not in grammar:
            counts["no grammar"] += 1
            continue
        answer = next(answers)
        counts["schemas"] += 1
        counts["exact"] += not grammar["relaxed"]
        if "max is 2000" in answer.get("error", ""):
            counts["too large"] += 1  # llguidance bounds its items: some hundreds of optional properties reach that
            continue
        if "error" in answer:
            wrong.append((line["schema"], answer["error"], grammar["grammar"]))
            continue
        ours = ours or [True] * len(line["texts"])
        for text, valid, in_order, accepted in zip(line["texts"], line["valid"], ours, answer["accepted"]):
            if valid and not accepted and not in_order and not line["in_order"]:
                counts["out of order"] += 1
            elif valid != accepted and (valid or not grammar["relaxed"]):
                wrong.append((line["schema"], text, "valid" if valid else "invalid"))
            else:
                counts["valid" if valid else "invalid, relaxed" if accepted else "invalid"] += 1
    print(dialect, counts)
    assert not wrong[:3]
    return counts


def test_engines_accept_what_the_schema_does(engine):
    lines = [{"schema": schema, "texts": [json.dumps(value, ensure_ascii=False) for value in valid + invalid],
              "valid": [True] * len(valid) + [False] * len(invalid), "in_order": True} for schema, valid, invalid in TABLE]
    counts = judge(*engine, lines)
    assert counts["no grammar"] == 0
    assert counts["exact"] >= len(TABLE) - 3  # uniqueItems, contains and the days of date-time are relaxed
    assert counts["invalid"] > 100


# (syntax, source, accepted, refused)
GRAMMARS = [
    ("gbnf", 'root ::= "yes" | "no" | [0-9]{1,3} "%"?', ["yes", "no", "7", "999%"], ["ye", "1000", "%", "yesno"]),
    ("gbnf", 'root ::= "(" root* ")" | "é" [^a-z]', ["()", "(()())", "é😀", "(éA)"], ["(", "éa", "())"]),
    ("gbnf", 'root ::= item ("," item)*\nitem ::= [a-z]+ ("=" [0-9]+)?', ["a", "a=1,b", "ab,c=22"], ["a=", ",a", "a,,b"]),
    ("gbnf", 'root ::= ws expr\nexpr ::= term (("+" | "-") ws term)*\nterm ::= [0-9]+ ws | "(" ws expr ")" ws\nws ::= [ ]*',
     ["1", " 1 + (2-3) ", "((1))"], ["1+", "(1", "+1"]),
    ("gbnf", 'root ::= "a"{0,700} "\\n\\x22\\\\]-^"', ['aaa\n"\\]-^', '\n"\\]-^'], ["aaa", '\n"\\]-']),
    ("gbnf", 'root ::= ([ab] [cd] | loop)* (("a" | "b") | loop) "e"\nloop ::= "q" loop', ["ae", "acbe", "acbdae"], ["e", "ac", "abe", "a"]),
    ("regex", "[A-Z][a-z]+(?: [A-Z][a-z]+)*", ["Ada", "Ada Love"], ["ada", "Ada ", "Ada  Love"]),
    ("regex", "(?!.*--)[a-z-]{2,9}", ["a-b", "abc"], ["a--b", "a", "abcdefghij"]),
    ("lark", 'start: "sum(" NUMBER ("," NUMBER)* ")"\nNUMBER: /-?[0-9]+/', ["sum(1)", "sum(-1,22)"], ["sum()", "sum(1,)"]),
    ("lark", 'start: NAME\nNAME: WORD & ~("if" | "else")\nWORD: /[a-z]+/', ["i", "iff", "x"], ["if", "else", ""]),
    ("lark", 'start: "<" %json {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], '
     '"additionalProperties": false} ">"', ['<{"a": 1}>'], ["<{}>", '<{"a": 1}', '<{"a": true}>']),
    ("structural_tag", {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "const_string", "value": "<call>"}, {"type": "json_schema", "json_schema": {"enum": ["a", 1]}},
        {"type": "const_string", "value": "</call>"}]}}, ['<call>"a"</call>', "<call>1</call>"], ["<call></call>", '<call>"b"</call>']),
    ("structural_tag", {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [
        {"begin": "<f=x>", "content": {"type": "json_schema", "json_schema": {"type": "boolean"}}, "end": "</f>"}]}},
     ["", "free < f text", "so <f=x>true</f> and <f=x>false</f>."], ["<f=y>true</f>", "<f=x>1</f>", "<f=x>true"]),
]


def test_engines_read_grammars_as_we_do(engine):
    dialect, ask = engine
    run = subprocess.run([str(TENON), "grammar", "--batch"], capture_output=True, text=True, check=True,
                         input="".join(json.dumps({"to": dialect, "syntax": syntax, "grammar": source}) + "\n" for syntax, source, *_ in GRAMMARS))
    grammars = objects(run.stdout)
    assert [grammar for grammar in grammars if grammar.get("relaxed") != []] == []
    answers = ask([{"grammar": grammar["grammar"], "texts": accepted + refused} for grammar, (_, _, accepted, refused) in zip(grammars, GRAMMARS)])
    for grammar, answer, (_, source, accepted, refused) in zip(grammars, answers, GRAMMARS):
        assert answer == {"accepted": [True] * len(accepted) + [False] * len(refused)}, (source, grammar["grammar"])


# ---- Real schemas --------------------------------------------------------------------------------

def referred(schema, root):
    if not isinstance(schema, dict) or not str(schema.get("$ref", "")).startswith("#"):
        return []
    target = root
    try:
        for step in schema["$ref"].split("/")[1:]:
            step = urllib.parse.unquote(step).replace("~1", "/").replace("~0", "~")
            target = target[int(step)] if isinstance(target, list) else target[step]
    except (KeyError, IndexError, TypeError, ValueError):
        return []
    return [target]


def parts(schema, root, depth=0):
    """The schemas that speak about the same value, in order."""
    if not isinstance(schema, dict) or depth > 8:
        return
    yield schema
    for inner in referred(schema, root):
        yield from parts(inner, root, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in schema[keyword] if isinstance(schema.get(keyword), list) else []:
            yield from parts(inner, root, depth + 1)
    for keyword in ("if", "then", "else"):
        yield from parts(schema.get(keyword), root, depth + 1)
    for keyword in ("dependentSchemas", "dependencies"):
        for inner in schema[keyword].values() if isinstance(schema.get(keyword), dict) else []:
            yield from parts(inner, root, depth + 1)


def in_order(value, schemas, root, depth=0):
    """`value` with its members as the schema declares them, as far as a plain look can tell."""
    if depth > 30:
        return value
    known = [part for schema in schemas[:20] for part in parts(schema, root)]
    for part in known:
        for listed in [part.get("const"), *(part["enum"] if isinstance(part.get("enum"), list) else [])]:
            if isinstance(value, (dict, list)) and json.dumps(listed, sort_keys=True) == json.dumps(value, sort_keys=True):
                return listed
    if isinstance(value, dict):
        names, others = {}, []
        for part in known:
            for name, inner in part["properties"].items() if isinstance(part.get("properties"), dict) else []:
                names.setdefault(name, []).append(inner)
            others += [part.get("additionalProperties")]
            others += part["patternProperties"].values() if isinstance(part.get("patternProperties"), dict) else []
        order = [name for name in names if name in value] + [name for name in value if name not in names]
        return {name: in_order(value[name], names.get(name, others), root, depth + 1) for name in order}
    if isinstance(value, list):
        items = []
        for part in known:
            for keyword in ("items", "prefixItems"):
                inner = part.get(keyword)
                items += inner if isinstance(inner, list) else [inner]
        return [in_order(item, items, root, depth + 1) for item in value]
    return value


@over_each_set
def test_engines_accept_what_real_schemas_do(engine, data):
    lines = []
    for file in sorted((data / "masks" / "public").glob("*.jsonl")):
        if file.stem.startswith("JSTS"):
            continue  # the standard's own suite, whose schemas do not name their drafts
        for case in objects(file.read_text())[::25 if data == LARGE and not IS_LONG else 1]:
            if len(json.dumps(case["schema"])) > 20_000:
                continue  # minutes in xgrammar
            values = [in_order(test["data"], [case["schema"]], case["schema"]) for test in case["tests"]]
            lines.append({"schema": case["schema"], "texts": [json.dumps(value, ensure_ascii=False) for value in values],
                          "valid": [test["valid"] for test in case["tests"]], "in_order": False})
    counts = judge(*engine, lines)
    assert counts["schemas"] > 0.95 * len(lines)  # some are not schemas, some have no values
    assert counts["exact"] > 0.8 * counts["schemas"]
    assert counts["out of order"] < 0.1 * counts["valid"]
    assert counts["too large"] < 0.01 * counts["schemas"]


def test_llama_cpp_takes_the_calls_of_every_format_and_no_others(tmp_path):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "required": ["city", "days"], "additionalProperties": False,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}}}}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    call = {"type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": "Paris", "days": 5})}}
    formats = [known["name"] for known in json.loads(subprocess.run([TENON, "formats", "--json"], capture_output=True, check=True).stdout)]
    rendered = subprocess.run([TENON, "render", "--batch"], capture_output=True, text=True, check=True, input="".join(
        json.dumps({"format": name, "tools": tools, "tool_calls": [call]}) + "\n" for name in formats))
    lines = []
    for name, answer in zip(formats, objects(rendered.stdout)):
        text = answer["output"]
        wrong = [text.replace("5", "8"), text.replace("get_weather", "get_wether"), text.replace("days", "day"), ""]
        grammar = subprocess.run([TENON, "grammar", "--tools", tmp_path / "tools.json", "--format", name],
                                 capture_output=True, text=True, check=True).stdout
        lines.append({"grammar": grammar, "texts": [text, *wrong]})
    run = subprocess.run([sys.executable, HERE / "printer_peer.py", "gbnf"], capture_output=True, text=True, check=True,
                         input="".join(json.dumps(line) + "\n" for line in lines))
    judged = dict(zip(formats, objects(run.stdout)))
    assert {name: answer for name, answer in judged.items() if answer != {"accepted": [True, False, False, False, False]}} == {}
    assert len(judged) == len(formats) > 50
