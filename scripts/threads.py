#!/usr/bin/env python3
"""scripts/threads.py: writes docs/threads.md from the rows of src/tenon/*/threads_test.cc, each of
which is named after a thread of another project. With --check it writes nothing and fails if the
page is not what it would write: the test build.threads."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "threads.md"

# Where a project's threads are.
OWNERS = {
    "AISVS": "OWASP",
    "LocalAI": "mudler",
    "Qwen-Agent": "QwenLM",
    "Qwen3": "QwenLM",
    "Qwen3-Coder": "QwenLM",
    "QwenPaw": "agentscope-ai",
    "Rapid-MLX": "raullenchai",
    "agent-zero": "agent0ai",
    "autogen": "microsoft",
    "d-inference": "Layr-Labs",
    "dynamo": "ai-dynamo",
    "exo": "exo-explore",
    "gemma": "google-deepmind",
    "hermes-agent": "NousResearch",
    "langchain": "langchain-ai",
    "langchain-oracle": "oracle",
    "litellm": "BerriAI",
    "llama.cpp": "ggml-org",
    "llama_index": "run-llama",
    "llguidance": "guidance-ai",
    "lmdeploy": "InternLM",
    "lmstudio-bug-tracker": "lmstudio-ai",
    "mistral-common": "mistralai",
    "mistral-vibe": "mistralai",
    "mlx-lm": "ml-explore",
    "mlx-openai-server": "cubist38",
    "mlx-vlm": "Blaizzy",
    "odysseus": "odysseus-dev",
    "ollama": "ollama",
    "ollama-ai-provider": "sgomez",
    "ollama-python": "ollama",
    "ollama-vscode": "ollama",
    "omlx": "jundot",
    "openclaw": "openclaw",
    "quarkus-langchain4j": "quarkiverse",
    "renderers": "PrimeIntellect-ai",
    "sglang": "sgl-project",
    "smg": "smg-project",
    "smolagents": "huggingface",
    "subwave": "",
    "tabbyAPI": "theroyallab",
    "text-generation-inference": "huggingface",
    "transformers": "huggingface",
    "unsloth": "unslothai",
    "vllm": "vllm-project",
    "vllm-mlx": "waybarrios",
    "vmlx": "jjang-ai",
    "xgrammar": "mlc-ai",
}
STRING = r'"(?:[^"\\]|\\.)*"'
ROW = re.compile(
    rf'{{\s*(?:\.thread = )?"([\w./-]+#\d+)",\s*(?:\.what =\s*)?({STRING}(?:\s*{STRING})*)'
)

HEAD = """# Bugs of others

Threads of other projects in which users reported that calls were lost, garbled or refused, or that
a schema ended a server. Each is a row of a test here: the smallest text, schema or conversation
that shows what was reported, written anew, and what must come of it. Texts are read whole, byte by
byte, and cut in two at every place.

`scripts/threads.py` writes this page from the tests' rows, and the test `build.threads` fails when
it differs from them.
"""


def rows(source: str):
    for thread, what in ROW.findall(source):
        text = "".join(part[1:-1] for part in re.findall(STRING, what))
        yield thread, re.sub(r"\\(.)", r"\1", text)


def link(thread: str) -> str:
    project, number = thread.rsplit("#", 1)
    owner, _, name = project.rpartition("/")
    if not owner:
        if project not in OWNERS:
            sys.exit(f"scripts/threads.py: whose project is {project}? Add it to OWNERS.")
        owner = OWNERS[project]
    return f"[{thread}](https://github.com/{owner}/{name}/issues/{number})" if owner else thread


def page() -> str:
    sections, threads, count = [], set(), 0
    for path in sorted(ROOT.glob("src/tenon/*/threads_test.cc")):
        found = list(rows(path.read_text()))
        if not found:
            sys.exit(f"{path}: no row was found")
        threads.update(thread for thread, _ in found)
        count += len(found)
        lines = [
            f"| {link(thread)} | {what.replace('|', chr(92) + '|')} |" for thread, what in found
        ]
        sections.append(
            f"\n## `{path.relative_to(ROOT)}`\n\n| thread | what was reported |\n|---|---|\n"
            + "\n".join(lines)
            + "\n"
        )
    return HEAD + f"\n{len(threads)} threads, {count} rows.\n" + "".join(sections)


def main():
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit("docs/threads.md is not what the tests hold: run scripts/threads.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
