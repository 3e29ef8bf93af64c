"""Formats are data: the sources know none of them by name."""
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Names of formats that are words with a meaning of their own in the sources.
WORDS = {"react"}
# Tables whose rows happen to be called like formats: names of pre-tokenizers, as GGUF files spell them.
TABLES = {"gguf_patterns.cc"}


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
