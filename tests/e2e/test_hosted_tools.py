"""Servers of tools that requests name, and approvals, by the official SDKs of OpenAI, Anthropic and the protocol."""
import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import anthropic
import openai
import pytest
import requests
from scripted_upstream import call
from serving import TENON, free_port, serving
from test_tools import SERVER, model, replayed, results, terminal

SECRET = "s3cret-of-the-client"
OWN = ('execute = "server"\nmcp = "mcp.json"\napprove = "by_annotation"\n', pathlib.Path(__file__).with_name("hosted_tools.py"))


@pytest.fixture(scope="module")
def hosted():
    port = free_port()
    process = subprocess.Popen([sys.executable, str(OWN[1]), str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait(timeout=15)


@contextlib.contextmanager
def house(folder, script, server="", more=""):
    """A `tenon serve` whose model says what `script(prompt)` gives."""
    with model(folder, script, more) as (config, upstream):
        config.write_text(f"[server]\n{server}\n" + config.read_text())
        with serving(folder / "log", "--config", str(config)) as running:
            yield running, upstream


def looks(name="get_weather", arguments=None):
    def script(prompt):
        return "It rains." if "<tool_response>" in prompt else "I look. " + call(name, arguments or {"location": "Rome"})
    return script


def of_openai(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def of_anthropic(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def tool(url, **more):
    return {"type": "mcp", "server_label": "town", "server_url": url, **more}


def test_a_response_has_what_a_server_of_tools_did(hosted, tmp_path):
    with house(tmp_path, looks(), f'mcp_allow = ["{hosted}"]') as (server, upstream):
        client = of_openai(server)
        asked = {"model": "scripted", "input": "Weather?", "tools": [tool(hosted, require_approval="never")]}
        whole = client.responses.create(**asked)
        assert [item.type for item in whole.output] == ["mcp_list_tools", "message", "mcp_call", "message"]
        listed, _, ran, said = whole.output
        assert [one.name for one in listed.tools] == ["get_weather", "book", "fail", "whose"]
        assert listed.tools[0].annotations == {"readOnlyHint": True} and listed.error is None
        assert (ran.server_label, ran.name, json.loads(ran.arguments)) == ("town", "get_weather", {"location": "Rome"})
        assert (ran.output, ran.error, ran.status) == ("heavy rain in Rome", None, "completed")
        assert said.content[0].text.strip() == "It rains."
        assert results(upstream.prompts[-1]) == ["heavy rain in Rome"]

        # The stream tells the same, event by event.
        events = list(client.responses.create(**asked, stream=True))
        kinds = [event.type for event in events if "mcp" in event.type]
        assert kinds[:2] == ["response.mcp_list_tools.in_progress", "response.mcp_list_tools.completed"]
        assert kinds[2] == "response.mcp_call.in_progress" and kinds[-1] == "response.mcp_call.completed"
        assert kinds[-2] == "response.mcp_call_arguments.done"
        deltas = "".join(event.delta for event in events if event.type == "response.mcp_call_arguments.delta")
        assert json.loads(deltas) == {"location": "Rome"}
        assert [event.sequence_number for event in events] == list(range(len(events)))
        streamed = events[-1].response
        assert [item.type for item in streamed.output] == [item.type for item in whole.output]
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert [item.model_dump() for item in done] == [item.model_dump() for item in streamed.output]

        # The next response knows what was done, and does not list the tools again.
        after = client.responses.create(**{**asked, "input": "Thanks!"}, previous_response_id=whole.id)
        assert "mcp_list_tools" not in [item.type for item in after.output]
        assert results(upstream.prompts[-1])[0] == "heavy rain in Rome"
        again = client.responses.create(**{**asked, "input": [*whole.output, {"role": "user", "content": "Thanks!"}]})
        assert again.output_text.strip() == "It rains."


def test_a_failed_call_and_a_silent_server_are_told(hosted, tmp_path):
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"
    with house(tmp_path, looks("fail", {}), f'mcp_allow = ["{hosted}", "{nowhere}"]') as (server, _):
        tools = [{**tool(nowhere), "server_label": "gone"}, tool(hosted, require_approval="never", allowed_tools=["fail"])]
        answer = of_openai(server).responses.create(model="scripted", input="Go!", tools=tools)
        gone, listed, _, failed, _ = answer.output
        assert (gone.type, gone.tools, gone.server_label) == ("mcp_list_tools", [], "gone") and "cannot connect" in gone.error
        assert [one.name for one in listed.tools] == ["fail"]
        assert failed.status == "failed" and failed.output is None
        assert failed.error.type == "mcp_tool_execution_error" and "fail" in failed.error.content[0]["text"]
        events = list(of_openai(server).responses.create(model="scripted", input="Go!", tools=tools, stream=True))
        kinds = {event.type for event in events}
        assert {"response.mcp_list_tools.failed", "response.mcp_call.failed"} <= kinds


def test_a_silent_server_is_told_in_every_dialect(hosted, tmp_path):
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"
    with house(tmp_path, lambda prompt: "It rains.", f'mcp_allow = ["{nowhere}"]') as (server, _):
        tools = [{**tool(nowhere), "server_label": "gone"}]
        servers = [{"type": "url", "name": "gone", "url": nowhere}]
        chat = of_openai(server).chat.completions.create(model="scripted", tools=tools, messages=[{"role": "user", "content": "x"}])
        chunks = list(of_openai(server).chat.completions.create(model="scripted", tools=tools, stream=True,
                                                                messages=[{"role": "user", "content": "x"}]))
        response = of_openai(server).responses.create(model="scripted", tools=tools, input="x")
        message = of_anthropic(server).beta.messages.create(
            model="scripted", max_tokens=50, messages=[{"role": "user", "content": "x"}], betas=["mcp-client-2025-11-20"],
            mcp_servers=servers, tools=[{"type": "mcp_toolset", "mcp_server_name": "gone"}])
        last = next(chunk for chunk in chunks if getattr(chunk, "tenon", None))
        for answer in (chat, last, response, message):
            told = [one for one in answer.tenon["repairs"] if one["code"] == "server_without_tools"]
            assert len(told) == 1 and told[0]["message"].startswith("gone: ") and "cannot connect" in told[0]["message"], answer


def test_a_response_waits_for_an_approval(hosted, tmp_path):
    script = looks("book", {"city": "Rome"})
    with house(tmp_path, script, f'mcp_allow = ["{hosted}"]\naudit_log = "audit.jsonl"') as (server, upstream):
        client = of_openai(server)
        tools = [tool(hosted)]
        first = client.responses.create(model="scripted", input="Book!", tools=tools)
        assert [item.type for item in first.output] == ["mcp_list_tools", "message", "mcp_approval_request"]
        wanted = first.output[-1]
        assert (wanted.name, wanted.server_label, json.loads(wanted.arguments)) == ("book", "town", {"city": "Rome"})
        asked = len(upstream.prompts)

        approval = {"type": "mcp_approval_response", "approval_request_id": wanted.id, "approve": True}
        second = client.responses.create(model="scripted", input=[approval], previous_response_id=first.id, tools=tools)
        assert [item.type for item in second.output] == ["mcp_call", "message"]
        assert second.output[0].approval_request_id == wanted.id and second.output[0].output == "a table in Rome"
        assert results(upstream.prompts[-1]) == ["a table in Rome"] and len(upstream.prompts) == asked + 1

        # Its decision may come again, as a history has it.
        assert client.responses.create(model="scripted", input=[approval, {"role": "user", "content": "And?"}],
                                       previous_response_id=second.id, tools=tools).output[-1].type == "message"
        with pytest.raises(openai.BadRequestError, match="no item asks for that approval"):
            client.responses.create(model="scripted", input=[approval], tools=tools)

        # What follows has the call once, with its result.
        third = client.responses.create(model="scripted", input="Thanks!", previous_response_id=second.id, tools=tools)
        assert third.output_text.strip() == "It rains."
        assert results(upstream.prompts[-1]) == ["a table in Rome"] and upstream.prompts[-1].count('"name": "book"') == 2

        # The same with all items sent again; and a refusal, whose reason the model reads.
        items = [{"role": "user", "content": "Book!"}, *first.output]
        again = client.responses.create(model="scripted", input=[*items, approval], tools=tools)
        assert again.output[0].output == "a table in Rome"
        refusal = {**approval, "approve": False, "reason": "too dear"}
        refused = client.responses.create(model="scripted", input=[*items, refusal], tools=tools, store=False)
        assert [item.type for item in refused.output] == ["message"]
        assert results(upstream.prompts[-1]) == ["Error: the user did not approve this call: too dear"]
        silent = client.responses.create(model="scripted", input=[*items, {"role": "user", "content": "Well?"}], tools=tools)
        assert [item.type for item in silent.output] == ["message"]
        assert results(upstream.prompts[-1]) == ["Error: the user did not approve this call"]
        with pytest.raises(openai.BadRequestError, match="no item asks for that approval"):
            client.responses.create(model="scripted", input=[{"role": "user", "content": "x"}, approval], tools=tools)
    audit = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [one["decision"] for one in audit] == ["asked", "approved", "approved", "refused", "no_decision"]
    assert all((one["server"], one["tool"], one["model"]) == ("town", "book", "scripted") for one in audit)
    assert [one.get("result_bytes") for one in audit] == [None, 15, 15, None, None]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_by_annotation_a_tool_that_reads_runs_at_once(hosted, tmp_path):
    def script(prompt):
        if "<tool_response>" in prompt:
            return "Done."
        return call("get_weather", {"location": "Rome"}) + call("book", {"city": "Rome"})

    with house(tmp_path, script, f'mcp_allow = ["{hosted}"]') as (server, _):
        tools = [tool(hosted, require_approval={"never": {"read_only": True}})]
        answer = of_openai(server).responses.create(model="scripted", input="Go!", tools=tools)
        assert [item.type for item in answer.output] == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
        assert answer.output[1].output == "heavy rain in Rome" and answer.output[2].name == "book"


def test_a_message_has_what_a_server_of_tools_did(hosted, tmp_path):
    with house(tmp_path, looks(), f'mcp_allow = ["{hosted}"]') as (server, upstream):
        client = of_anthropic(server)
        asked = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": "Weather?"}],
                 "betas": ["mcp-client-2025-11-20"], "mcp_servers": [{"type": "url", "name": "town", "url": hosted}],
                 "tools": [{"type": "mcp_toolset", "mcp_server_name": "town", "configs": {"book": {"enabled": False}}}]}
        whole = client.beta.messages.create(**asked)
        assert [block.type for block in whole.content] == ["text", "mcp_tool_use", "mcp_tool_result", "text"]
        used, ran = whole.content[1:3]
        assert (used.name, used.server_name, used.input) == ("get_weather", "town", {"location": "Rome"})
        assert used.id.startswith("mcptoolu_") and ran.tool_use_id == used.id and not ran.is_error
        assert ran.content[0].text == "heavy rain in Rome" and whole.stop_reason == "end_turn"
        assert '"book"' not in upstream.prompts[-1].split("<|im_end|>")[0]
        with client.beta.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        assert [block.type for block in streamed.content] == [block.type for block in whole.content]
        assert streamed.content[1].input == {"location": "Rome"} and streamed.content[2].content[0].text == "heavy rain in Rome"

        # The history is read back, and the older form has its tools without a toolset.
        older = {**asked, "tools": [], "mcp_servers": [
            {**asked["mcp_servers"][0], "tool_configuration": {"enabled": True, "allowed_tools": ["get_weather"]}}],
            "messages": [*asked["messages"], {"role": "assistant", "content": whole.content}, {"role": "user", "content": "Thanks!"}]}
        after = client.beta.messages.create(**older)
        assert after.content[-1].text == "It rains."
        prompt = upstream.prompts[-1]
        assert results(prompt) == ["heavy rain in Rome"] and prompt.index("heavy rain") < prompt.index("It rains.")
        assert '"whose"' not in prompt


@pytest.mark.parametrize("streams", [False, True])
def test_a_message_pauses_for_an_approval(streams, hosted, tmp_path):
    with house(tmp_path, looks("book", {"city": "Rome"}), f'mcp_allow = ["{hosted}"]') as (server, upstream):
        client = of_anthropic(server)
        asked = {"model": "scripted", "max_tokens": 100, "betas": ["mcp-client-2025-11-20"],
                 "mcp_servers": [{"type": "url", "name": "town", "url": hosted, "require_approval": "always"}],
                 "tools": [{"type": "mcp_toolset", "mcp_server_name": "town"}]}

        def send(messages, **more):
            if not streams:
                return client.beta.messages.create(**asked, messages=messages, **more)
            with client.beta.messages.stream(**asked, messages=messages, **more) as stream:
                return stream.get_final_message()

        user = {"role": "user", "content": "Book!"}
        paused = send([user])
        assert paused.stop_reason == "pause_turn"
        wanted = paused.content[-1]
        assert (wanted.type, wanted.name, wanted.input) == ("mcp_tool_use", "book", {"city": "Rome"})
        history = [user, {"role": "assistant", "content": paused.content}]
        done = send(history, extra_body={"tenon": {"approvals": {wanted.id: True}}})
        assert [block.type for block in done.content] == ["mcp_tool_result", "text"] and done.stop_reason == "end_turn"
        assert done.content[0].content[0].text == "a table in Rome" and results(upstream.prompts[-1]) == ["a table in Rome"]
        send([*history, {"role": "assistant", "content": done.content}, {"role": "user", "content": "Thanks!"}])
        assert results(upstream.prompts[-1]) == ["a table in Rome"]
        send(history)  # without a decision it does not run
        assert results(upstream.prompts[-1]) == ["Error: the user did not approve this call"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_chat_pauses_for_an_approval_of_the_servers_own_tools(streams, tmp_path):
    def script(prompt):
        if "a table in Rome" in prompt or "did not approve" in prompt:
            return "Done."
        if "<tool_response>" in prompt:
            return call("book", {"city": "Rome"})
        return call("get_weather", {"location": "Rome"})

    with contextlib.ExitStack() as stack:
        port = free_port()
        process = stack.enter_context(subprocess.Popen([sys.executable, str(OWN[1]), str(port)], stdout=subprocess.DEVNULL,
                                                       stderr=subprocess.DEVNULL))
        stack.callback(process.kill)
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"town": {"url": f"http://127.0.0.1:{port}/mcp"}}}))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        server, upstream = stack.enter_context(house(tmp_path, script, f'record = "{tmp_path / "records"}"', OWN[0]))
        user = {"role": "user", "content": "Book!"}

        def send(messages, **more):
            body = {"model": "scripted", "messages": messages, "stream": streams, **more}
            answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            if not streams:
                return answer.json()["choices"][0], answer.json()["tenon"]
            chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
            calls = [one for chunk in chunks for one in chunk["choices"][0]["delta"].get("tool_calls", [])]
            text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
            return {"message": {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})},
                    "finish_reason": chunks[-1]["choices"][0]["finish_reason"]}, chunks[-1]["tenon"]

        paused, tenon = send([user])
        assert paused["finish_reason"] == "tool_calls"
        (waiting,) = paused["message"]["tool_calls"]
        assert waiting["function"]["name"] == "book" and json.loads(waiting["function"]["arguments"]) == {"city": "Rome"}
        (told,) = tenon["approvals"]["calls"]
        assert (told["id"], told["server"], told["tool"]) == (waiting["id"], "town", "book")
        whole = [user, *tenon["approvals"]["messages"]]
        done, _ = send(whole, tenon={"approvals": {waiting["id"]: True}})
        assert done["message"]["content"] == "Done." and done["finish_reason"] == "stop"
        assert results(upstream.prompts[-1]) == ["heavy rain in Rome", "a table in Rome"]
        # The answer's message alone will do, and a client without the field has not approved.
        done, _ = send([user, paused["message"]], tenon={"approvals": {waiting["id"]: {"approve": True}}})
        assert results(upstream.prompts[-1]) == ["a table in Rome"]
        send([user, paused["message"]], tenon={"approvals": {waiting["id"]: {"approve": False, "reason": "no"}}})
        assert results(upstream.prompts[-1]) == ["Error: the user did not approve this call: no"]
        send([user, paused["message"]])
        assert results(upstream.prompts[-1]) == ["Error: the user did not approve this call"]
    lines = [json.loads(line.split("audit ", 1)[1]) for line in (tmp_path / "log").read_text().splitlines() if " audit {" in line]
    assert [one["decision"] for one in lines][:3] == ["not_needed", "asked", "approved"]
    told = replayed(tmp_path / "records")  # the server of tools is gone
    assert len(told) == 5 and all(status == 0 for status, _ in told), told


