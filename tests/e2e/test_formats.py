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
WORDS = {"react"}
# Sources in which names of tokenizers, as GGUF files spell them, happen to be those of formats.
TABLES = {"gguf_patterns.cc", "gguf_tokenizer.cc"}


def names():
    """Names and aliases of the formats, but for short ones and words."""
    found = set()
    for path in (ROOT / "formats").glob("*.toml"):
        definition = tomllib.loads(path.read_text())
        found |= {definition["name"], *definition.get("aliases", [])}
    assert len(found) > 40, "formats/*.toml are not where this test looks for them"
    return {name for name in found if len(name) > 4 and name not in WORDS}


def test_no_source_names_a_format():
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names())))
    sources = [path for ending in ("*.cc", "*.h") for path in (ROOT / "src").rglob(ending)]
    assert len(sources) > 50, "src/ is not where this test looks for it"
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(sources)
        if not path.name.endswith("_test.cc") and path.name not in TABLES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line) and not line.lstrip().startswith("//")
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
    ({"special_tokens_map.json": {"start_function_call": "<c>"}}, ("--format", "functiongemma"), "missing required tokens"),
]


@pytest.mark.parametrize(("files", "options", "said"), REFUSED, ids=["config", "json", "option", "tokens"])
def test_export_refuses(tmp_path, files, options, said):
    run = tenon("export", model_folder(tmp_path, "m", files), tmp_path / "out", *options)
    assert run.returncode == 3 and said in run.stderr


def test_a_flag_goes_before_the_configuration(tmp_path):
    folder = model_folder(tmp_path, "m", {"genai_config.json": {"tool_call_format": "json", "search": 5}})
    assert tenon("export", folder, folder, "--tool-call-parser", "hermes").returncode == 0
    assert json.loads((folder / "genai_config.json").read_text()) == {"tool_call_format": "hermes", "search": 5,
                                                                     "model_type": "generator"}
