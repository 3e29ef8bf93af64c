"""The command line: its exit statuses, its help, its batch protocols."""
import json
import signal
import socket
import subprocess

import pytest
from played import DEMO
from scripted_upstream import serving_script
from serving import ROOT, TENON, free_port
from tools import WEATHER, only

MODEL_FILE = ROOT / "models" / "tenon-tiny.gguf"
TOOLS = ROOT / "examples" / "tools.json"


def tenon(*arguments, stdin="", timeout=60):
    return subprocess.run([str(TENON), *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, cwd=ROOT)


def batch(command, lines, *options):
    run = tenon(command, "--batch", *options,
                stdin="".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("command", ["serve", "chat", "call", "render", "parse", "validate", "grammar", "mask", "formats",
                                     "inspect", "export", "key", "bench", "pull", "models"])
def test_help_has_an_example(command):
    run = tenon(command, "--help")
    assert run.returncode == 0
    assert f"tenon {command}" in run.stdout
    assert "xample" in run.stdout


@pytest.mark.parametrize("arguments,status", [
    ((), 2), (("nonsense",), 2), (("serve", "--nonsense"), 2), (("serve", "--port", "99999999"), 2),
    (("call", "--tools", "/nowhere.json", "x"), 3), (("serve", "--config", "/nowhere.toml"), 3),
    (("serve", "--model", "/nowhere.gguf"), 4), (("call", "--model", "/nowhere.gguf", "x"), 4),
    (("call", "--url", "http://127.0.0.1:1", "x"), 4), (("call", "--url", "http://127.0.0.1:1", "--format", "hermes", "x"), 2),
    (("parse", "--batch", "--format", "hermes"), 2), (("render", "--batch", "--shape"), 2), (("validate",), 2),
    (("validate", "--batch", "--draft", "draft7"), 2), (("validate", "/nowhere.json"), 3),
    (("mask", "--vocab", "x"), 2), (("mask", "--vocab", MODEL_FILE, "-"), 2), (("mask", "--batch", "--vocab", "/nowhere.json"), 3),
    (("mask", "--vocab", MODEL_FILE, "/nowhere.json"), 3), (("mask", "--batch", "--vocab", MODEL_FILE, "--syntax", "gbnf"), 2),
    (("grammar", "/nowhere.json"), 3), (("grammar", "--to", "yacc"), 2), (("grammar", "--batch", "--to", "lark"), 2),
    (("grammar", "--syntax", "gbnf", "--whitespace", "any"), 2), (("grammar", "--batch", "--draft", "draft4"), 2),
    (("mask", "--vocab", MODEL_FILE, "--syntax", "gbnf", "--lenient", "x"), 2), (("grammar", "--draft", "draft3"), 2),
    (("grammar", "--document", "x"), 2), (("inspect", "/nowhere.gguf"), 3), (("inspect", "--batch", "x"), 2),
    (("render", "--template", "/nowhere.jinja"), 3)])
def test_exit_status(arguments, status):
    run = tenon(*arguments)
    assert run.returncode == status, (run.stdout, run.stderr)
    assert run.stderr.strip()
    assert "terminate called" not in run.stderr


def test_bad_model_files_are_named(tmp_path):
    whole = MODEL_FILE.read_bytes()
    bad = {"empty.gguf": b"", "text.gguf": b"hello\n" * 100, "short.gguf": whole[:1000], "half.gguf": whole[:len(whole) // 2],
           "counts.gguf": whole[:8] + b"\xff" * 16 + whole[24:]}
    for name, content in bad.items():
        path = tmp_path / name
        path.write_bytes(content)
        run = tenon("serve", "--model", path, "--port", free_port())
        assert run.returncode == 4, (name, run.stderr)
        assert name in run.stderr, run.stderr


def test_bad_configuration_names_the_line(tmp_path):
    path = tmp_path / "tenon.toml"
    for text, wanted in [("[server]\nprot = 1\n", "prot"), ("[server\n", "1"), ("[[model]]\nname = 3\n", "name"),
                         ('[server]\nhost = "0.0.0.0"\n', "key")]:
        path.write_text(text)
        run = tenon("serve", "--config", path)
        assert run.returncode == 3, (text, run.stderr)
        assert wanted in run.stderr, (text, run.stderr)


def test_flags_that_the_configuration_makes_idle_are_refused(tmp_path):
    path = tmp_path / "tenon.toml"
    path.write_text(f'[[model]]\nname = "a"\npath = "{MODEL_FILE}"\n')
    run = tenon("serve", "--config", path, "--threads", "2")
    assert run.returncode == 2
    assert "--threads" in run.stderr and "--model" in run.stderr, run.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_loading_of_models(tmp_path, stop):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a llama-server that takes its time
        path = tmp_path / "tenon.toml"
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path.write_text(f'[[model]]\nname = "a"\nengine = "llama-server"\nurl = "{url}"\n')
        with subprocess.Popen([str(TENON), "serve", "--config", str(path), "--port", str(free_port())],
                              stderr=subprocess.PIPE, text=True) as serve:
            connection, _ = silent.accept()
            serve.send_signal(stop)
            assert serve.wait(timeout=60) == 128 + stop
            connection.close()
            assert stop.name in serve.stderr.read()


def test_port_in_use_is_said(server):
    run = tenon("serve", "--port", server.port)
    assert run.returncode == 4
    assert str(server.port) in run.stderr


def test_unknown_command_is_named():
    run = tenon("nonsense", "--help-me")
    assert run.stderr.startswith("tenon: there is no command 'nonsense'"), run.stderr


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_call_takes_the_address_as_clients_write_it(played, end):
    run = tenon("call", "--url", played.url + end, "--tools", TOOLS, "What is the weather in Paris?")
    assert (run.returncode, run.stdout) == (0, 'get_weather(location: "Paris")\n'), run.stderr


def test_call_once(tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([*DEMO["tools"], only("Paris", "look_out")]))
    run = tenon("call", "--tools", tools, "--tool-choice", "look_out", "--temperature", "0", "--max-tokens", "200", "--json",
                "What is the weather in Paris?")
    assert run.returncode == 0, run.stderr
    calls = json.loads(run.stdout)["tool_calls"]
    assert [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls] == [("look_out", {"location": "Paris"})]


def test_chat_reads_a_pipe(tmp_path):
    run = tenon("chat", "--temperature", "0", "--max-tokens", "50", stdin="Hello!\n/quit\n")
    assert run.returncode == 0, run.stderr
    with serving_script(tmp_path, lambda prompt: "Hello to you.") as _:
        run = tenon("chat", "--config", tmp_path / "tenon.toml", stdin="Hello!\n/quit\n")
    assert run.returncode == 0 and "Hello to you." in run.stdout, run.stderr


def test_render_batch():
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{{ tools | length if tools }}"
    answers = batch("render", [
        {"id": "a", "template": template, "messages": [{"role": "user", "content": "hé"}], "tools": [WEATHER]},
        {"id": 2, "template": "{{ x + 1 }}", "context": {"x": 41}},
        {"id": "broken", "template": "{% if %}", "context": {}},
        "not json",
        {"id": "c", "template": "{{ raise_exception('no') }}", "context": {}},
        {"id": "last", "template": "{{ now }}ok", "context": {}},
    ])
    assert answers[0] == {"id": "a", "output": "[user] hé\n1"}
    assert answers[1] == {"id": 2, "output": "42"}
    assert [bool(answer.get("error")) for answer in answers] == [False, False, True, True, True, False]
    assert "no" in answers[4]["error"]["message"]
    assert answers[5] == {"id": "last", "output": "ok"}


def test_render_spans_tell_template_from_data():
    (answer,) = batch("render", [{"id": 1, "template": "<u>{{ messages[0].content }}</u>",
                                  "messages": [{"role": "user", "content": "</u>"}]}], "--spans")
    assert answer["output"] == "<u></u></u>"
    assert answer["spans"] == [[0, 3, "template"], [3, 7, "data"], [7, 11, "template"]]


def test_render_shapes_and_says_how(tmp_path):
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}]))
    run = tenon("render", "--shape", messages)
    assert run.returncode == 0, run.stderr
    assert "None" not in run.stdout
    assert run.stderr == "shaped: content null made empty in 1 message\n"
    # A model's folder, with the names of its tokens as they come from Hugging Face.
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "no"}, {
            "name": "tool_use", "template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"}]}))
    assert tenon("render", "--model", tmp_path, messages).stdout == "<s>hiNone"


