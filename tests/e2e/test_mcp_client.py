"""`tenon mcp tools`, `call`, `login`, and a user who is asked, at servers of the official SDK."""
import contextlib
import json
import os
import signal
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


def mcp(command, *words, file, timeout_s=60, **environment):
    limit = ["--timeout", str(timeout_s)] if command in ("tools", "call", "login") and timeout_s else []
    return subprocess.run([TENON, "mcp", command, *words, "--mcp", str(file), *limit], text=True,
                          env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, timeout=90)


def write_servers(folder, **servers):
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def program(code):
    """The entry of a server whose program is `code`; `say` writes a message, and lines are requests."""
    begin = "import json, sys\ndef say(**message): print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)\n"
    return {"command": sys.executable, "args": ["-I", "-S", "-c", begin + code]}


def offers(*tools, more=""):
    """A server of 2025-11-25 with these tools; `more` answers other requests, in Python."""
    return program(f"""
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=id, result={{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                           "serverInfo": {{"name": "x", "version": "1"}}}})
    elif method == "tools/list": say(id=id, result={{"tools": {list(tools)!r}}})
{more}
    elif id is not None and method: say(id=id, error={{"code": -32601, "message": "no"}})
""")


GOOD = {"name": "good", "description": "Works", "inputSchema": {"type": "object"}}
BAD = {"name": "bad", "description": "Is broken", "inputSchema": {"type": "objekt"}}


def test_a_faulty_entry_takes_only_itself(tmp_path):
    file = write_servers(tmp_path, broken={"command": 1}, unset={"url": "http://h/", "headers": {"X": "${TENON_NO_SUCH}"}},
                         off={"command": "x", "disabled": True}, works=offers(GOOD))
    tools = mcp("tools", "works", file=file)
    assert (tools.returncode, tools.stdout) == (0, "good  Works\n"), tools.stderr
    told = tools.stderr.splitlines()
    assert told == [f"tenon: {file}: mcpServers.broken: command must be a string",
                    f"tenon: {file}: mcpServers.unset: headers.X: the environment has no variable TENON_NO_SUCH: set it, or "
                    "give a text for its absence, as in ${TENON_NO_SUCH:-text}"]
    itself = mcp("tools", "broken", file=file)
    assert (itself.returncode, "mcpServers.broken: command must be a string" in itself.stderr) == (3, True)
    disabled = mcp("call", "off", "f", file=file)
    assert (disabled.returncode, "has the server 'off' with \"disabled\": true" in disabled.stderr) == (3, True)
    listed = mcp("list", file=file)
    assert listed.returncode == 1, listed.stderr
    lines = listed.stdout.splitlines()
    assert lines[0] == f"broken  faulty: {file}: mcpServers.broken: command must be a string"
    assert lines[2:] == ["off  disabled", f"works  {sys.executable}"]
    as_json = [json.loads(line) for line in mcp("list", "--json", file=file).stdout.splitlines()]
    assert [(one["name"], "fault" in one, one["disabled"]) for one in as_json] == \
        [("broken", True, False), ("unset", True, False), ("off", False, True), ("works", False, False)]
    file.write_text("{")
    assert mcp("list", file=file).returncode == 3


def test_a_chat_tells_faulty_entries_and_tools(tmp_path):
    works = {**offers(GOOD, BAD, {"name": "worse", "inputSchema": 5}), "disabledTools": ["baad"]}
    file = write_servers(tmp_path, broken={}, works=works)
    with model(tmp_path, lambda prompt: "Done.") as (config, upstream):
        run = subprocess.run([TENON, "chat", "--config", str(config), "--mcp", str(file), "--yes"], text=True,
                             input="/tools\nGo!\n", capture_output=True, timeout=90)
    assert run.returncode == 0, run.stderr
    assert "mcpServers.broken: it must have a command or a url, and not both (this server is left out)" in run.stderr
    for tool, why in (("bad", "its parameters: "), ("worse", "its inputSchema is no object"),
                      ("baad", "the server has no such tool, though disabledTools")):
        line = f'mcpServers.works: the tool "{tool}" is left out: {why}'
        assert run.stderr.count(line) == 1, run.stderr
        assert f"  not offered: {line}" in run.stdout
    assert "good" in upstream.prompts[-1] and "Is broken" not in upstream.prompts[-1]
    only_broken = write_servers(tmp_path, broken={})
    run = subprocess.run([TENON, "chat", "--mcp", str(only_broken), "--yes"], text=True, input="Go!\n", capture_output=True,
                         timeout=90)
    assert (run.returncode, "mcpServers.broken: it must have" in run.stderr) == (3, True)


