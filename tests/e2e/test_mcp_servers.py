"""Servers of tools as peers of Tenon's client, `tenon mcp tools` and `tenon mcp call`: those of the protocol's own project, and one of
FastMCP over HTTP, with and without a login."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time

import pytest
from serving import ROOT, TENON, free_port

VENV = pathlib.Path(os.environ.get("TENON_VENV", ROOT / ".venv"))
NODE = ROOT / "tests/e2e/clients/mcp-servers/node_modules/.bin"
PYTHON = VENV / "clients/mcp-servers/bin"
FASTMCP = VENV / "clients/fastmcp/bin/python"
# Goes to the address of a login, and on to where it is sent.
BROWSER = ROOT / "tests/e2e/clients/mcp-conformance/browser.py"

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


@contextlib.contextmanager
def fastmcp(folder, *arguments):
    assert FASTMCP.exists(), f"{FASTMCP} is missing: scripts/setup.sh clients-long"
    port = free_port()
    process = subprocess.Popen([FASTMCP, ROOT / "tests/e2e/clients/fastmcp_server.py", str(port), *arguments], cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"town": {"url": f"http://127.0.0.1:{port}/mcp"}}}))

        def tenon(*words):
            return subprocess.run([TENON, "mcp", *words, "--mcp", str(folder / "mcp.json")], capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "BROWSER": str(BROWSER)})

        yield tenon
    finally:
        process.kill()
        process.wait(timeout=15)


def check_town(tenon):
    listed = tenon("tools", "town", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [json.loads(line)["name"] for line in listed.stdout.splitlines()] == ["add", "book", "fail"]
    added = tenon("call", "town", "add", '{"a": 41}', "--json")
    assert added.returncode == 0 and '"sum":42' in added.stdout.replace(" ", ""), added.stdout + added.stderr
    booked = tenon("call", "town", "book", '{"city": "Rome"}')
    assert (booked.returncode, booked.stdout) == (0, "a table in Rome\n"), booked.stderr
    wrong = tenon("call", "town", "add", '{"a": "x"}')
    failed = tenon("call", "town", "fail", "{}")
    assert wrong.returncode == failed.returncode == 1 and "out of cheese" in failed.stdout + failed.stderr


def test_a_server_of_fastmcp_is_understood(tmp_path):
    with fastmcp(tmp_path) as tenon:
        check_town(tenon)


def test_a_server_of_fastmcp_that_wants_a_login(tmp_path):
    with fastmcp(tmp_path, "login") as tenon:
        before = tenon("tools", "town")
        login = tenon("login", "town")
        assert login.returncode == 0, login.stderr
        kept = tmp_path / "state/tenon/mcp-tokens.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        (grant,) = json.loads(kept.read_text())["grants"].values()
        check_town(tenon)
        logout = tenon("logout", "town")
        after = tenon("tools", "town")
    for refused in (before, after):
        assert refused.returncode == 4 and "tenon mcp login town" in refused.stderr, refused.stderr
    assert logout.returncode == 0
    secrets = [value for name, value in grant.items() if name.endswith(("token", "secret")) and isinstance(value, str) and value]
    assert secrets, grant.keys()
    for run in (before, login, logout, after):
        assert not [secret for secret in secrets if secret in run.stdout + run.stderr]