CLOSED = {
    "no door": ("", "http://127.0.0.1:{port}/mcp", None),
    "another path": ('mcp_allow = ["http://127.0.0.1:{port}/other"]', "http://127.0.0.1:{port}/mcp", 403),
    "another name of the address": ('mcp_allow = ["http://127.0.0.1:{port}/mcp"]', "http://localhost:{port}/mcp", 403),
    "a path that climbs": ('mcp_allow = ["http://127.0.0.1:{port}/a"]', "http://127.0.0.1:{port}/a/../mcp", 403),
    "a user name": ('mcp_allow = ["http://127.0.0.1:{port}"]', "http://127.0.0.1:{port}@evil.example/mcp", 403),
    "not an address": ('mcp_allow = ["http://127.0.0.1:{port}"]', "file:///etc/passwd", 403),
}


@pytest.mark.parametrize("case", CLOSED)
def test_only_servers_of_the_configuration_are_called(case, hosted, tmp_path):
    port = hosted.split(":")[2].split("/")[0]
    allow, url, status = (part.format(port=port) if isinstance(part, str) else part for part in CLOSED[case])
    with house(tmp_path, lambda prompt: "Hello.", allow) as (server, upstream):
        for path, body in (("/v1/responses", {"input": "Hi", "tools": [tool(url)]}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool(url)]}),
                           ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9,
                                             "mcp_servers": [{"type": "url", "name": "town", "url": url}]})):
            answer = requests.post(server.url + path, json={"model": "scripted", **body}, timeout=60)
            if status is None:
                assert answer.status_code == 200 and "mcp" not in upstream.prompts[-1]
                assert "server.mcp_allow" in answer.text and answer.headers["x-tenon-left-out"]
            else:
                assert answer.status_code == status, answer.text
                assert "mcp_allow" in answer.text and not upstream.prompts


