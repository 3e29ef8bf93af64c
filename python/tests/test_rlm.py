"""Recursive models by the API of docs/requirements.md, 004: its two examples, run as they stand there over models that a script plays."""

import http.server
import json
import shutil
import sys
import threading
import types

import pytest
import tenon
from tenon import rlm
from tenon.rlm import RLM_REPL, Arguments, ChatClient, RLMToolCallingAPI

EXAMPLE_1 = """
from rlm.rlm_api import RLMToolCallingAPI

# Initialize API
api = RLMToolCallingAPI(
    model="gpt-5-nano",
    recursive_model="gpt-5",
    enable_logging=True
)

# Define tools
tools = [{
    "type": "function",
    "function": {
        "name": "search_database",
        "description": "Search a database for information",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Search query"}
            },
            "required": ["query"]
        }
    }
}]

# Call with massive context
massive_context = "..." # 1M lines of text
response = api.chat_completion(
    messages=[
        {"role": "system", "content": massive_context},
        {"role": "user", "content": "Find information about X"}
    ],
    tools=tools
)

# Check if tool calls returned
if response['choices'][0]['finish_reason'] == 'tool_calls':
    tool_calls = response['choices'][0]['message']['tool_calls']
    
    # Execute tools externally
    tool_results = []
    for call in tool_calls:
        result = search_database(call['function']['arguments']['query'])
        tool_results.append({
            "role": "tool",
            "tool_call_id": call['id'],
            "content": result
        })
    
    # Continue with tool results
    response = api.chat_completion(
        messages=[
            {"role": "system", "content": massive_context},
            {"role": "user", "content": "Find information about X"},
            response['choices'][0]['message'],  # Assistant message with tool calls
            *tool_results  # Tool results
        ],
        tools=tools
    )

print(response['choices'][0]['message']['content'])
"""

EXAMPLE_2 = """
# First turn - RLM might use internal REPL for chunking
response1 = api.chat_completion(
    messages=[{"role": "user", "content": "Analyze this 1M line document"}],
    tools=tools
)

# Could return tool calls OR continue internally with REPL
# RLM decides based on what the outer LLM wants to do

# If tool calls:
if response1['choices'][0]['finish_reason'] == 'tool_calls':
    # Handle externally
    pass
# If no tool calls, RLM handled it internally via REPL and returns final answer
"""


class Upstream:
    """An OpenAI-compatible server whose answers `answer(model, messages)` writes: text, or a list of calls."""

    def __init__(self):
        self.answer, self.requests = None, []
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, kind, text):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_GET(self):
                names = ("gpt-5", "gpt-5-nano")
                self.send(
                    "application/json",
                    json.dumps(
                        {
                            "object": "list",
                            "data": [{"id": name, "object": "model"} for name in names],
                        }
                    ),
                )

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                upstream.requests.append(body)
                said = upstream.answer(body["model"], body["messages"])
                if isinstance(said, str):
                    delta, reason = {"role": "assistant", "content": said}, "stop"
                else:
                    calls = [
                        {"index": at, "id": f"c{at}", "type": "function", "function": call}
                        for at, call in enumerate(said)
                    ]
                    delta, reason = {"role": "assistant", "tool_calls": calls}, "tool_calls"
                head = {
                    "id": "x",
                    "created": 1,
                    "model": body["model"],
                    "object": "chat.completion.chunk",
                }
                usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
                chunks = [
                    {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
                    {"choices": [], "usage": usage},
                ]
                if not body.get("stream"):
                    message = (
                        {
                            **delta,
                            "tool_calls": [
                                {k: v for k, v in call.items() if k != "index"}
                                for call in delta["tool_calls"]
                            ],
                        }
                        if "tool_calls" in delta
                        else delta
                    )
                    answer = {
                        **head,
                        "object": "chat.completion",
                        "usage": usage,
                        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    }
                    return self.send("application/json", json.dumps(answer))
                self.send(
                    "text/event-stream",
                    "".join(f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks)
                    + "data: [DONE]\n\n",
                )

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def server():
    made = Upstream()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def upstream(server, monkeypatch, tmp_path):
    server.requests.clear()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return server


sandbox = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap keeps the code of models in, and is not there"
)


def turns(*texts):
    """What leads says these, one a turn; who is asked about parts echoes."""

    def answer(model, messages):
        if model == "gpt-5":
            return "<" + messages[-1]["content"] + ">"
        return texts[sum(message["role"] == "assistant" for message in messages)]

    return answer


SEARCH = [{"name": "search_database", "arguments": '{"query": "X"}'}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search_database",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }
]