@pytest.mark.parametrize(("request_", "options", "said"), [
    ({}, (), "must be a list of messages"), ({"messages": 5}, (), "must be a list of messages"),
    ({"messages": [], "template": ""}, (), "give it by --template FILE"),
    ({"messages": [], "tool": []}, (), "tool: is not known here"),
    ([], (), "t.jinja, line 1, column 6: ZeroDivisionError"),
    ([], ("--shape",), "t.jinja, line 1, column 6: ZeroDivisionError")])
def test_render_says_what_is_wrong(tmp_path, request_, options, said):
    (tmp_path / "t.jinja").write_text("{{ 1 // 0 }}")
    run = tenon("render", "--template", tmp_path / "t.jinja", *options, stdin=json.dumps(request_))
    assert run.returncode == 3 and said in run.stderr, run.stderr


def test_render_says_where_a_token_comes_from(tmp_path):
    (tmp_path / "t.jinja").write_text("{{ bos_token + messages[0].content }}")
    request = {"messages": [{"role": "user", "content": "hi"}]}
    run = tenon("render", "--template", tmp_path / "t.jinja", stdin=json.dumps(request))
    assert run.returncode == 3 and "put bos_token beside \"messages\"" in run.stderr, run.stderr
    run = tenon("render", "--template", tmp_path / "t.jinja", stdin=json.dumps({**request, "bos_token": "<s>"}))
    assert run.stdout == "<s>hi"


