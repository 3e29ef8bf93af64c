"""Formats are data: the sources know none of them by name. And the commands that are about formats."""
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from serving import TENON

ROOT = Path(__file__).resolve().parents[2]
# Names of formats that are words with a meaning of their own in the sources.
WORDS = {"json", "react", "bracket", "dots", "openai", "qwen"}
# The layer that knows vocabularies knows kinds of tokenizers, some of which are called like formats.
TOKENIZERS = ROOT / "src" / "tenon" / "vocab"


def names():
    found = set()
    for path in (ROOT / "formats").glob("*.toml"):
        definition = tomllib.loads(path.read_text())
        found |= {definition["name"], *definition.get("aliases", [])}
    assert len(found) > 90, "formats/*.toml are not where this test looks for them"
    return {name.lower() for name in found - WORDS}


def words(line):
    """The words of a line, without those of a comment behind its code."""
    return {word.strip(".-") for word in re.findall(r"[\w.-]+", line.split("  //")[0].lower())}


def is_about_formats(line):
    """Comments and examples in a command's help may name one."""
    return not line.lstrip().startswith("//") and "tenon " not in line


def test_no_source_names_a_format():
    known = names()
    sources = [path for folder in ("src", "apps") for ending in ("*.cc", "*.h") for path in (ROOT / folder).rglob(ending)]
    assert len(sources) > 100, "src/ and apps/ are not where this test looks for them"
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(sources)
        if not path.name.endswith(("_test.cc", "_for_test.h")) and TOKENIZERS not in path.parents
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words(line) & known and is_about_formats(line)
    ]
    assert not named, "\n".join(named)


def tenon(*arguments):
    return subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def model_folder(parent, name, files):
    folder = parent / name
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


CALL_TOKENS = {"special_tokens_map.json": {"start_function_call": "<c>", "end_function_call": "</c>"}}
ADDED = {"added_tokens_decoder": {"6": {"content": "<start_function_call>"}, "7": {"content": "<escape>"}}}
# What export finds: the model's name, its files, the format that is written.
EXPORTED = [
    ("functiongemma-270m-it", {"tokenizer_config.json": {}}, "functiongemma"),
    ("renamed", {"tokenizer_config.json": ADDED}, "functiongemma"),
    ("its-tokenizer", {"tokenizer.json": {"added_tokens": [{"id": 6, "content": "<start_function_call>", "special": True}]}}, "functiongemma"),
    ("its-added-tokens", {"added_tokens.json": {"<start_function_call>": 6}}, "functiongemma"),
    ("its-map", {"special_tokens_map.json": {"additional_special_tokens": ["<start_function_call>"]}}, "functiongemma"),
    ("its-extra-tokens", {"tokenizer_config.json": {"extra_special_tokens": {"call": "<start_function_call>"}}}, "functiongemma"),
    ("its-damaged-tokenizer", {"tokenizer.json": "{"}, None),
    ("NousResearch-Hermes-3", {"tokenizer_config.json": {}}, "hermes"),
    ("x", {"tokenizer_config.json": {"chat_template": {"tool_use": "...", "default": "..."}}}, "json"),
    ("list", {"tokenizer_config.json": {"chat_template": [{"name": "default", "template": "x"},
                                                         {"name": "tool_use", "template": "y"}]}}, "json"),
    ("plain", {"tokenizer_config.json": {"chat_template": "{{ messages }}"}}, None),
    ("functiongemma", {"genai_config.json": {"tool_call_format": "hermes"}}, "hermes"),
    ("functiongemma-it", CALL_TOKENS, "functiongemma"),
]


@pytest.mark.parametrize(("name", "files", "wanted"), EXPORTED, ids=[row[0] for row in EXPORTED])
def test_export_writes_the_format_that_it_finds(tmp_path, name, files, wanted):
    folder, out = model_folder(tmp_path, name, {"weights.safetensors": "w", "notes.log": "n", **files}), tmp_path / "out"
    run = tenon("export", folder, out)
    assert run.returncode == (0 if wanted else 1), run.stderr
    config = json.loads((out / "genai_config.json").read_text())
    assert config.get("tool_call_format") == wanted
    assert "model_type" in config and (out / "weights.safetensors").read_text() == "w"
    assert not (out / "notes.log").exists() and not (folder / "genai_config.json").exists() ^ ("genai_config.json" in files)
    found = json.loads(tenon("inspect", "--json", out).stdout)
    assert found["format"] == wanted and found["decided_by"] == ("config" if wanted else "nothing")


REFUSED = [
    ({"genai_config.json": {"tool_call_format": "klingon"}}, (), "unknown tool_call_format: klingon"),
    ({"genai_config.json": "{"}, (), "genai_config.json"),
    ({}, ("--tool-call-parser", "klingon"), "unknown tool_call_format: klingon"),
    ({}, ("--format", "Hermse"), "unknown tool_call_format: Hermse; near it: hermes; `tenon formats`"),
    ({"special_tokens_map.json": {"start_function_call": "<c>"}}, ("--format", "functiongemma"), "missing required tokens"),
]


@pytest.mark.parametrize(("files", "options", "said"), REFUSED, ids=["config", "json", "option", "near", "tokens"])
def test_export_refuses(tmp_path, files, options, said):
    run = tenon("export", model_folder(tmp_path, "m", files), tmp_path / "out", *options)
    assert run.returncode == 3 and said in run.stderr