def served_by(upstream):
    """A configuration with both models."""
    return "".join(
        f'[[model]]\nname = "{name}"\nengine = "openai"\nurl = "{upstream.url}"\nupstream_model = "{name}"\n'
        for name in ("gpt-5-nano", "gpt-5")
    )


@sandbox
def test_the_documents_examples(upstream, monkeypatch, capsys):
    module = types.ModuleType("rlm.rlm_api")
    module.RLMToolCallingAPI = RLMToolCallingAPI
    monkeypatch.setitem(sys.modules, "rlm", types.ModuleType("rlm"))
    monkeypatch.setitem(sys.modules, "rlm.rlm_api", module)
    upstream.answer = turns(
        "```repl\nprint(len(context))\n```", SEARCH, "FINAL(X is in the database)"
    )
    asked = []
    names = {"search_database": lambda query: asked.append(query) or "it is there"}
    exec(EXAMPLE_1, names)
    assert asked == ["X"] and capsys.readouterr().out.strip() == "X is in the database"
    upstream.answer = turns("```repl\nprint(llm_query('part'))\n```", "FINAL(analysed)")
    exec(EXAMPLE_2, names)
    assert names["response1"]["choices"][0]["message"]["content"] == "analysed"
    assert any(request["model"] == "gpt-5" for request in upstream.requests)
    names["api"].close()


@sandbox
def test_a_pause_and_what_is_kept(upstream):
    upstream.answer = turns(SEARCH, "FINAL(done)", "FINAL(never)")
    with RLMToolCallingAPI("gpt-5-nano", "gpt-5") as api:
        assert api.get_session_state()["state"] is None
        question = [{"role": "system", "content": "context"}, {"role": "user", "content": "Find X"}]
        response = api.chat_completion(question, TOOLS)
        state = api.session_state
        assert (
            (state["type"], state["state"]) == ("tool_calls", "paused")
            and state["iteration"] == 1
            and state["content"] is None
        )
        [call] = state["tool_calls"]
        assert (
            response["choices"][0]["message"]["tool_calls"] == [call]
            and response["model"] == "gpt-5-nano"
        )
        assert (
            call["function"]["arguments"]["query"]
            == "X"
            == json.loads(call["function"]["arguments"])["query"]
        )
        assert (
            api.current_query == "Find X"
            and api.current_context == question[:1]
            and api.current_tools == TOOLS
        )
        # The tools of before hold where the next request leaves them out.
        messages = [
            *question,
            response["choices"][0]["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": "there"},
        ]
        response = api.chat_completion(messages)
        assert (
            response["choices"][0]["message"]["content"] == "done"
            and api.session_state["state"] == "complete"
        )
        assert api.get_session_state()["state"] == "complete" and "there" in json.dumps(
            upstream.requests[-1]["messages"]
        )
        api.reset()
        assert (
            api.session_state
            is api.current_context
            is api.current_query
            is api.current_tools
            is None
        )


@sandbox
def test_the_documents_loop(upstream):
    """RLM_REPL.completion, as the document has it: calls pause it, results go on, the answer completes it."""
    upstream.answer = turns(SEARCH, "```repl\nFINAL(tool_results[0] + context)\n```")
    with RLM_REPL(model="gpt-5-nano", recursive_model="gpt-5", max_iterations=5) as loop:
        with pytest.raises(ValueError, match="no call waits"):
            loop.completion(tool_results=[])
        paused = loop.completion("context", "Find X", TOOLS)
        assert (paused["type"], paused["state"], paused["iteration"]) == ("tool_calls", "paused", 1)
        assert paused["tool_calls"][0]["function"]["arguments"]["query"] == "X"
        result = {
            "role": "tool",
            "tool_call_id": paused["tool_calls"][0]["id"],
            "content": "there:",
        }
        done = loop.completion(tool_results=[result])
        assert (done["type"], done["content"], done["state"]) == (
            "final_answer",
            "there:context",
            "complete",
        )
        with pytest.raises(ValueError, match="persistent"):
            loop.completion(query="and?")
        loop.reset()
        assert loop.messages == []