def test_a_chat_tells_why_there_are_no_tools(tmp_path):
    away = program("sys.stderr.write('Trace:\\n  no luck\\n\\n'); sys.exit(3)")
    file = write_servers(tmp_path, away=away, works={**offers(GOOD), "includeTools": ["goood"]})
    with model(tmp_path, lambda prompt: "Done.") as (config, _):
        run = subprocess.run([TENON, "chat", "--config", str(config), "--mcp", str(file), "--yes"], text=True, input="/tools\n",
                             capture_output=True, timeout=90)
    assert run.returncode == 0, run.stderr
    assert "There are no tools:\n" in run.stdout
    assert "  away: away has ended, exit status 3; it said: Trace:; no luck\n" in run.stdout
    assert "  works: it has no tools, or all of them are left out" in run.stdout
    assert "it said: Trace:; no luck: its tools are left out" in run.stderr


def test_tools_that_are_not_offered_are_marked(tmp_path):
    again = {**GOOD, "description": "Again"}
    works = offers(GOOD, BAD, {"name": "worse", "inputSchema": 5}, {"inputSchema": {}}, again)
    file = write_servers(tmp_path, works={**works, "disabledTools": ["baad"]})
    listed = mcp("tools", "works", file=file)
    assert listed.stdout == "good  Works\nbad  [faulty]  Is broken\nworse  [faulty]\n(without a name)  [faulty]\n" \
        "good  [faulty]\n", listed.stderr
    assert 'the tool "good" is left out: a tool before it in the list has the same name' in listed.stderr
    assert listed.stderr.count('"baad"') == 1 and "the server has no such tool, though disabledTools" in listed.stderr
    assert 'the tool "bad" is left out: its parameters: ' in listed.stderr
    assert 'the tool "worse" is left out: its inputSchema is no object' in listed.stderr
    as_json = [json.loads(line) for line in mcp("tools", "works", "--json", file=file).stdout.splitlines()]
    assert [(tool["name"], tool.get("fault", "")[:9]) for tool in as_json] == \
        [("good", ""), ("bad", "its param"), ("worse", "its input"), ("", "it has no"), ("good", "a tool be")]


def test_a_server_that_is_silent_is_named_and_given_up(tmp_path):
    file = write_servers(tmp_path, mute=program("for line in sys.stdin: pass"))
    begun = time.monotonic()
    run = mcp("tools", "mute", file=file, timeout_s=0)
    assert run.returncode == 4, run.stderr
    assert 29 < time.monotonic() - begun < 60
    assert run.stderr.startswith(f"tenon: waiting for mute of {file}, 60 s at most (--timeout)\n")
    quick = mcp("tools", "mute", file=file, timeout_s=1)
    assert quick.returncode == 4 and "waiting" not in quick.stderr


PIZZA = {"type": "object", "required": ["size"], "properties": {
    "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
    "people": {"type": "integer", "default": 2}}}
ORDERS = f"""
    elif method == "tools/call":
        say(id="ask", method="elicitation/create", params={{"message": "Which?", "requestedSchema": {PIZZA!r}}})
        answer = json.loads(sys.stdin.readline())["result"]
        say(id=id, result={{"content": [{{"type": "text", "text": json.dumps(answer)}}]}})
"""


def test_answers_are_checked_by_the_form(tmp_path):
    file = write_servers(tmp_path, pizza=offers(GOOD, more=ORDERS))
    right = mcp("call", "pizza", "good", "--answers", '{"size": "Medium", "sise": 1}', file=file)
    assert json.loads(right.stdout) == {"action": "accept", "content": {"size": "m", "people": 2}}, right.stderr
    assert right.stderr == 'tenon: --answers: pizza did not ask for "sise"\n'
    for given, told in (('{"size": "Large"}', '/size is "Large"'), ("{}", 'the value has no member "size"'),
                        ('{"size": "s", "people": "two"}', "/people is a string")):
        wrong = mcp("call", "pizza", "good", "--answers", given, file=file)
        assert (wrong.returncode, wrong.stdout) == (2, ""), wrong.stderr
        assert f"--answers does not fit what pizza asks, and was not sent: {told}" in wrong.stderr


