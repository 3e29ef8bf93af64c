"""The clients that people use, each in an environment of its own, through what docs/clients says of it: the loop of a
question, a call, its result and an answer, streamed and not. scripts/setup.sh makes the environments."""
import os
import sys

import pytest
from agents import CLIENTS, ENVIRONMENTS, run
from scripted_upstream import call, serving_script

PYTHON = [("langchain-openai", "check_langchain.py"), ("pydantic-ai", "check_pydantic_ai.py"),
          ("instructor", "check_instructor.py"), ("openai-agents", "check_openai_agents.py")]
long = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy clients: TENON_LONG")


def run_python(name, script, url, **variables):
    python = ENVIRONMENTS / name / "bin" / "python"
    assert python.exists(), f"{name} is not installed: scripts/setup.sh clients-long"
    return run([python, CLIENTS / script], CLIENTS, url, **variables)


# Calls that are demanded, and what fits a schema, come from the bundled model; loops, in which a model has to choose, from one that is
# played.


def test_pages_of_the_official_sdks(server, played):
    """Those for Node run with their other tests (test_node_sdks)."""
    run([sys.executable, CLIENTS / "check_sdks.py"], CLIENTS, server.url, TENON_SCRIPTED=played.url)


@pytest.mark.parametrize("name,script", PYTHON, ids=[name for name, _ in PYTHON])
def test_python_client(server, played, name, script):
    run_python(name, script, server.url, TENON_SCRIPTED=played.url)


def test_ai_sdk(server, played):
    run(["node", "--test", "--test-reporter=tap"], CLIENTS / "ai-sdk", server.url, TENON_SCRIPTED=played.url)


@long
def test_llama_index(server, played):
    run_python("llama-index", "check_llama_index.py", server.url, TENON_SCRIPTED=played.url)


@long
def test_crewai(server, tmp_path):
    def script(prompt):
        if "<tool_response>" not in prompt:
            return call("get_weather", {"location": "Ljubljana"})
        return "It is 18 degrees and cloudy." if "cloudy" in prompt.split("<tool_response>")[1] else "Nobody knows."

    with serving_script(tmp_path, script) as (scripted, _):
        run_python("crewai", "check_crewai.py", server.url, TENON_SCRIPTED=scripted.url, HOME=str(tmp_path))