def test_a_flag_goes_before_the_configuration(tmp_path):
    folder = model_folder(tmp_path, "m", {"genai_config.json": {"tool_call_format": "json", "search": 5}})
    assert tenon("export", folder, folder, "--tool-call-parser", "hermes").returncode == 0
    assert json.loads((folder / "genai_config.json").read_text()) == {"tool_call_format": "hermes", "search": 5,
                                                                     "model_type": "generator"}


def test_formats_are_shown():
    table = tenon("formats").stdout
    assert re.search(r"^hermes +parallel +<tool_call>", table, re.M) and "also: " in table
    shown = json.loads(tenon("formats", "show", "qwen2.5", "--json", "--to", "lark").stdout)
    assert shown["name"] == "hermes" and shown["call"].startswith("<tool_call>") and "start:" in shown["grammar"]
    assert tomllib.loads(tenon("formats", "show", "hermes", "--part", "definition").stdout)["name"] == "hermes"
    for part in ("# A call", "# Two calls", "# Grammar", "# Definition"):
        assert part in tenon("formats", "show", "hermes").stdout
    refused = tenon("formats", "show", "klingon")
    assert refused.returncode == 3 and "unknown tool_call_format: klingon" in refused.stderr


CALLS = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
         "{%- if loop.first %}<acts>{% endif %}<act>{{ c.function.name }}<args>{{ c.function.arguments | tojson }}</act>"
         "{%- if loop.last %}</acts>{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")


def test_an_unknown_format_is_proposed(tmp_path):
    source = tmp_path / "mine.jinja"
    source.write_text(CALLS)
    assert "no known format reads" in tenon("inspect", source).stdout
    proposed = tenon("inspect", "--propose", source)
    assert proposed.returncode == 0, proposed.stderr
    (syntax,) = tomllib.loads(proposed.stdout)["syntax"]
    assert syntax == {"open": "<acts>", "call": "<act>${name}<args>${arguments}</act>", "close": "</acts>"}
    assert tomllib.loads(proposed.stdout)["name"] == "proposed"
    source.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    refused = tenon("inspect", "--propose", source)
    assert refused.returncode == 1 and "writes no calls" in refused.stderr


def test_a_text_is_no_template(tmp_path):
    source = tmp_path / "notes.txt"
    source.write_text("Weather in Paris?")
    for command in (("inspect", source), ("inspect", "--propose", source), ("render", "--template", source)):
        refused = tenon(*command)
        assert refused.returncode == 3 and f"{source} is no chat template" in refused.stderr


def test_a_file_without_a_response_template_says_so(tmp_path):
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "x"}')
    refused = tenon("formats", "import", config)
    assert refused.returncode == 3 and f"{config}: there is no response_template" in refused.stderr


def test_a_response_template_is_imported(tmp_path):
    config = tmp_path / "tokenizer_config.json"
    calls = {"open": "<tool_call>", "close": "</tool_call>", "content": "json", "repeats": True,
             "transform": {"type": "function", "function": {"name": "{content.name}", "arguments": "{content.arguments}"}}}
    config.write_text(json.dumps({"response_template": {"start_anchor": "a", "fields": {"content": {}, "tool_calls": calls}}}))
    imported = tenon("formats", "import", config, "--name", "mine")
    assert imported.returncode == 0, imported.stderr
    definition = tomllib.loads(imported.stdout)
    found = json.loads(tenon("inspect", tmp_path, "--json").stdout)
    assert found["decided_by"] == "response_template" and found["format"] == "response_template"
    assert definition["name"] == "mine" and definition["syntax"][0]["call"] == "<tool_call>${-}${object}${-}</tool_call>"
    config.write_text(json.dumps({"response_template": {"fields": {"tool_calls": {"open": "<t>", "content": "kv-lines"}}}}))
    refused = tenon("formats", "import", config)
    assert refused.returncode == 3 and "fields.tool_calls.content" in refused.stderr
    calls["open"] = ["<call", "x<call>"]
    config.write_text(json.dumps({"fields": {"tool_calls": calls}}))
    refused = tenon("formats", "import", config)
    assert refused.returncode == 3 and "the marker '<call' lies inside 'x<call>'" in refused.stderr


def test_the_grammar_of_calls_is_printed():
    tools = str(ROOT / "examples" / "tools.json")
    for to, begin in (("gbnf", "root ::="), ("ebnf", "root ::="), ("lark", "start:")):
        shown = tenon("grammar", "--tools", tools, "--format", "hermes", "--to", to)
        assert shown.returncode == 0 and begin in shown.stdout and "<tool_call>" in shown.stdout
    names = {tool["function"]["name"] for tool in json.loads((ROOT / "examples" / "tools.json").read_text())}
    one = sorted(names)[0]
    named = tenon("grammar", "--tools", tools, "--format", "hermes", "--tool-choice", one, "--json")
    assert [name for name in names if name in json.loads(named.stdout)["grammar"]] == [one]
    for options, code, said in ((["--tools", tools], 2, "name the --format"),
                                (["--tools", tools, "--format", "klingon"], 3, "unknown tool_call_format: klingon"),
                                (["--tools", tools, "--format", "hermes", "--syntax", "gbnf"], 2, "--syntax")):
        refused = tenon("grammar", *options)
        assert refused.returncode == code and said in refused.stderr