def test_addresses_that_are_allowed_change_at_the_next_start(hosted, tmp_path):
    with house(tmp_path, lambda prompt: "Hello.", f'mcp_allow = ["{hosted}"]') as (server, _):
        config = tmp_path / "tenon.toml"
        config.write_text(config.read_text().replace(f'mcp_allow = ["{hosted}"]', "mcp_allow = []"))
        written = len(server.log.read_text())
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while "not taken over before the next start" not in server.log.read_text()[written:] and time.monotonic() < deadline:
            time.sleep(0.05)
        told = server.log.read_text()[written:]
        answer = of_openai(server).responses.create(model="scripted", input="Hi", tools=[tool(hosted)])
    assert "not taken over before the next start" in told and "mcp_allow" in told, told
    assert [item.type for item in answer.output] == ["mcp_list_tools", "message"]


def test_a_label_that_the_configuration_has_is_taken(hosted, tmp_path):
    """Names of tools, approvals and the audit tell servers apart by their labels."""
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"town": {"command": sys.executable, "args": [str(SERVER)]}}}))
    own = 'execute = "server"\nmcp = "mcp.json"\n'
    with house(tmp_path, looks(), f'mcp_allow = ["{hosted}"]', own) as (server, upstream):
        with pytest.raises(openai.BadRequestError, match="has a server of tools \"town\" itself: choose another label"):
            of_openai(server).responses.create(model="scripted", input="Hi", tools=[tool(hosted)])
        assert not upstream.prompts
        other = of_openai(server).responses.create(model="scripted", input="Hi",
                                                   tools=[{**tool(hosted, require_approval="never"), "server_label": "city"}])
    names = re.findall(r'"name": ?"(\w+)", ?"description"', upstream.prompts[0])
    assert len(names) == len(set(names)) and any("weather" in name for name in names), names
    assert other.output_text.endswith("It rains.")