@sandbox
def test_contexts_and_several_questions(upstream, tmp_path):
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "b.json").write_text('{"k": [1, 2]}')
    contexts = [
        (None, "''"),
        ("text", "'text'"),
        (["a", "b"], "['a', 'b']"),
        (["a"], "['a']"),
        ({"a": {"b": None}}, "{'a': {'b': None}}"),
        ([{"role": "user", "content": "x"}], "[{'role': 'user', 'content': 'x'}]"),
        (tmp_path / "a.txt", "'alpha'"),
        (tmp_path / "b.json", "{'k': [1, 2]}"),
        (tmp_path, "{'a.txt': 'alpha', 'b.json': '{\"k\": [1, 2]}'}"),
    ]
    upstream.answer = turns("```repl\nFINAL(repr(context))\n```")
    with RLM_REPL("gpt-5-nano", "gpt-5") as loop:
        for context, told in contexts:
            assert loop.completion(context, "What is it?")["content"] == told
    upstream.answer = turns(
        "```repl\nn = context['n']\nFINAL(n)\n```", "```repl\nFINAL(n + 1)\n```"
    )
    with RLM_REPL("gpt-5-nano", "gpt-5", persistent=True) as loop:
        assert loop.completion({"n": 6}, "n?")["content"] == "6"
        assert loop.completion(query="n + 1?")["content"] == "7"
        assert "n + 1?" in json.dumps(upstream.requests[-1]["messages"])


@sandbox
def test_events_are_told_while_they_happen(upstream):
    """`on_event` gets each event, in this process and from a server, and the answer is the same as without it."""
    with tenon.Service(served_by(upstream)) as service:
        for options in ({"config": service}, {"base_url": service.listen() + "/v1"}):
            upstream.answer = turns(SEARCH, "```repl\nprint('seen')\nFINAL('over')\n```")
            events = []
            with RLM_REPL("gpt-5-nano", "gpt-5", on_event=events.append, **options) as loop:
                paused = loop.completion("context", "Find X", TOOLS)
                call = paused["tool_calls"][0]
                assert call["function"]["arguments"]["query"] == "X", paused
                kinds = [event["type"] for event in events]
                assert kinds[:2] == ["metadata", "iteration"] and kinds[-1] == "pause", kinds
                result = {"role": "tool", "tool_call_id": call["id"], "content": "there"}
                done = loop.completion(tool_results=[result])
            assert (done["content"], done["state"], done["iteration"]) == ("over", "complete", 2)
            cells = next(event for event in events if event["type"] == "cells")["cells"]
            assert cells[0]["stdout"] == "seen\n" and events[-1]["type"] == "final", events[-1]

            def stop(event):
                raise KeyError(event["type"])

            with RLM_REPL("gpt-5-nano", "gpt-5", on_event=stop, **options) as loop:
                with pytest.raises(KeyError, match="metadata"):
                    loop.completion("context", "Find X")