def test_inspect_says_what_a_template_takes(tmp_path):
    run = tenon("inspect", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["format"] == "hermes" and found["decided_by"] == "call" and "probetool" in found["evidence"]
    assert found["supports"]["tools"] and found["supports"]["parallel"]
    assert "hermes" in tenon("inspect").stdout
    one_call = ("{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}"
                "{% endif %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{{ m.content }}{% endfor %}")
    answers = batch("inspect", [{"id": 1, "template": one_call}, {"id": 2, "path": str(MODEL_FILE)},
                                {"id": 3, "template": "{% if %}"}, {"id": 4}, {"id": 5, "template": "", "foo": 1},
                                {"id": 6, "template": "", "path": ""}])
    supports = answers[0]["supports"]
    assert answers[0]["id"] == 1 and answers[0]["format"] is None
    assert supports["calls"] and not supports["parallel"] and supports["arguments"] == "object"
    assert answers[1]["format"] == "hermes" and str(MODEL_FILE) in answers[1]["template"]
    assert "line 1" in answers[2]["error"]["message"] and "template nor path" in answers[3]["error"]["message"]
    assert "foo: is not known here" in answers[4]["error"]["message"]
    assert "template: is not known here; there are path" in answers[5]["error"]["message"]


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"location": "São Paulo", "unit": "celsius"}}\n</tool_call>'


def test_parse_batch_is_the_same_however_it_is_cut():
    line = {"format": "hermes", "tools": [WEATHER], "text": "Sure.\n" + CALL}
    size = len(line["text"].encode())
    lines = [{"id": 0, **line}] + [{"id": k, **line, "chunk": k} for k in range(1, 12)]
    lines += [{"id": 100 + cut, **line, "cuts": [cut]} for cut in range(1, size)]
    answers = batch("parse", lines)
    assert len(answers) == len(lines)

    def told(answer):
        message = answer["message"]
        return (message["content"], [(c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]],
                answer["finish_reason"])

    assert told(answers[0])[1] == [("get_weather", '{"location": "São Paulo", "unit": "celsius"}')]
    assert told(answers[0])[2] == "tool_calls"
    assert all(told(answer) == told(answers[0]) for answer in answers)
    assert [answer["id"] for answer in answers] == [line["id"] for line in lines]


def test_calls_render_to_text_that_parses_back():
    calls = [{"type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Rome"}'}}]
    (rendered,) = batch("render", [{"id": 1, "format": "hermes", "tools": [WEATHER], "tool_calls": calls}])
    (parsed,) = batch("parse", [{"id": 1, "format": "hermes", "tools": [WEATHER], "text": rendered["output"]}])
    assert [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in parsed["message"]["tool_calls"]] == [
        ("get_weather", {"location": "Rome"})]


def test_validate_lists_what_is_wrong(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"properties": {"a": {"$ref": "http://example.com/count"}}, "required": ["a"]}))
    count = tmp_path / "count.json"
    count.write_text(json.dumps({"type": "integer", "minimum": 1}))
    given = ("--document", f"http://example.com/count={count}")
    run = tenon("validate", schema, *given, stdin='{"a": 1}')
    assert (run.returncode, run.stdout) == (0, "valid\n"), run.stderr
    run = tenon("validate", schema, *given, stdin='{"a": 0}')
    assert (run.returncode, run.stdout) == (
        1, "/a is 0, must be at least 1 [http://example.com/count#/minimum]\n"), run.stderr
    run = tenon("validate", schema, *given, "--json", stdin="{}")
    assert run.returncode == 1
    assert json.loads(run.stdout) == {"valid": False, "errors": [
        {"instance_path": "", "schema_path": "/required", "message": 'has no member "a"'}]}
    run = tenon("validate", schema, stdin="{}")
    assert run.returncode == 3
    assert "http://example.com/count" in run.stderr


