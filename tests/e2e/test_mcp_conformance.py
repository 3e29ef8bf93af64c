"""Tenon before the protocol's own conformance runner: every scenario that a revision requires of clients (`tenon mcp`) and of servers
(conformance_server.cc, over the classes and transports of `tenon mcp`)."""
import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from serving import ROOT, TENON

RUNNER = ROOT / "tests" / "e2e" / "clients" / "mcp-conformance"
SERVER = TENON.with_name("conformance_server")
# How many scenarios each revision requires, so that a runner that leaves some out is noticed.
REQUIRED = {"client": {"2025-11-25": 18, "2026-07-28": 32}, "server": {"2025-11-25": 30, "2026-07-28": 37}}
# What the runner runs besides, no revision requires, and Tenon does not have (docs/conformance.md).
WITHOUT = {
    ("client", "2025-11-25"): {"auth/client-credentials-jwt", "auth/enterprise-managed-authorization", "auth/dpop",
                               "auth/dpop-nonce", "auth/wif-jwt-bearer"},
    ("server", "2025-11-25"): set(),
    ("server", "2026-07-28"): {"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields",
                               "tasks-request-state-removal", "tasks-mrtr-input", "tasks-request-headers",
                               "tasks-dispatch-and-envelope", "tasks-required-task-error", "tasks-mrtr-composition",
                               "http-custom-header-server-validation"},
}
WITHOUT["client", "2026-07-28"] = WITHOUT["client", "2025-11-25"]


