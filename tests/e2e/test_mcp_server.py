"""`tenon mcp` asked by the official SDK's client, over pipes and HTTP, in both eras of the protocol."""
import asyncio
import contextlib
import json
import re
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from mcp import Client, StdioServerParameters
from recursive import Policy, config, turns
from serving import TENON

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
# With "auto" the client asks server/discover first, so that the revision has no handshake.
REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@contextlib.contextmanager
def at_address(*more):
    process = subprocess.Popen([TENON, "mcp", "--http", "0", *more], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline()).group()
    finally:
        process.terminate()
        assert process.wait(timeout=15) == 0


@contextlib.contextmanager
def over(transport, *more):
    if transport == "pipes":
        yield StdioServerParameters(command=str(TENON), args=["mcp", *more])
    else:
        with at_address(*more) as address:
            yield address


def asked(server, mode, ask):
    async def run():
        async with Client(server, mode=mode, read_timeout_seconds=30) as client:
            return await ask(client)
    return asyncio.run(run())


@pytest.mark.parametrize("mode", REVISIONS)
@pytest.mark.parametrize("transport", ["pipes", "http"])
def test_the_sdk_finds_the_tools_and_calls_them(transport, mode):
    async def ask(client):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        results = {name: await client.call_tool(name, arguments) for name, arguments in {
            "validate_json": {"schema": SCHEMA, "instance": {"city": 5}},
            "repair_arguments": {"schema": SCHEMA, "arguments": '{"city": "Bled", "days": "3",}'},
            "parse_tool_calls": {"format": "hermes",
                                 "text": 'Hm. <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'},
            "render_prompt": {"template": "{% for m in messages %}[{{ m.content }}]{% endfor %}",
                              "messages": [{"role": "user", "content": "hi"}]},
        }.items()}
        return client.protocol_version, client.server_info.name, tools, results

    with over(transport) as server:
        revision, name, tools, results = asked(server, mode, ask)
    assert revision == REVISIONS[mode] and name == "tenon"
    assert sorted(tools) == sorted(results)
    told = {name: result.structured_content for name, result in results.items()}
    assert not any(result.is_error for result in results.values()), results
    assert json.loads(results["validate_json"].content[0].text) == told["validate_json"]
    assert told["validate_json"]["valid"] is False
    assert told["validate_json"]["errors"][0]["instance_path"] == "/city"
    assert told["repair_arguments"]["arguments"] == {"city": "Bled", "days": 3}
    assert told["repair_arguments"]["valid"] is True
    assert {repair["kind"] for repair in told["repair_arguments"]["repairs"]} == {"mended_arguments", "type_fixed"}
    assert told["parse_tool_calls"]["message"]["tool_calls"][0]["function"]["name"] == "f"
    assert told["render_prompt"]["output"] == "[hi]"
    assert [1, 3, "data"] in told["render_prompt"]["spans"]


@pytest.mark.parametrize("tool, arguments, why", [
    ("validate_json", {"instance": 1}, "the argument schema is missing"),
    ("validate_json", {"schema": {"type": "strin"}, "instance": 1}, "strin"),
    ("repair_arguments", {"schema": SCHEMA, "arguments": "city = Bled"}, "do not begin as an object"),
    ("parse_tool_calls", {"text": "x", "format": "nothing"}, "nothing"),
    ("render_prompt", {"template": "{% if", "messages": []}, ""),
    ("render_prompt", {"template": "x", "messages": [], "mood": 1}, "has no argument mood"),
])
def test_a_failure_is_told_to_the_model(tool, arguments, why):
    async def ask(client):
        return await client.call_tool(tool, arguments)
    with over("pipes") as server:
        result = asked(server, "legacy", ask)
    assert result.is_error and why in result.content[0].text, result


def test_an_end_that_was_added_is_told():
    async def ask(client):
        return await client.call_tool("repair_arguments", {"schema": SCHEMA, "arguments": '{"city": "Bl'})
    with over("pipes") as server:
        told = asked(server, "legacy", ask).structured_content
    assert told["arguments"] == {"city": "Bl"}, told
    assert "completed" in [repair["kind"] for repair in told["repairs"]], told