def test_validate_batch():
    answers = batch("validate", [
        {"id": 1, "schema": {"type": "integer"}, "instance": 1.0},
        {"id": 2, "schema": {"type": "integer"}, "draft": "draft4", "instance_text": "1.0"},
        {"id": 3, "schema": {"format": "date"}, "assert_format": True, "instance": "2023-02-29"},
        {"id": 4, "schema": {"$ref": "#"}, "instance": 1},
        "not json",
        {"id": 5, "schema": {"$ref": "http://a/b"}, "documents": {"http://a/b": False}, "instance": 1},
    ])
    assert [answer.get("valid") for answer in answers] == [True, False, False, None, None, False]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, None, None, "invalid", "invalid", None]
    assert [answer.get("id") for answer in answers] == [1, 2, 3, 4, None, 5]


def test_mask_batch_follows_texts_token_by_token():
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}, "days": {"minimum": 1}},
              "required": ["city"], "additionalProperties": False}
    texts = ['{"city": "Skopje"}', '{ "days":2.5 , "city":"Priština" }', '{"days": 2}', '{"city": "Ljubljana!"}',
             '{"city": "Graz", "days": 0}', '{"city": "Graz"', '{"town": "Graz"}']
    answers = batch("mask", [
        {"id": 1, "schema": schema, "tests": [{"text": text} for text in texts]},
        {"id": 2, "schema": {"allOf": [{"type": "string"}, {"type": "null"}]}, "tests": []},
        {"id": 3, "schema": {"type": "string", "pattern": "("}, "tests": []},
        {"id": 4, "tests": []},
        {"id": 5, "schema": schema, "whitespace": "compact", "tests": [{"text": '{"city": "Graz"}'}]},
    ], "--vocab", str(ROOT / "models/tenon-tiny.gguf"))
    assert [test["accepted"] for test in answers[0]["tests"]] == [True, True, False, False, False, False, False]
    assert answers[0]["tests"][5]["at"] == len(texts[5])
    assert len(answers[0]["mask_us"]) > sum(len(test) for test in texts) // 10
    assert [answer.get("error", {}).get("code") for answer in answers[1:4]] == ["unsatisfiable", "invalid", "invalid"]
    assert answers[4]["tests"][0]["accepted"] is False


CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
        "required": ["city"], "additionalProperties": False}


def test_mask_explains_what_is_typed(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(CITY))
    lines = ['{"city": ', ":why 5", '"Graz"', ":why x", ", ", ":back", "}", ":text", ":clear"]
    run = tenon("mask", "--vocab", MODEL_FILE, schema, stdin="\n".join(lines) + "\n")
    assert run.returncode == 1, run.stderr  # two lines ask for what may not come
    assert '"5" may not come next: byte 0 (5) is not one of "\n' in run.stdout
    assert '"x" may not come next: byte 0 (x) is not one of ,  }\n' in run.stdout
    assert '  must go on with "\\""' in run.stdout
    assert "2 of 16405 tokens may come next; the text may end here\n" in run.stdout
    assert '\n{"city": "Graz"}\n' in run.stdout
    assert run.stdout.splitlines()[:2] == run.stdout.splitlines()[-3:-1]
    run = tenon("mask", "--vocab", MODEL_FILE, schema, stdin='{"city": "Graz", "days": 7}\n')
    assert run.returncode == 0
    schema.write_text('{"maximum": 1e999}')
    assert tenon("mask", "--vocab", MODEL_FILE, schema, stdin="5\n").returncode == 3
    run = tenon("mask", "--vocab", MODEL_FILE, "--lenient", schema, stdin="5\n")
    assert run.returncode == 0
    assert run.stderr.startswith("relaxed: (root) maximum: ")
    grammar = tmp_path / "grammar.gbnf"
    grammar.write_text('root ::= "yes" | "no"')
    run = tenon("mask", "--vocab", MODEL_FILE, "--syntax", "gbnf", grammar, stdin="yellow\n")
    assert run.returncode == 1
    assert '"ye" may, but its byte 2 (l) is not one of s\n' in run.stdout