def runner(*arguments):
    found = list((RUNNER / "node_modules").glob("node-linux-*/bin/node"))
    assert found, "the conformance runner is not installed: scripts/setup.sh clients"
    return subprocess.run([found[0], RUNNER / "node_modules/@modelcontextprotocol/conformance/dist/index.js", *arguments],
                          env={**os.environ, "TENON_BIN": str(TENON)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=280)


def reasons(folder, failed):
    told = []
    for name in sorted(failed):
        for checks in [*folder.glob(f"{name}-*/checks.json"), *folder.glob(f"server-{name}-*/checks.json")]:
            told += [f"{name}: {check['id']}: {check.get('errorMessage') or check['description']}"
                     for check in json.loads(checks.read_text()) if check["status"] == "FAILURE"]
            with contextlib.suppress(OSError):
                told.append((checks.parent / "stderr.txt").read_text()[-500:])
    return "\n".join(told)


def check(run, side, revision, folder):
    summary = re.split(r"=== (?:SUITE )?SUMMARY ===", run.stdout)[-1].partition("\nTotal:")[0]
    results = {name: mark for mark, name in re.findall(r"^([✓✗]) (\S+): ", summary, re.M)}
    without = WITHOUT[side, revision]
    failed = {name for name, mark in results.items() if mark == "✗"}
    assert failed <= without, reasons(folder, failed - without)
    assert len(set(results) - without) >= REQUIRED[side][revision], run.stdout
    # What is not there must not be said to be missing once it is.
    assert failed == without, run.stdout


# One of the scenarios of 2025-11-25 measures when a client comes back to a stream that broke off.
@pytest.mark.parametrize("revision", [pytest.param("2025-11-25", marks=pytest.mark.serial), "2026-07-28"])
def test_the_client_passes_what_a_revision_requires(revision, tmp_path):
    command = f"{sys.executable} {RUNNER / 'client.py'}"
    run = runner("client", "--requirements", revision, "--timeout", "240000", "--command", command, "--output-dir", tmp_path)
    check(run, "client", revision, tmp_path)


@contextlib.contextmanager
def server():
    process = subprocess.Popen([SERVER, "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline()).group()
    finally:
        process.terminate()
        assert process.wait(timeout=15) == 0


@pytest.mark.parametrize("revision", REQUIRED["server"])
def test_a_server_passes_what_a_revision_requires(revision, tmp_path):
    with server() as address:
        run = runner("server", "--requirements", revision, "--url", address, "--timeout", "60000", "--output-dir", tmp_path)
    check(run, "server", revision, tmp_path)
    # A check that warns is one that a server should pass.
    warned = [f"{found.parent.name}: {one['id']}: {one.get('errorMessage')}" for found in tmp_path.glob("*/checks.json")
              for one in json.loads(found.read_text()) if one["status"] == "WARNING" and "server-sse-polling" not in found.parent.name]
    assert [one for one in warned if not any(name in one for name in WITHOUT["server", revision])] == []


def posted(address, method, session=None, **params):
    """The status, the session and the answer to a message of a client that begins with initialize."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=20) as answer:
            return answer.status, answer.headers.get("Mcp-Session-Id"), json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, None, json.loads(refused.read())


def test_a_client_is_told_what_it_watches():
    with server() as address:
        _, session, _ = posted(address, "initialize", protocolVersion="2025-11-25", capabilities={})
        watching = posted(address, "resources/subscribe", session, uri="test://watched-resource")
        request = urllib.request.Request(address, headers={"Mcp-Session-Id": session, "Accept": "text/event-stream"})
        with urllib.request.urlopen(request, timeout=20) as stream:
            assert stream.readline() == b": listening\n"
            posted(address, "tools/call", session, name="test_trigger_resource_update", arguments={})
            told = next(line for line in stream if line.startswith(b"data: "))
        ending = urllib.request.Request(address, method="DELETE", headers={"Mcp-Session-Id": session})
        with urllib.request.urlopen(ending, timeout=20) as ended:
            assert ended.status == 204
        after = posted(address, "tools/list", session)
        without = posted(address, "tools/list")
    assert watching == (200, None, {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert json.loads(told[6:])["params"] == {"uri": "test://watched-resource"}
    assert (after[0], without[0]) == (404, 400)
    assert "begin with initialize" in after[2]["error"]["message"] and "Mcp-Session-Id" in without[2]["error"]["message"]


@pytest.mark.parametrize("how", ["the session ends", "the call is cancelled", "another call is cancelled"])
def test_a_question_ends_with_its_session_or_its_call(how):
    with server() as address:
        _, session, _ = posted(address, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
        _, other, _ = posted(address, "initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
        body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "test_elicitation", "arguments": {"message": "Who?"}}}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session}
        with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers), timeout=5) as stream:
            question = json.loads(next(line for line in stream if line.startswith(b"data: "))[6:])
            assert question["method"] == "elicitation/create", question
            if how == "the session ends":
                ending = urllib.request.Request(address, method="DELETE", headers={"Mcp-Session-Id": session})
                assert urllib.request.urlopen(ending, timeout=20).status == 204
            else:
                cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
                of = {**headers, "Mcp-Session-Id": session if how == "the call is cancelled" else other}
                with urllib.request.urlopen(urllib.request.Request(address, json.dumps(cancel).encode(), of), timeout=20) as taken:
                    assert taken.status == 202
            if how == "another call is cancelled":
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                urllib.request.urlopen(urllib.request.Request(address, json.dumps(answer).encode(), headers), timeout=20).close()
            rest = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    # What was cancelled has no answer, and its stream ends.
    assert [one["id"] for one in rest] == ([9] if how == "another call is cancelled" else []), rest


def test_a_client_over_pipes_is_asked():
    """Over pipes the answer to a question is one of the lines that come."""
    with subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def say(message):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()

        say({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}}})
        capabilities = json.loads(process.stdout.readline())["result"]["capabilities"]
        say({"id": 2, "method": "tools/call", "params": {"name": "test_sampling", "arguments": {"prompt": "hello"}}})
        question = json.loads(process.stdout.readline())
        say({"id": 3, "method": "ping"})
        alive = json.loads(process.stdout.readline())
        say({"id": question["id"], "result": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}})
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(timeout=15) == 0
    assert set(capabilities) == {"tools", "prompts", "resources", "completions", "logging"}
    assert question["method"] == "sampling/createMessage" and question["params"]["messages"][0]["content"]["text"] == "hello"
    assert alive == {"jsonrpc": "2.0", "id": 3, "result": {}}
    assert answer["id"] == 2 and "hi" in answer["result"]["content"][0]["text"]