def test_errors_are_json_too(tmp_path):
    file = write_servers(tmp_path, works=offers(GOOD))
    for words, status, told in ((["works", "good"], 4, "no"), (["nowhere", "good"], 3, "has no server"),
                                (["works", "good", "5"], 2, "must be an object")):
        run = mcp("call", *words, "--json", file=file)
        error = json.loads(run.stdout)["error"]
        assert (run.returncode, error["status"]) == (status, status), run.stderr
        assert told in error["message"] and error["message"] in run.stderr


@pytest.mark.parametrize("moment", ["question", "member", "call"])
def test_ctrl_c_has_its_own_status(moment, tmp_path):
    begun = tmp_path / "begun"
    waits = f"""
    elif method == "tools/call": open({str(begun)!r}, "w")
"""
    file = write_servers(tmp_path, s=offers(GOOD, more=waits if moment == "call" else ORDERS))
    with terminal("s", "good", "--mcp", str(file), command=("mcp", "call")) as screen:
        if moment == "call":
            deadline = time.monotonic() + 60
            while not begun.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        else:
            screen.expect("[n]o: ")
        if moment == "member":
            screen.type("y")
            screen.expect("Medium")
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(timeout=30) == 130


@pytest.mark.parametrize(("words", "told"), [
    (["chat", "--resources"], "--resources has no effect without --mcp"),
    (["chat", "--tool-timeout", "5"], "--tool-timeout has no effect without tools"),
    (["mcp", "--ask-timeout", "5"], "--ask-timeout has no effect without --folder"),
    (["mcp", "--config", "x.toml"], "--config has no effect without --folder"),
    (["mcp", "tools", "x", "--mcp", "y.json", "--http", "1"], "--http has no effect here"),
])
def test_an_option_without_effect_is_refused(words, told):
    run = subprocess.run([TENON, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (run.returncode, told in run.stderr) == (2, True), run.stderr


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
        assert "It does not fit" in screen.expect("[2]: ")  # only that member is asked for again
        screen.type("3")
        screen.expect("Done.")
    assert results(upstream.prompts[-1]) == ["a table in Bled for Ada and 2 more"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_prompts_and_resources_are_used_in_a_chat(transport, tmp_path):
    lines = ["/prompts", "/prompt weather:forecast city=Bled Castle days=5", "/resources",
             "Swim (@weather:climate://bled)?", "Mail me@weather:x"]
    with servers(transport, tmp_path) as path, model(tmp_path, lambda prompt: "Done.") as (config, upstream):
        words = [TENON, "chat", "--config", str(config), "--mcp", str(path), "--yes"]
        run = subprocess.run(words, text=True, input="\n".join(lines) + "\n", capture_output=True, timeout=90)
        lost, unknown, bare = (subprocess.run(words, text=True, input=f"{line}\nNext\n", capture_output=True, timeout=90)
                               for line in ("See @weather:climate://nowhere.", "/prompt weather:nothing", "/prompt"))
    # The model would answer without what the user meant it to read.
    assert lost.returncode == 4, lost.stderr
    assert unknown.returncode == bare.returncode == 4, unknown.stderr + bare.stderr
    assert "weather:nothing: " in unknown.stderr and "/prompt SERVER:NAME" in bare.stderr
    assert "@weather:climate://nowhere: " in lost.stderr and "the question was not asked" in lost.stderr
    assert "  weather:forecast city=... [days=...]  Asks for a forecast" in run.stdout, run.stderr
    assert "  @weather:climate://bled  The climate of Bled" in run.stdout
    asked = [prompt.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0] for prompt in upstream.prompts]
    assert asked == ["What will the weather be in Bled Castle for 5 days?",
                     "Swim (@weather:climate://bled)?\n\n[climate://bled of weather, as it was read:]\nMild, with a lake.",
                     "Mail me@weather:x"]


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