def test_a_person_who_decides_sees_what_a_server_says_of_its_tool(hosted, tmp_path):
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"town": {"url": hosted}}}))

    def script(prompt):
        asked = prompt.rsplit("<|im_start|>", 2)[1]
        if "Look!" in asked:
            return call("get_weather", {"location": "Rome"})
        return call("book", {"city": "Rome"}) if "Book!" in asked else "Done."

    with model(tmp_path, script) as (config, _), terminal("--config", str(config), "--mcp", str(tmp_path / "mcp.json")) as screen:
        for asked, told in (("Look!", ")? town says: it only reads. "), ("Book!", ")? town says: it may destroy. ")):
            screen.expect("> ")
            screen.type(asked)
            assert told in screen.expect("[a]lways: ")
            screen.type("n")
            screen.expect("Done.")


class SlowServer(http.server.BaseHTTPRequestHandler):
    """A server of tools that takes a second to tell its tools, and counts how often it is asked."""
    asked: list = []

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(message["method"])
        answer = {"tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
                  "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "slow", "version": "1"}}}.get(message["method"])
        if message["method"] == "tools/list":
            time.sleep(1)
        if answer is None:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            answer = {"result": answer}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **answer}).encode() if "id" in message else b""
        self.send_response(200 if body else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


def test_requests_that_name_one_server_at_once_wait_for_one_list(tmp_path):
    slow = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowServer)
    threading.Thread(target=slow.serve_forever, daemon=True).start()
    SlowServer.asked.clear()
    url = f"http://127.0.0.1:{slow.server_port}/mcp"
    with house(tmp_path, lambda prompt: "Hello.", f'mcp_allow = ["{url}"]') as (server, _):
        def ask(_):
            return of_openai(server).responses.create(model="scripted", input="Hi", tools=[tool(url)])

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, range(4)))
    slow.shutdown()
    for answer in answers:
        assert [one.name for one in answer.output[0].tools] == ["look"], answer.output
    assert SlowServer.asked.count("tools/list") == 1, SlowServer.asked