@sandbox
def test_on_a_server(upstream, model):
    """The same over HTTP, to a server that has both models."""
    upstream.answer = turns(SEARCH, "FINAL(done)")
    with tenon.Service(served_by(upstream)) as service:
        url = service.listen() + "/v1"
        api = rlm.create_rlm_client("gpt-5-nano", "gpt-5", base_url=url, max_iterations=5)
        response = api.chat_completion([{"role": "user", "content": "Find X"}], TOOLS)
        message = response["choices"][0]["message"]
        assert message["tool_calls"][0]["function"]["arguments"]["query"] == "X"
        result = {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": "there",
        }
        response = api.chat_completion(
            [{"role": "user", "content": "Find X"}, message, result], TOOLS
        )
        assert response["choices"][0]["message"]["content"] == "done"
        with pytest.raises(tenon.ApiError, match="nosuch"):
            RLMToolCallingAPI("nosuch", "gpt-5", base_url=url).chat_completion(
                [{"role": "user", "content": "x"}]
            )
        with pytest.raises(tenon.ApiError):
            api.chat_completion([{"role": "user", "content": "x"}], rlm={"nobody_knows": 1})
    with pytest.raises(tenon.UnavailableError):
        api.chat_completion([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    "options, error, said",
    [
        (
            {"max_iteration": 5},
            TypeError,
            "there is no argument 'max_iteration': limits are max_it",
        ),
        ({"session": "x"}, TypeError, "there is no argument 'session'"),
        ({"max_iterations": "5"}, TypeError, "max_iterations must be an int, not '5'"),
        ({"max_iterations": True}, TypeError, "max_iterations must be an int"),
        ({"max_depth": 1.5}, TypeError, "max_depth must be an int"),
        ({"depth": 0}, ValueError, "max_depth must be from 1 to 4, not 0"),
        ({"compact_at": 2}, ValueError, "compact_at must be from 0 to 1"),
        ({"max_time": float("nan")}, ValueError, "max_time must be from"),
        ({"events": "all"}, ValueError, "events must be one of none, reasoning, json"),
        ({"on_event": 5}, TypeError, "on_event must be callable"),
        ({"timeout_s": 0}, ValueError, "timeout_s must be above 0"),
        ({"timeout_s": "9"}, TypeError, "timeout_s must be a number"),
        ({"base_url": "localhost:8080"}, ValueError, "base_url must begin with http://"),
        ({"base_url": "http://localhost", "config": ""}, ValueError, "exclude each other"),
        ({"model": 5}, TypeError, "name of a model must be a str"),
        ({"recursive_model": ""}, ValueError, "name of a model is empty"),
    ],
)
def test_arguments_that_are_wrong_are_told_at_once(upstream, options, error, said):
    for make in (RLMToolCallingAPI, RLM_REPL):
        with pytest.raises(error) as told:
            make(**{"model": "gpt-5-nano", "recursive_model": "gpt-5", **options})
        assert said in str(told.value)
    assert not upstream.requests


def test_a_model_that_is_not_here_is_told_at_once(upstream, model):
    config = f'[[model]]\nname = "a/b"\nengine = "openai"\nurl = "{upstream.url}"\nupstream_model = "gpt-5"\n'
    with pytest.raises(tenon.ApiError, match="nosuch"):
        RLMToolCallingAPI("nosuch", "a/b", config=config)
    with pytest.raises(tenon.ApiError, match="nosuch"):
        ChatClient("nosuch", config=config)
    RLMToolCallingAPI("a/b", "a/b", config=config).close()
    ChatClient("a/b", config=config).close()
    RLMToolCallingAPI(str(model), str(model)).close()


def test_limits_are_those_of_requests(upstream):
    """What the constructor refuses, a request refuses too, and nothing else."""
    with tenon.Service(
        f'[[model]]\nname = "m"\nengine = "openai"\nurl = "{upstream.url}"\nupstream_model = "gpt-5"\n'
    ) as service:

        def refused(limits):
            body = {
                "model": "m:m",
                "messages": [{"role": "user", "content": " "}],
                "rlm": limits,
            }
            with pytest.raises(tenon.ApiError) as told:
                service.request("POST", "/v1/chat/completions", body)
            return str(told.value)

        assert "has no text" in refused({})
        known = refused({"nobody_knows": 1}).partition("rlm, which has ")[2]
        assert {"session", "events", "keep", "context", *rlm._LIMITS} == set(known.split(", "))
        for name, (kind, least, most) in rlm._LIMITS.items():
            for value in (least, most):
                assert "has no text" in refused({name: value}), (name, value)
            for value in (least - 1, most + 1):
                assert f"{name} must be from" in refused({name: value}), (name, value)
            if kind is int:
                assert f"{name} must be an integer" in refused({name: 1.5})


def test_client(upstream):
    upstream.answer = lambda model, messages: (
        SEARCH if "find" in messages[-1]["content"] else "Hello."
    )
    client = ChatClient("gpt-5")
    assert client.completion("Hi", max_tokens=7) == {
        "content": "Hello.",
        "tool_calls": None,
        "role": "assistant",
    }
    sent = upstream.requests[-1]
    assert sent.get("max_completion_tokens", sent.get("max_tokens")) == 7
    answer = client.completion([{"role": "user", "content": "find X"}], tools=TOOLS)
    assert (
        answer["content"] is None
        and answer["tool_calls"][0]["function"]["arguments"]["query"] == "X"
    )
    client.close()


def test_what_a_client_sends(upstream):
    """To a server as it is: max_tokens by its new name."""
    upstream.answer = lambda model, messages: "Hello."
    ChatClient("gpt-5", base_url=upstream.url + "/v1").completion(
        [{"role": "user", "content": "Hi"}], max_tokens=7, temperature=0
    )
    [sent] = upstream.requests
    assert sent == {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_completion_tokens": 7,
        "temperature": 0,
    }


def test_arguments():
    text = '{"query": "X", "n": [1]}'
    arguments = Arguments(text)
    assert (
        arguments == text
        and isinstance(arguments, str)
        and json.dumps({"a": arguments}) == json.dumps({"a": text})
    )
    assert (
        arguments["query"],
        arguments["n"],
        arguments.get("nosuch", 5),
        arguments[0],
        arguments[1:8],
    ) == ("X", [1], 5, "{", '"query"')
    assert list(arguments.keys()) == ["query", "n"] and dict(arguments.items()) == arguments.loads()
    with pytest.raises(KeyError):
        arguments["nosuch"]


def test_helpers():
    assert (
        rlm.extract_response_content({"content": "a"}) == rlm.extract_response_content("a") == "a"
    )
    assert rlm.extract_response_content({}) == ""
    assert rlm.format_tool_calls_for_messages([1]) == [{"role": "assistant", "tool_calls": [1]}]
