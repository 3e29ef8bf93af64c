"""What the bundled model is trained and judged on: its tools can be read, its sets keep their form, and neither holds the other.

The generator needs WordNet (scripts/setup.sh train), so what it makes is held against the blind set by training/train.sh.
"""
import json
import re
import subprocess
import sys

import pytest
from serving import ROOT

TRAINING = ROOT / "training"
sys.path.append(str(TRAINING))
import check_sets  # noqa: E402
import corpus  # noqa: E402

TOOLS = sorted((TRAINING / "tools").glob("*.txt"))


def run(*arguments, **more):
    return subprocess.run([sys.executable, *arguments], cwd=TRAINING, text=True, capture_output=True, timeout=60, **more)


def test_sets_are_well_formed():
    done = run("check_sets.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_tools_can_be_read():
    assert TOOLS
    done = run("corpus.py", *map(str, TOOLS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d{3,} tools, \d{4,} requests", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize(("line", "wrong"), [
    ("> a request without its value", "wants each of ['city'] once"),
    ("> {city} and {town}", "wants each of ['city'] once"),
    ("!town What now?", "no required parameter"),
    ("!city", "!city has no request"),
    ("- of : enum:one : The kind", "at least two values"),
    ("- of : switch:on : The kind", "WORDS,WORDS"),
    ("- of : switch:,off : The kind", "WORDS,WORDS"),
    ("- of : sizes : The kind", "no such kind"),
    ("- of : int:3..1 : The kind", "LOW..HIGH"),
    ("? of : city : A place", "keys : kind : descriptions : tails"),
    ("? of : city : A place : nearby", "wants one {}"),
    ("< {temperature} degrees", "neither a field nor a required parameter"),
    ("what is this", "no line begins with w"),
])
def test_a_malformed_tool_is_named_with_its_place(tmp_path, line, wrong):
    path = tmp_path / "tools.txt"
    path.write_text(f"[weather/now] get_weather\n: Weather\n- city : city : The city\n> Weather in {{city}}\n{line}\n")
    done = run("corpus.py", str(path))
    assert done.returncode == 1
    assert wrong in done.stdout
    assert done.stdout.startswith((f"{path}:5: ", f"{path}:1: "))  # the line, or the block's first


@pytest.mark.parametrize(("block", "wrong"), [
    ("", "0 tools"),
    ("[weather/now] get_weather\n: Weather\n> Weather here\n~ nothere\n", "no such tool: nothere (~ of get_weather)"),
])
def test_a_page_that_is_of_no_use_is_an_error(tmp_path, block, wrong):
    path = tmp_path / "tools.txt"
    path.write_text(block)
    done = run("corpus.py", str(path))
    assert done.returncode == 1 and wrong in done.stdout, done.stdout


def words_of(text):
    return re.sub(r"\W+", " ", text).strip().lower()


def test_no_sentence_of_the_blind_set_is_among_the_requests():
    said = set()  # words only, as the templates' are below
    for row in map(json.loads, (TRAINING / "sets" / "blind.jsonl").read_text().splitlines()):
        said |= {words_of(message["content"]) for message in row["messages"] if message["role"] == "user"}
    text = "\n".join(sorted(said))
    for path in TOOLS:
        for template in re.findall(r"^(?:>|!\w+) *(.*)$", path.read_text(), re.MULTILINE):
            # What a slot takes is any text, so short templates would match much that is nothing like them.
            parts = [re.escape(words_of(part)) for part in re.split(r"\{\w+\}", template)]
            if sum(len(part.split()) for part in parts) > 4 and re.search("^" + ".+".join(parts) + "$", text, re.MULTILINE):
                pytest.fail(f"{path.name}: {template}", pytrace=False)  # the text must stay unread, so it is not shown


def test_no_name_of_the_blind_set_is_among_those_of_the_tools():
    """The generator would leave one out (`generator.barred`), so it would be there for nothing."""
    blind = {check_sets.same_name(name) for name in check_sets.names_of(check_sets.read_set("blind"))}
    assert len(blind) > 100
    for path in TOOLS:
        for intent in corpus.read(path):
            names = intent.names + [key for param in intent.params for key in param.keys]
            assert not [name for name in names if check_sets.same_name(name) in blind], path.name