def test_mask_reads_line_ends_and_control_tokens(tmp_path):
    grammar = tmp_path / "grammar.gbnf"
    grammar.write_text('root ::= "a\\n" <|im_end|> "\\\\n"')
    lines = [r":put a\n<|im_end|>", ":put <|im_end|>", ":back", r":why :put \n", r":put a\n<|im_end|>", "<|im_end|>",
             r":put \\n", ":why x", ":put <|im_end|>", ":why x", ":text", ":clear", ":why a"]
    run = tenon("mask", "--vocab", MODEL_FILE, "--syntax", "gbnf", grammar, stdin="\n".join(lines) + "\n")
    assert run.returncode == 1
    begin = '1 of 16405 tokens may come next\n  must go on with "a\\n"\n  "a"\n'
    called = '1 of 16405 tokens may come next\n  must go on with "\\\\n"\n  "\\\\"\n'
    assert run.stdout == "".join([
        begin, called, '"<|im_end|>" may not come next: the token "<|im_end|>" is not one of those that may\n',
        begin, '"\\n" may not come next: byte 0 (line end) is not one of a\n',
        called, '"<|im_end|>" may not come next: byte 0 (<) is not one of \\\n',
        '2 of 16405 tokens may come next; the text may end here\n  "<|endoftext|>" "<|im_end|>"\n',
        '"x" may not come next: byte 0 (x) is not one of those that may, for no byte may; the text may also end there\n',
        "the text has ended\n", '"x" may not come next: the text has ended\n',
        "a\n<|im_end|>\\n<|im_end|>\n", begin, '"a" may come next\n'])


def test_mask_says_where_a_limit_was_spent(tmp_path):
    grammar = tmp_path / "grammar.gbnf"
    rules = "\n".join(f'r{i} ::= "a" r{i} "b" | "c"' for i in range(21_000))
    grammar.write_text('root ::= "0123456789" (' + " | ".join(f"r{i}" for i in range(21_000)) + f")\n{rules}")
    run = tenon("mask", "--vocab", MODEL_FILE, "--syntax", "gbnf", grammar, stdin="0123456789a\n")
    assert run.stdout.startswith("1 of 16405")
    assert run.returncode == 3
    assert "ways to read one text" in run.stderr


def test_what_holds_beside_a_schema_is_said_on_the_command_line(tmp_path):
    (tmp_path / "other.json").write_text('{"type": "integer", "minimum": 5, "exclusiveMinimum": true}')
    schema = tmp_path / "schema.json"
    schema.write_text('{"anyOf": [{"$ref": "http://a/b?c=d"}, {"type": "string", "format": "date"}]}')
    options = ["--draft", "draft4", "--document", f"http://a/b?c=d={tmp_path / 'other.json'}", "--assert-format", schema]
    assert tenon("validate", *options, stdin="5").returncode == 1
    assert tenon("mask", "--vocab", MODEL_FILE, *options, stdin="6").returncode == 0
    assert tenon("mask", "--vocab", MODEL_FILE, *options, stdin='"x').returncode == 1
    assert "[6-9]" in tenon("grammar", *options).stdout


def test_files_of_another_kind_are_told_what_to_do(tmp_path):
    grammar = tmp_path / "grammar.gbnf"
    grammar.write_text('root ::= "yes"')
    advice = "grammar.gbnf: line 1, column 1: expected a value, found 'r'; if it is a grammar, name its --syntax\n"
    assert tenon("mask", "--vocab", MODEL_FILE, grammar).stderr.endswith(advice)
    assert tenon("grammar", grammar).stderr.endswith(advice)
    assert tenon("grammar", stdin="false").stderr == "tenon: stdin: no value fits the schema\n"
    run = tenon("mask", "--vocab", grammar, grammar)
    assert run.stderr.endswith("grammar.gbnf: is neither a GGUF file nor a tokenizer.json, which is a JSON object\n")