def test_a_name_that_leads_into_a_private_network_is_not_connected_to(tmp_path):
    name = socket.gethostname()
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(name, None)}
    except OSError:
        pytest.skip("this machine's name has no address")
    with contextlib.ExitStack() as stack:
        listeners = []
        for address in addresses:
            with contextlib.suppress(OSError):
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = stack.enter_context(socket.socket(family))
                listener.bind((address, listeners[0].getsockname()[1] if listeners else 0))
                listener.listen()
                listeners.append(listener)
        url = f"http://{name}:{listeners[0].getsockname()[1]}/mcp"
        server, _ = stack.enter_context(house(tmp_path, lambda prompt: "Hello.", f'mcp_allow = ["{url}"]'))
        answer = of_openai(server).responses.create(model="scripted", input="Hi", tools=[tool(url)])
        assert "no address that may be connected to" in answer.output[0].error
        for listener in listeners:
            listener.settimeout(0.3)
            with pytest.raises(TimeoutError):
                listener.accept()


def test_no_secret_of_a_server_is_kept_or_told(hosted, tmp_path):
    more = f'mcp_allow = ["{hosted}"]\nrecord = "records"\nlog_level = "trace"\nstore = "kept.db"\naudit_log = "audit.jsonl"'
    asked = tool(hosted, require_approval="never", authorization=SECRET, headers={"X-Team": SECRET})
    (tmp_path / "told").mkdir()
    with house(tmp_path / "told", looks("whose", {}), f'mcp_allow = ["{hosted}"]') as (server, _):
        answer = of_openai(server).responses.create(model="scripted", input="Whose?", tools=[asked])
        assert answer.output[2].output == f"Bearer {SECRET} {SECRET}"  # the server gets them; these are its own words
        assert SECRET not in json.dumps([one.model_dump() for one in answer.tools])
    (tmp_path / "kept").mkdir()
    with house(tmp_path / "kept", looks(), more) as (server, _):
        first = requests.post(server.url + "/v1/responses", json={"model": "scripted", "input": "Hi", "tools": [asked]}, timeout=60)
        assert first.status_code == 200 and "heavy rain" in first.text and SECRET not in first.text
        assert SECRET not in requests.get(f"{server.url}/v1/responses/{first.json()['id']}", timeout=60).text
        for change in ({"allowed_tools": 7}, {"headers": {"X": "a\nb" + SECRET}}, {"headers": {"Host": SECRET}}, {"server_url": SECRET},
                       {"require_approval": "maybe"}):
            body = {"model": "scripted", "input": "Hi", "tools": [{**asked, **change}]}
            refused = requests.post(server.url + "/v1/responses", json=body, timeout=60)
            assert refused.status_code in (400, 403) and SECRET not in refused.text
        messages = {"model": "scripted", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}],
                    "mcp_servers": [{"type": "url", "name": "town", "url": hosted, "authorization_token": SECRET}]}
        answer = requests.post(server.url + "/v1/messages", json=messages, timeout=60)
        assert answer.status_code == 200 and "heavy rain" in answer.text and SECRET not in answer.text
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {"log", "audit.jsonl", "kept.db"} <= {path.name for path in files} and any("records" in str(path) for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path


def test_what_is_wrong_with_the_configuration_is_said(tmp_path):
    for server, model_keys, told in (('mcp_allow = ["tools.example"]', "", "server.mcp_allow"),
                                     ('mcp_allow = ["https://*.example"]', "", "server.mcp_allow"),
                                     ("", 'approve = "always"\n', "model.approve"),
                                     ("", 'execute = "server"\nmcp = "m.json"\napprove = "maybe"\n', "by_annotation"),
                                     ('mcp_allow = ["https://t.example"]\naudit_log = "no/such/folder"', "", "server.audit_log")):
        with model(tmp_path, lambda prompt: "", model_keys) as (config, _):
            config.write_text(f"[server]\n{server}\n" + config.read_text())
            run = subprocess.run([str(TENON), "serve", "--port", "0", "--config", str(config)], capture_output=True, text=True, timeout=60)
        assert run.returncode in (3, 4) and told in run.stderr, run.stderr