def test_a_line_that_is_no_message_ends_nothing():
    lines = ["", "{", "5", '{"jsonrpc": "2.0", "method": "notifications/initialized"}', "x" * (17 << 20),
             '{"jsonrpc": "2.0", "id": 7, "method": "ping"}']
    ended = subprocess.run([TENON, "mcp"], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700, -32600, -32700, None]
    assert answers[-1] == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.parametrize("method, path, headers, status", [
    ("POST", "/mcp", {}, 200),
    ("POST", "/mcp", {"Origin": "http://localhost:3000"}, 403),  # a page of another server here
    ("POST", "/mcp", {"Host": "evil.example"}, 403),             # that its owner points here
    ("POST", "/mcp", {"Mcp-Method": "ping"}, 200),
    ("POST", "/mcp", {"Origin": "http://evil.example"}, 403),
    ("POST", "/mcp", {"Origin": "http://localhost.evil.example"}, 403),
    ("POST", "/mcp", {"MCP-Protocol-Version": "1999-01-01"}, 400),
    ("POST", "/mcp", {"Mcp-Method": "tools/list"}, 400),
    ("GET", "/mcp", {}, 405),
    ("DELETE", "/mcp", {}, 405),
    ("POST", "/", {}, 404),
])
def test_what_http_refuses(method, path, headers, status):
    with at_address() as address:
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}' if method == "POST" else None
        request = urllib.request.Request(address.removesuffix("/mcp") + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert answer.status == status
        except urllib.error.HTTPError as error:
            assert error.code == status


# ---- questions about files

CODE = "```repl\nfound = llm_query('What is in it? ' + ' '.join(context.values()))\n```"
DONE = "FINAL_VAR(found)"


@contextlib.contextmanager
def asking(folder, transport, answer=None):
    """Tools with a recursive model that `answer` plays, over a folder with one file and a link that leads out of it."""
    policy = Policy(answer or turns(CODE, DONE))
    shared = folder / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "deep" / "note.txt").write_text("the needle")
    (folder / "secret.txt").write_text("hunter2")
    (shared / "out.txt").symlink_to(folder / "secret.txt")
    (shared / "in.txt").symlink_to("deep/note.txt")
    toml = folder / "tenon.toml"
    toml.write_text(config(policy, ["root", "sub"]) + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "root"\nsub = "sub"\n')
    try:
        with over(transport, "--folder", str(shared), "--config", str(toml)) as server:
            yield server, shared, policy
    finally:
        policy.close()


@pytest.mark.parametrize("mode", REVISIONS)
@pytest.mark.parametrize("transport", ["pipes", "http"])
def test_a_recursive_model_is_asked_about_a_file(tmp_path, transport, mode):
    steps = []

    async def progress(done, total, message):
        steps.append((done, message))

    async def ask(client):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        arguments = {"question": "What is in it?", "files": ["deep/note.txt"]}
        return tools, await client.call_tool("ask_about_files", arguments, progress_callback=progress)

    with asking(tmp_path, transport) as (server, _, policy):
        tools, result = asked(server, mode, ask)
        assert policy.count("sub") == 1
        prompt = next(call for call in policy.calls if call["model"] == "root")["messages"][1]["content"]
    assert "ask_about_files" in tools
    assert not result.is_error, result
    assert 'a dict of 1 key: "deep/note.txt" (a str of 10 characters)' in prompt, prompt
    assert "from the name of each file to its text" in prompt, prompt
    told = result.structured_content
    assert told["answer"] == "<What is in it? the needle>" and told["iterations"] == 2 and told["sub_calls"] == 1, told
    assert [done for done, _ in steps] == sorted({done for done, _ in steps}), steps
    assert "turn 1" in [message for _, message in steps], steps


def test_a_question_without_an_answer_in_time_has_failed(tmp_path):
    def ask_code(model, messages):
        return "```repl\nx = 1\n```"

    async def ask(client):
        return await client.call_tool("ask_about_files", {"question": "What?", "files": ["in.txt"]})

    with asking(tmp_path, "pipes", ask_code) as (server, _, policy):
        result = asked(server, "legacy", ask)
    assert result.is_error and result.content[0].text == "No answer was found: All 20 turns are used up.", result


def test_only_files_in_the_folders_are_read(tmp_path):
    async def ask(client):
        return {name: await client.call_tool("ask_about_files", {"question": "What?", "files": [name]}) for name in names}

    with asking(tmp_path, "pipes") as (server, shared, policy):
        inside = ["in.txt", str(shared / "deep" / "note.txt"), "deep/../in.txt"]
        outside = ["out.txt", "../secret.txt", str(tmp_path / "secret.txt"), "../shared", "deep", "", "absent.txt",
                   "/proc/self/environ", f"{shared}-other/x", "a\0b"]
        names = inside + outside
        results = asked(server, "legacy", ask)
        assert policy.count("root") == 2 * len(inside)
    for name in inside:
        assert not results[name].is_error, (name, results[name])
    for name in outside:
        assert results[name].is_error and results[name].content[0].text.endswith("there is no such file in the folders"), \
            (name, results[name])


def test_without_folders_nothing_is_asked():
    async def ask(client):
        return [tool.name for tool in (await client.list_tools()).tools]
    with over("pipes") as server:
        assert "ask_about_files" not in asked(server, "legacy", ask)


def request_about_note(number):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
        "name": "ask_about_files", "arguments": {"question": "What?", "files": ["in.txt"]}}})


