"""`tenon mcp` asked by the official SDK's client, over pipes and HTTP, in both eras of the protocol."""
import asyncio
import contextlib
import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest
from mcp import Client, StdioServerParameters
from serving import TENON

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
# With "auto" the client asks server/discover first, so that the revision has no handshake.
REVISIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@contextlib.contextmanager
def at_address():
    process = subprocess.Popen([TENON, "mcp", "--http", "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline()).group()
    finally:
        process.terminate()
        assert process.wait(timeout=15) == 0


@contextlib.contextmanager
def over(transport):
    if transport == "pipes":
        yield StdioServerParameters(command=str(TENON), args=["mcp"])
    else:
        with at_address() as address:
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
