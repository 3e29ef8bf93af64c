"""`tenon mcp tools`, `call`, `login`, and a user who is asked, at servers of the official SDK."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_upstream import call
from serving import TENON, free_port
from test_tools import model, results, servers, terminal

HERE = Path(__file__).parent
BROWSER = HERE / "clients" / "mcp-conformance" / "browser.py"


def mcp(command, name, *words, file, timeout_s=60, **environment):
    return subprocess.run([TENON, "mcp", command, name, *words, "--mcp", str(file), "--timeout", str(timeout_s)], text=True,
                          env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, timeout=90)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_tools_are_listed_and_called_without_a_model(transport, tmp_path):
    with servers(transport, tmp_path) as path:
        listed = mcp("tools", "weather", "--json", file=path)
        weather = mcp("call", "weather", "get_weather", '{"location": "Bled"}', file=path)
        added = mcp("call", "weather", "add", '{"a": 1}', "--json", file=path)
        failed = mcp("call", "weather", "fail", file=path)
        nowhere = mcp("tools", "wheather", file=path)
    tools = {tool["name"]: tool for tool in map(json.loads, listed.stdout.splitlines())}
    assert tools["add"]["inputSchema"]["required"] == ["a"], listed.stderr
    assert (weather.stdout, weather.returncode) == ("heavy rain in Bled\n", 0), weather.stderr
    assert json.loads(added.stdout)["structured"] == {"sum": 3}
    assert (failed.returncode, "fail" in failed.stdout) == (1, True)
    assert (nowhere.returncode, "has no server 'wheather'; it has weather" in nowhere.stderr) == (3, True)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_gets_answers_and_their_defaults(transport, tmp_path):
    with servers(transport, tmp_path) as path:
        answered = mcp("call", "weather", "reserve", '{"city": "Bled"}', "--answers", '{"name": "Ada"}', file=path)
        declined = mcp("call", "weather", "reserve", '{"city": "Bled"}', file=path)
    assert answered.stdout == "a table in Bled for Ada and 1 more\n", answered.stderr
    assert declined.returncode != 0 and "a table" not in declined.stdout


def test_a_server_asks_the_user_at_the_terminal(tmp_path):
    def script(prompt):
        return "Done." if prompt.rstrip().endswith("assistant") and "<tool_response>" in prompt else call("reserve", {"city": "Bled"})

    with servers("stdio", tmp_path) as path, model(tmp_path, script) as (config, upstream), \
            terminal("--config", str(config), "--mcp", str(path), "--yes", "--tool-timeout", "3") as screen:
        screen.expect("> ")
        screen.type("Go!")
        assert "weather asks: For whom?" in screen.expect("[n]o: ")
        screen.type("y")
        screen.expect("name")
        time.sleep(3.5)  # the user's time is not the tool's
        screen.type("Ada")
        screen.expect("[2]: ")
        screen.type("many")
        assert "It does not fit" in screen.expect("[n]o: ")
        screen.type("y")
        screen.expect("name")
        screen.type("Ada")
        screen.expect("[2]: ")
        screen.type("3")
        screen.expect("Done.")
    assert results(upstream.prompts[-1]) == ["a table in Bled for Ada and 2 more"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_prompts_and_resources_are_used_in_a_chat(transport, tmp_path):
    lines = ["/prompts", "/prompt weather:forecast city=Bled Castle days=5", "/resources", "Swim @weather:climate://bled ?",
             "/prompt weather:nothing", "See @weather:climate://nowhere", "Mail me@weather:x"]
    with servers(transport, tmp_path) as path, model(tmp_path, lambda prompt: "Done.") as (config, upstream):
        run = subprocess.run([TENON, "chat", "--config", str(config), "--mcp", str(path), "--yes"], text=True,
                             input="\n".join(lines) + "\n", capture_output=True, timeout=90)
    assert "  weather:forecast city=... [days=...]  Asks for a forecast" in run.stdout, run.stderr
    assert "  @weather:climate://bled  The climate of Bled" in run.stdout
    asked = [prompt.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0] for prompt in upstream.prompts]
    assert asked == ["What will the weather be in Bled Castle for 5 days?",
                     "Swim @weather:climate://bled ?\n\n[climate://bled of weather, as it was read:]\nMild, with a lake.",
                     "See @weather:climate://nowhere", "Mail me@weather:x"]


def test_a_model_reads_resources_by_tools(tmp_path):
    def script(prompt):
        told = results(prompt)
        return [call("list_resources", {}), call("read_resource", {"server": "weather", "uri": "climate://bled"}),
                call("read_resource", {"server": "none", "uri": "x"}), "Done."][len(told)]

    with servers("stdio", tmp_path) as path, model(tmp_path, script) as (config, upstream):
        subprocess.run([TENON, "chat", "--config", str(config), "--mcp", str(path), "--yes", "--resources"], text=True,
                       input="Go!\n", capture_output=True, timeout=90, check=True)
    listed, text, refused = results(upstream.prompts[-1])
    assert listed == "weather climate://bled The climate of Bled"
    assert text == "Mild, with a lake."
    assert refused.startswith("Error") and "there is no server" in refused


@contextlib.contextmanager
def vault(folder):
    """The file of mcpServers with a server that wants a login."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(HERE / "login_server.py"), str(port)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        path = folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": {"vault": {"url": f"http://127.0.0.1:{port}/mcp"}}}))
        yield path
    finally:
        process.kill()
        process.wait(timeout=15)


def test_a_login_lasts_and_no_output_has_its_tokens(tmp_path):
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "BROWSER": str(BROWSER)}
    kept = tmp_path / "state" / "tenon" / "mcp-tokens.json"
    with vault(tmp_path) as path:
        before = mcp("call", "vault", "secret", file=path, **state)
        login = mcp("login", "vault", file=path, **state)
        assert login.returncode == 0, login.stderr
        assert kept.stat().st_mode & 0o777 == 0o600
        tokens = json.loads(kept.read_text())["grants"]
        first = mcp("call", "vault", "secret", file=path, **state)
        renewed = mcp("call", "vault", "secret", file=path, **state)
        assert json.loads(kept.read_text())["grants"] != tokens
        # A second login that is not completed takes nothing away.
        given_up = mcp("login", "vault", "--no-browser", file=path, timeout_s=3, **state)
        assert given_up.returncode == 4, given_up.stderr
        still = mcp("call", "vault", "secret", file=path, **state)
        with model(tmp_path, lambda prompt: "Done." if "<tool_response>" in prompt else call("secret", {})) as (config, upstream):
            talk = subprocess.run([TENON, "chat", "--config", str(config), "--mcp", str(path), "--yes"], input="Go!\n",
                                  env={**os.environ, **state}, capture_output=True, text=True, timeout=90)
        kept.chmod(0o644)
        open_file = mcp("tools", "vault", file=path, **state)
        kept.chmod(0o600)
        logout = mcp("logout", "vault", file=path, **state)
        after = mcp("tools", "vault", file=path, **state)
    for refused in (before, after):
        assert refused.returncode == 4 and "tenon mcp login vault" in refused.stderr, refused.stderr
    for told in (first, renewed, still):
        assert told.stdout == "the owl flies at noon\n", told.stderr
    assert results(upstream.prompts[-1]) == ["the owl flies at noon"], talk.stderr
    assert "chmod 600" in open_file.stderr
    assert logout.returncode == 0 and json.loads(kept.read_text())["grants"] == {}
    for run in (before, login, first, renewed, given_up, still, talk, open_file, logout, after):
        assert "access-" not in run.stdout + run.stderr and "refresh-" not in run.stdout + run.stderr