def test_a_question_is_cancelled_and_others_are_bounded(tmp_path):
    """The first question hangs at its model. Behind it others wait; the fifth is refused, and a ping is answered."""
    begun, may_go_on = threading.Event(), threading.Event()

    def answer(model, messages):
        begun.set()
        assert may_go_on.wait(60)
        return "FINAL(done)"

    with asking(tmp_path, "pipes", answer) as (server, _, policy):
        process = subprocess.Popen([server.command, *server.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def send(*lines):
            process.stdin.write("".join(line + "\n" for line in lines))
            process.stdin.flush()

        try:
            send(request_about_note(1))
            assert begun.wait(30)
            send(*[request_about_note(number) for number in (2, 3, 4, 5)], '{"jsonrpc": "2.0", "id": 6, "method": "ping"}')
            refused, pong = json.loads(process.stdout.readline()), json.loads(process.stdout.readline())
            assert refused["id"] == 5 and "under way" in refused["error"]["message"], refused
            assert pong == {"jsonrpc": "2.0", "id": 6, "result": {}}
            for number in (2, 3, 1):  # the first one last: once it ends, the next that waits begins
                send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}))
            send('{"jsonrpc": "2.0", "id": 7, "method": "ping"}')
            assert json.loads(process.stdout.readline())["id"] == 7  # so the cancellations were read before the model goes on
            may_go_on.set()
            answer_of_4 = json.loads(process.stdout.readline())
            assert answer_of_4["id"] == 4 and answer_of_4["result"]["structuredContent"]["answer"] == "done", answer_of_4
            assert policy.count("root") == 2  # the first and the fourth
        finally:
            may_go_on.set()
            process.stdin.close()
            assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""


def test_a_client_that_goes_away_ends_its_question(tmp_path):
    begun, may_go_on = threading.Event(), threading.Event()

    def answer(model, messages):
        if not begun.is_set():
            begun.set()
            assert may_go_on.wait(60)
        return "FINAL(done)"

    with asking(tmp_path, "http", answer) as (address, _, policy):
        def post(number, timeout):
            request = urllib.request.Request(address, request_about_note(number).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=timeout) as stream:
                return [json.loads(line[6:]) for line in stream.read().decode().splitlines() if line.startswith("data: ")]

        with pytest.raises(TimeoutError):
            post(1, 2)
        assert begun.is_set()
        told = post(2, 50)  # while the first model still hangs
        may_go_on.set()
    assert told[-1]["id"] == 2 and told[-1]["result"]["structuredContent"]["answer"] == "done", told