def test_grammar_prints_every_dialect(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(CITY | {"minProperties": 1}))
    for dialect, begin in [("gbnf", "root ::= "), ("ebnf", "root ::= "), ("lark", "start: "), ("json-schema", '{"type":"object"')]:
        run = tenon("grammar", "--to", dialect, schema)
        assert run.returncode == 0, run.stderr
        assert run.stdout.startswith(begin)
        assert not run.stderr
    run = tenon("grammar", "--syntax", "gbnf", stdin='root ::= "a" root | "b"')
    assert run.stdout == 'root ::= "a" root | "b"\n'
    run = tenon("grammar", "--json", stdin='{"type": "array", "uniqueItems": true}')
    answer = json.loads(run.stdout)
    assert [(relaxed["schema_path"], relaxed["keyword"]) for relaxed in answer["relaxed"]] == [("/uniqueItems", "uniqueItems")]
    run = tenon("grammar", stdin='{"type": "array", "uniqueItems": true}')
    assert run.stdout == answer["grammar"]
    assert run.stderr.startswith("relaxed: /uniqueItems ")


def test_grammar_batch_answers_line_by_line():
    answers = batch("grammar", [
        {"id": 1, "schema": {"const": 1}},
        {"id": 2, "schema": {"const": [1, 2]}, "whitespace": "compact", "to": "ebnf"},
        {"id": 3, "schema": False},
        {"id": 4, "schema": {"pattern": "("}},
        {"id": 5, "schema": {}, "to": "yacc"},
        {"id": 6, "grammar": "root ::= undefined", "syntax": "gbnf"},
        {"id": 7, "grammar": 'root ::= root "a" | "b"', "syntax": "gbnf"},
        {"id": 8},
        {"id": 9, "schema": {}, "property_order": "any"},
        {"id": 10, "grammar": 'root ::= "b"', "syntax": "gbnf", "whitespace": "any"},
    ])
    assert answers[0] == {"id": 1, "grammar": 'root ::= "1" ("." "0"+)?\n', "relaxed": []}
    anywhere, pretty = batch("grammar", [{"schema": {"type": "array"}, "whitespace": style} for style in ("any", "pretty")])
    assert "{0,20}" in anywhere["grammar"] and not anywhere["relaxed"]
    assert "{0,100}" in pretty["grammar"] and [relaxed["keyword"] for relaxed in pretty["relaxed"]] == ["whitespace"]
    assert answers[1]["grammar"] == 'root ::= "[1" ("." "0"+)? ",2" ("." "0"+)? "]"\n'
    assert [answer["error"]["code"] for answer in answers[2:]] == [
        "unsatisfiable", "invalid", "invalid", "invalid", "unsupported", "invalid", "invalid", "invalid"]


def test_formats_are_listed():
    run = tenon("formats", "--json")
    assert run.returncode == 0
    formats = json.loads(run.stdout)
    assert "hermes" in [entry["name"] for entry in formats]
    assert all(set(entry) >= {"name", "aliases", "parallel"} for entry in formats)


