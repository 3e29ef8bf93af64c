"""The servers of tools by the protocol's own project, as peers of Tenon's client: `tenon mcp tools` and `tenon mcp call`."""
import json
import os
import pathlib
import subprocess

import pytest
from serving import ROOT, TENON

VENV = pathlib.Path(os.environ.get("TENON_VENV", ROOT / ".venv"))
NODE = ROOT / "tests/e2e/clients/mcp-servers/node_modules/.bin"
PYTHON = VENV / "clients/mcp-servers/bin"

pytestmark = pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="heavy peers: TENON_LONG")


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)


# What starts each server, its number of tools at least, and a call with what its result has.
PEERS = {
    "everything": (lambda folder: [NODE / "mcp-server-everything", "stdio"], 8, "get-sum", {"a": 2, "b": 40}, "42"),
    "filesystem": (lambda folder: [NODE / "mcp-server-filesystem", folder], 10, "read_text_file", {"path": "{folder}/note.txt"},
                   "buy milk"),
    "memory": (lambda folder: [NODE / "mcp-server-memory"], 5, "create_entities",
               {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]}, "Ada"),
    "time": (lambda folder: [PYTHON / "mcp-server-time", "--local-timezone", "UTC"], 2, "convert_time",
             {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}, "T00:30"),
    "git": (lambda folder: [PYTHON / "mcp-server-git", "--repository", folder], 8, "git_log", {"repo_path": "{folder}"}, "the first"),
    "fetch": (lambda folder: [PYTHON / "mcp-server-fetch", "--ignore-robots-txt"], 1, "fetch", {"url": "http://127.0.0.1:9/"}, None),
}


@pytest.mark.parametrize("name", PEERS)
def test_an_official_server_is_understood(name, tmp_path):
    command, least, tool, arguments, said = PEERS[name]
    (tmp_path / "note.txt").write_text("buy milk\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "the first")
    words = [str(word) for word in command(tmp_path)]
    assert pathlib.Path(words[0]).exists(), f"{words[0]} is missing: scripts/setup.sh clients-long"
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {name: {
        "command": words[0], "args": words[1:], "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl"), "PATH": os.environ["PATH"]}}}}))
    listed = subprocess.run([TENON, "mcp", "tools", name, "--mcp", str(config), "--json"], capture_output=True, text=True, timeout=120)
    assert listed.returncode == 0, listed.stderr
    tools = [json.loads(line) for line in listed.stdout.splitlines()]
    assert len(tools) >= least and tool in [one["name"] for one in tools], listed.stdout
    given = json.dumps(arguments).replace("{folder}", str(tmp_path))
    called = subprocess.run([TENON, "mcp", "call", name, tool, given, "--mcp", str(config)], capture_output=True, text=True, timeout=120)
    if said is None:  # no network is needed to see that a failure comes as one
        assert called.returncode == 1 and "127.0.0.1:9" in called.stdout + called.stderr, called.stderr
    else:
        assert called.returncode == 0 and said in called.stdout, called.stdout + called.stderr
