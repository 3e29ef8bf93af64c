"""The adapters of agent frameworks, each against its framework's release, in that framework's own environment."""
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
from serving import ROOT

CLIENTS = ROOT / "tests" / "e2e" / "clients"
ENVIRONMENTS = pathlib.Path(sys.prefix) / "clients"
long = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy frameworks: TENON_LONG")


@pytest.fixture(scope="module")
def package(wheel, tmp_path_factory):
    """The wheel, unpacked: the environments are those of other tests, and stay as they are."""
    folder = tmp_path_factory.mktemp("package")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def check(package, folder, environment, script):
    python = ENVIRONMENTS / environment / "bin" / "python"
    assert python.exists(), f"{environment} is not installed: scripts/setup.sh clients-long"
    run(python, package, folder, script)


def run(python, package, folder, script):
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "TENON_MODEL"))}
    done = subprocess.run([str(python), str(CLIENTS / script)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
                          env={**variables, "PYTHONPATH": os.pathsep.join([str(package), str(CLIENTS), *filter(None, [os.environ.get("PYTHONPATH")])]), "HOME": str(folder),
                               "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_langchain(package, tmp_path):
    check(package, tmp_path, "langchain-openai", "in_process_langchain.py")


@long
def test_llama_index(package, tmp_path):
    check(package, tmp_path, "llama-index", "in_process_llama_index.py")


@long
def test_crewai(package, tmp_path):
    check(package, tmp_path, "crewai", "in_process_crewai.py")


@long
@pytest.mark.parametrize("framework", ["vllm", "sglang"])
def test_servers(package, tmp_path, framework):
    """Their packages and PyTorch are gigabytes, so they are in no requirements file: a Python that has them is named."""
    python = os.environ.get("PYTHON_PEERS_PYTHON")
    if not python:
        pytest.skip(f"tenon.{framework} is NOT tested: PYTHON_PEERS_PYTHON names no Python with {framework}")
    run(python, package, tmp_path, f"in_process_{framework}.py")