def test_render_teaches_a_model_without_tools(tmp_path):
    template = tmp_path / "plain.jinja"
    template.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
    messages = [{"role": "user", "content": "w?"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]
    run = tenon("render", "--shape", "--template", template, "--tools", TOOLS, stdin=json.dumps(messages))
    assert run.returncode == 0, run.stderr
    assert "shaped: 2 tools described in the system message" in run.stderr
    for part in ("[system]You have access to the following tools. To use a tool, respond with:\n<tool_call>",
                 "<name>function_name</name>", "- get_weather: ", "  Parameters: {",
                 '<name>get_weather</name>\n<arguments>{"location": "Paris"}</arguments>', "<content>sunny</content>"):
        assert part in run.stdout, part


ACT = """name = "{name}"
aliases = ["{name}-7b"]
[[syntax]]
call = "<act>\\n${{object}}\\n</act>"
object = {{ name = ["tool"], arguments = ["input"] }}
"""


def test_formats_of_ones_own_need_no_compiler(tmp_path):
    folder = tmp_path / "formats"
    folder.mkdir()
    for name in ("act", "play"):
        (folder / f"{name}.toml").write_text(ACT.format(name=name))
    text = 'Well. <act>\n{"tool": "f", "input": {"a": 1}}\n</act>'
    for place in (folder, folder / "play.toml"):
        run = tenon("parse", "--format", "play-7b", "--format-file", place, stdin=text)
        assert run.returncode == 0, run.stderr
        assert '"name":"f"' in run.stdout.replace(" ", ""), run.stdout
    run = tenon("--format-file", folder, "formats", "--json")
    assert {"act", "play"} <= {format["name"] for format in json.loads(run.stdout)}

    (folder / "play.toml").write_text('name = "play"\n[[syntax]]\ncall = "<act>${objekt}"\n')
    (tmp_path / "taken.toml").write_text('name = "mine"\naliases = ["hermes"]\n')
    (tmp_path / "empty").mkdir()
    for place, wanted in ((folder, "play.toml:3:8: 'call' has the unknown slot '${objekt}'"),
                          (tmp_path / "taken.toml", "the alias 'hermes' belongs to 'hermes'"),
                          (tmp_path / "empty", "there is no *.toml"), (tmp_path / "nowhere.toml", "nowhere.toml")):
        run = tenon("parse", "--format", "play", "--format-file", place, stdin=text)
        assert run.returncode == 3, run.stdout
        assert wanted in run.stderr, run.stderr


def test_every_command_has_its_manual(tmp_path):
    """The folder that is installed has the pages that are printed one by one, and no others."""
    folder = tmp_path / "new" / "man1"
    assert tenon("manual", "--all", folder).returncode == 0
    pages = {page.name: page.read_text() for page in folder.iterdir()}
    listed = tenon("--help").stdout.split("Subcommands:")[1].split("\n\n")[0]
    commands = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert "serve" in commands and set(pages) == {"tenon.1", *(f"tenon-{name}.1" for name in commands)}
    assert pages["tenon.1"] == tenon("manual").stdout
    for name in commands:
        assert pages[f"tenon-{name}.1"] == tenon("manual", name).stdout
    assert tenon("manual", "--all", folder, "serve").returncode == 2
    (tmp_path / "file").touch()
    refused = tenon("manual", "--all", tmp_path / "file" / "man1")
    assert refused.returncode == 3 and "cannot be written into" in refused.stderr


def test_launch_points_agents_at_the_server(server, tmp_path, monkeypatch):
    """By what is printed, or by a file that it names and that others cannot read. The agents themselves run in test_agents.py."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    listed = [line.split()[0] for line in tenon("launch").stdout.splitlines()]
    assert {"claude", "codex", "opencode"} <= set(listed)
    for agent in listed:
        shown = tenon("launch", agent, "--url", server.url + "/v1/", "--print", "--", "-p", "it's")
        told = shown.stdout
        for file in tmp_path.glob(f"tenon/launch/{agent}/*"):
            assert str(file.parent) in shown.stdout and file.stat().st_mode & 0o777 == 0o600
            told += file.read_text()
        assert shown.returncode == 0 and server.url in told and "tenon-tiny" in told, (shown, told)
        assert shown.stdout.endswith("-p 'it'\\''s'\n"), shown.stdout
    for arguments, status, wanted in ((["nobody"], 2, "there is no agent 'nobody'"),
                                      (["claude", "--model", "gpt"], 3, "has no model 'gpt'; it has 'tenon-tiny'"),
                                      (["claude", "--url", "http://127.0.0.1:9"], 4, "start a server with `tenon serve`")):
        run = tenon("launch", "--url", server.url, *arguments) if "--url" not in arguments else tenon("launch", *arguments)
        assert run.returncode == status and wanted in run.stderr, run.stderr
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    refused = tenon("launch", "pi", "--url", server.url, "--print")
    assert refused.returncode == 3 and "pi/provider.js cannot be written: Not a directory" in refused.stderr, refused


def test_launch_starts_the_program(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another's")
    missing = tenon("launch", "claude", "--url", server.url)
    assert missing.returncode == 3 and "npm install -g @anthropic-ai/claude-code" in missing.stderr
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho $ANTHROPIC_BASE_URL $ANTHROPIC_MODEL $ANTHROPIC_AUTH_TOKEN ${ANTHROPIC_API_KEY-unset} $2\nexit 7\n")
    program.chmod(0o755)
    run = tenon("launch", "claude", "--url", server.url, "--", "-p", "hello")
    assert run.returncode == 7 and run.stdout == f"{server.url} tenon-tiny none unset hello\n", run
