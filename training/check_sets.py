"""check_sets.py: holds the sets of training/sets to what their README promises.

    check_sets.py                     checks both sets and prints their counts and what needs no model
    check_sets.py --names             the tool and parameter names of the blind set, one a line
    check_sets.py --against PATH...   looks for the blind set in a training corpus

A corpus is JSON lines, each {"tools": [...], "messages": [...]}; PATH is a file, a folder of *.jsonl or - for standard
input. It must hold no request of the blind set as a user message and no name of it as a function's name or a property's
key. Sentences are compared without regard to case, blanks and final punctuation; names without regard to case, '_' and
'-', so that slatAngle is slat_angle too. The exit status is 1 where a set or a corpus breaks its promise, 2 where a
corpus cannot be read or is empty.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

SETS = pathlib.Path(__file__).parent / "sets"
MIX = {"single": 50, "parallel": 14, "missing": 12, "no_tool": 14, "follow_up": 10}
TOOLS = {"blind": 40, "dev": 30}
MAX_TOOLS, MAX_WORDS = 5, 30
TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
KEYWORDS = {
    "type",
    "description",
    "enum",
    "minimum",
    "maximum",
    "default",
    "properties",
    "required",
    "items",
    "additionalProperties",
}


class Wrong(Exception):
    """What a row breaks, in one sentence."""


def need(condition, sentence):
    if not condition:
        raise Wrong(sentence)


# ---- Schemas ----


def check_schema(schema, where):
    need(
        isinstance(schema, dict) and schema.get("type") in TYPES,
        f"{where}: no type, or one that JSON Schema has not",
    )
    need(schema.keys() <= KEYWORDS, f"{where}: keywords {sorted(schema.keys() - KEYWORDS)}")
    need(
        isinstance(schema.get("description", ""), str), f"{where}: a description that is no string"
    )
    need(
        ("properties" in schema) == (schema["type"] == "object"),
        f"{where}: properties belong to an object",
    )
    need(("items" in schema) == (schema["type"] == "array"), f"{where}: items belong to an array")
    properties = schema.get("properties", {})
    need(
        set(schema.get("required", [])) <= properties.keys(),
        f"{where}: requires what it does not have",
    )
    for key, inner in properties.items():
        check_schema(inner, f"{where}/{key}")
    if "items" in schema:
        check_schema(schema["items"], f"{where}/items")
    for value in schema.get("enum", []) + [
        schema[key] for key in ("minimum", "maximum", "default") if key in schema
    ]:
        check_value(value, {"type": schema["type"]}, where)


def check_value(value, schema, where):
    kind = schema["type"]
    fits = isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    need(fits, f"{where}: {value!r} is no {kind}")
    need("enum" not in schema or value in schema["enum"], f"{where}: {value!r} is none of the enum")
    need(
        "minimum" not in schema or value >= schema["minimum"],
        f"{where}: {value!r} is below the minimum",
    )
    need(
        "maximum" not in schema or value <= schema["maximum"],
        f"{where}: {value!r} is above the maximum",
    )
    if kind == "array":
        for item in value:
            check_value(item, schema["items"], where)
    if kind == "object":
        properties = schema["properties"]
        need(
            value.keys() <= properties.keys(),
            f"{where}: {sorted(value.keys() - properties.keys())} not in the schema",
        )
        need(
            set(schema.get("required", [])) <= value.keys(),
            f"{where}: a required property is missing",
        )
        for key, inner in value.items():
            check_value(inner, properties[key], f"{where}/{key}")


def property_keys(schema):
    """The keys of all objects in a schema, at any depth. Takes schemas of strangers."""
    if isinstance(schema, list):
        for inner in schema:
            yield from property_keys(inner)
    elif isinstance(schema, dict):
        for keyword, inner in schema.items():
            if keyword == "properties" and isinstance(inner, dict):
                yield from inner
                yield from property_keys(list(inner.values()))
            elif keyword not in ("enum", "const", "default", "examples"):
                yield from property_keys(inner)


# ---- Rows ----


def functions_of(row):
    """A sample's functions; a tool is OpenAI's {"type": "function", "function": {...}} or the function alone."""
    return [tool.get("function", tool) for tool in row.get("tools") or []]


def text_of(message):
    content = message.get("content") or ""
    return (
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    )


def user_texts(row):
    return [
        text_of(message) for message in row.get("messages") or [] if message.get("role") == "user"
    ]


def has_word(text, word):
    return re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", text.casefold()) is not None


def check_tools(row):
    need(1 <= len(row["tools"]) <= MAX_TOOLS, f"{len(row['tools'])} tools")
    for tool in row["tools"]:
        need(
            tool.keys() == {"type", "function"} and tool["type"] == "function",
            "a tool that is no function",
        )
        function = tool["function"]
        need(
            function.keys() == {"name", "description", "parameters"},
            "a function without name, description or parameters",
        )
        need(
            re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function["name"]),
            f"{function['name']!r} is no name of a function",
        )
        need(function["description"], f"{function['name']} has no description")
        need(
            function["parameters"].get("type") == "object",
            f"{function['name']}: parameters are no object",
        )
        check_schema(function["parameters"], function["name"])
    names = [function["name"] for function in functions_of(row)]
    need(len(set(names)) == len(names), "a tool is there twice")


def check_messages(row, schemas):
    roles = [message["role"] for message in row["messages"]]
    ended = ["user", "assistant", "tool"]
    shapes = (
        [ended, [*ended, "assistant", "user"]] if row["category"] == "follow_up" else [["user"]]
    )
    need(roles in shapes, f"messages of {roles}")
    for text in user_texts(row):
        need(text.strip() == text and text, "a request that is empty, or has blanks around it")
        need(len(text.split()) <= MAX_WORDS, f"a request of {len(text.split())} words")
    if row["category"] != "follow_up":
        return
    calls = row["messages"][1]["tool_calls"]
    need(
        len(calls) == 1 and calls[0]["id"] == row["messages"][2]["tool_call_id"],
        "a result that answers no call",
    )
    called = calls[0]["function"]
    need(called["name"] in schemas, f"{called['name']} is not among the tools")
    check_value(json.loads(called["arguments"]), schemas[called["name"]], called["name"])


def leaves(value):
    """The strings in an argument, however deep."""
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [leaf for inner in value for leaf in leaves(inner)]
        if isinstance(value, list)
        else [value]
        if isinstance(value, str)
        else []
    )


def check_call(call, schemas, request):
    need(call.keys() == {"name", "arguments"}, "an expected call without name or arguments")
    need(call["name"] in schemas, f"{call['name']} is not among the tools")
    schema = schemas[call["name"]]
    properties, arguments = schema["properties"], call["arguments"]
    need(
        arguments.keys() <= properties.keys(),
        f"{call['name']}: arguments that the schema does not have",
    )
    need(
        set(schema.get("required", [])) <= arguments.keys(),
        f"{call['name']}: a required argument is missing",
    )
    for key, accepted in arguments.items():
        where = f"{call['name']}/{key}"
        need(isinstance(accepted, list) and accepted, f"{where}: no list of accepted values")
        need(
            "" not in accepted or key not in schema.get("required", []),
            f"{where}: required, and may be absent",
        )
        values = [value for value in accepted if value != ""]
        for value in values:
            check_value(value, properties[key], where)
        if "enum" not in properties[key] and values:
            need(
                any(
                    all(leaf.casefold() in request.casefold() for leaf in leaves(value))
                    for value in values
                ),
                f"{where}: no accepted value stands in the request",
            )


def check_expect(row, schemas):
    expect, last = row["expect"], row["messages"][-1]
    need(
        expect.keys() <= {"calls", "mentions"} and "calls" in expect,
        "expect has calls, and mentions perhaps",
    )
    counts = {
        "single": {1},
        "parallel": {2, 3},
        "missing": {0},
        "no_tool": {0},
        "follow_up": {int(last["role"] == "user")},
    }
    need(len(expect["calls"]) in counts[row["category"]], f"{len(expect['calls'])} calls expected")
    need(
        ("mentions" in expect) == (last["role"] == "tool"), "mentions belong to a reply to a result"
    )
    for call in expect["calls"]:
        check_call(call, schemas, text_of(last))
    for variants in expect.get("mentions", []):
        need(
            any(has_word(text_of(last), word) for word in variants),
            f"{variants} is not in the result",
        )
        need(
            not any(has_word(user_texts(row)[0], word) for word in variants),
            f"{variants} is in the request already",
        )


def check_row(row):
    need(row.keys() == {"id", "category", "tools", "messages", "expect"}, f"keys {sorted(row)}")
    need(
        row["category"] in MIX and re.fullmatch(rf"{row['category']}_\d\d", row["id"]),
        "an id that is not CATEGORY_NN",
    )
    check_tools(row)
    schemas = {function["name"]: function["parameters"] for function in functions_of(row)}
    check_messages(row, schemas)
    check_expect(row, schemas)


# ---- Sets ----


def read_set(name):
    return [
        json.loads(line)
        for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def names_of(rows):
    """Tool and parameter names of samples."""
    for row in rows:
        for function in functions_of(row):
            yield function["name"]
            yield from property_keys(function.get("parameters") or {})


def same_sentence(text):
    return re.sub(r"[\s.,;:!?…]+$", "", re.sub(r"\s+", "", text.casefold()))


def same_name(name):
    return re.sub(r"[_ -]", "", name.casefold())


def requests_of(rows):
    return {same_sentence(text): text for row in rows for text in user_texts(row)}


def check_set(name, rows):
    """The sentences that say what is wrong with a set."""
    for row in rows:
        try:
            check_row(row)
        except (Wrong, KeyError, TypeError, ValueError) as error:
            yield f"{row.get('id')}: {error if isinstance(error, Wrong) else repr(error)}"
    for key, count in collections.Counter(row["id"] for row in rows).items():
        if count > 1:
            yield f"{key} is there {count} times"
    for text, count in collections.Counter(
        same_sentence(text) for row in rows for text in user_texts(row)
    ).items():
        if count > 1:
            yield f"a request is there {count} times: {text}"
    mix = collections.Counter(row["category"] for row in rows)
    if mix != MIX:
        yield f"categories are {dict(mix)}, not {MIX}"
    tools = {}
    for row in rows:
        for function in functions_of(row):
            if tools.setdefault(function["name"], function) != function:
                yield f"{row['id']}: {function['name']} differs from the tool of that name in another row"
    if len(tools) != TOOLS[name]:
        yield f"{len(tools)} tools, not {TOOLS[name]}"
    right = {row["expect"]["calls"][0]["name"] for row in rows if row["category"] == "single"}
    for unused in sorted(tools.keys() - right):
        yield f"no single request wants {unused}"


def summary(name, rows):
    mix = collections.Counter(row["category"] for row in rows)
    counts = ", ".join(f"{count} {category}" for category, count in mix.items())
    tools = len({function["name"] for row in rows for function in functions_of(row)})
    mean = sum(len(row["tools"]) for row in rows) / len(rows)
    single = [row for row in rows if row["category"] == "single"]
    firsts = [
        row
        for row in rows
        if len(row["expect"]["calls"]) == 1
        and row["expect"]["calls"][0]["name"] == functions_of(row)[0]["name"]
    ]
    drawn = sum(1 / len(row["tools"]) for row in single)
    silent = sum(not row["expect"]["calls"] and "mentions" not in row["expect"] for row in rows)
    return (
        f"{name}: {len(rows)} rows ({counts}), {tools} tools, {mean:.2f} a row\n"
        f"  the arguments granted, of {len(single)} single: a tool drawn by lot is right in {drawn:.1f}, "
        f"the first tool in {sum(row['category'] == 'single' for row in firsts)}\n"
        f"  of all {len(rows)}: always the first tool {len(firsts)}, never a call {silent}"
    )


def check_sets():
    sets = {name: read_set(name) for name in TOOLS}
    wrong = [
        f"{name}: {sentence}" for name, rows in sets.items() for sentence in check_set(name, rows)
    ]
    blind, dev = sets["blind"], sets["dev"]
    wrong += [
        f"both sets have the name {name}"
        for name in sorted(
            {same_name(name) for name in names_of(blind)}
            & {same_name(name) for name in names_of(dev)}
        )
    ]
    wrong += [
        f"both sets ask: {text}"
        for text in sorted(requests_of(blind).keys() & requests_of(dev).keys())
    ]
    print(*(summary(name, rows) for name, rows in sets.items()), *wrong, sep="\n")
    return 1 if wrong else 0


# ---- A corpus ----


def samples_in(paths):
    for path in paths:
        files = (
            sorted(pathlib.Path(path).rglob("*.jsonl")) if pathlib.Path(path).is_dir() else [path]
        )
        for file in files:
            with sys.stdin if file == "-" else open(file, encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        sample = json.loads(line)
                    except json.JSONDecodeError as error:
                        raise ValueError(f"{file}:{number}: {error}") from None
                    if not isinstance(sample, dict) or not isinstance(sample.get("messages"), list):
                        raise ValueError(f"{file}:{number}: no sample with tools and messages")
                    yield sample


def check_against(paths):
    blind = read_set("blind")
    requests, names = requests_of(blind), {same_name(name): name for name in names_of(blind)}
    found, samples = collections.Counter(), 0
    for sample in samples_in(paths):
        samples += 1
        for text in user_texts(sample):
            if (key := same_sentence(text)) in requests:
                found["request", requests[key]] += 1
        for name in names_of([sample]):
            if (key := same_name(name)) in names:
                found["name", names[key]] += 1
    if not samples:
        raise ValueError("the corpus is empty")
    for (kind, what), count in sorted(found.items()):
        print(f"{kind}, {count} times: {what}")
    print(
        f"{samples} samples against {len(requests)} requests and {len(names)} names: {len(found)} found"
    )
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--names", action="store_true", help="print the names of the blind set")
    what.add_argument(
        "--against", nargs="+", metavar="PATH", help="look for the blind set in a corpus"
    )
    arguments = parser.parse_args()
    if arguments.names:
        print(*sorted(set(names_of(read_set("blind")))), sep="\n")
        return 0
    if not arguments.against:
        return check_sets()
    try:
        return check_against(arguments.against)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(f"check_sets.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
