"""The clients that people use, each in an environment of its own, through what docs/clients says of it: the loop of a
question, a call, its result and an answer, streamed and not. scripts/setup.sh makes the environments."""
import os
import pathlib
import subprocess
import sys

import pytest
from serving import ROOT

CLIENTS = ROOT / "tests" / "e2e" / "clients"
ENVIRONMENTS = pathlib.Path(sys.prefix) / "clients"
PYTHON = [("langchain-openai", "check_langchain.py"), ("pydantic-ai", "check_pydantic_ai.py"),
          ("instructor", "check_instructor.py"), ("openai-agents", "check_openai_agents.py")]


def run(command, folder, url, timeout=300, **variables):
    """What the command says; it must succeed."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**os.environ, "TENON_URL": url, **variables},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_python(name, script, url, **variables):
    python = ENVIRONMENTS / name / "bin" / "python"
    assert python.exists(), f"{name} is not installed: scripts/setup.sh clients"
    return run([python, CLIENTS / script], CLIENTS, url, **variables)


def test_pages_of_the_official_sdks(server):
    """Those for Node run with their other tests (test_node_sdks)."""
    run([sys.executable, CLIENTS / "check_sdks.py"], CLIENTS, server.url)


@pytest.mark.parametrize("name,script", PYTHON, ids=[name for name, _ in PYTHON])
def test_python_client(server, name, script):
    run_python(name, script, server.url)


def test_ai_sdk(server):
    run(["node", "--test", "--test-reporter=tap"], CLIENTS / "ai-sdk", server.url)
