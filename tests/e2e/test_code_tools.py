"""Code that calls tools (docs/code-tools.md), by the official SDKs of Anthropic and OpenAI: a model writes it, the sandbox runs it."""
import concurrent.futures
import json
import pathlib
import sys

import anthropic
import openai
import pytest
from data import SAMPLES
from scripted_upstream import call
from test_hosted_tools import hosted, house, of_anthropic, of_openai, tool
from test_sandbox import MORE, SECRET, aimed, attacks, listener
from test_tools import replayed, results

CODE = {"type": "code_execution_20260120", "name": "code_execution"}
ONLY_CODE = ["code_execution_20260120"]
ON = "code_execution = true\n"
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "Its name"}, "unit": {"enum": ["c", "f"]}},
        "required": ["city"], "additionalProperties": False}
DEGREES = {"Rome": 31, "Oslo": 12, "Nuuk": 3}

assert hosted and listener  # fixtures


def weather(**more):
    return {"name": "get_weather", "description": "The weather in a city", "input_schema": CITY, **more}


def writes(code):
    """A model that writes this code once, and then says what it printed."""
    def script(prompt):
        told = results(prompt)
        return f"It said: {told[-1]}" if told else "I look. " + call("code_execution", {"code": code})
    return script


def result_of(block):
    return {"type": "tool_result", "tool_use_id": block.id, "content": json.dumps({"degrees": DEGREES[block.input["city"]]})}


def talk(client, tools, streams=False, answer=result_of, **more):
    """All answers of one conversation: the client runs the calls that it gets."""
    messages, answers, container = [{"role": "user", "content": "Where is it warmest?"}], [], {}
    while True:
        asked = {"model": "scripted", "max_tokens": 1000, "messages": messages, "tools": tools, **more, **container}
        if streams:
            with client.messages.stream(**asked) as stream:
                said = stream.get_final_message()
        else:
            said = client.messages.create(**asked)
        answers.append(said)
        if said.stop_reason != "tool_use":
            return answers
        assert len(answers) < 20
        container = {"container": said.container.id} if said.container else {}
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in said.content]})
        messages.append({"role": "user", "content": [answer(block) for block in said.content if block.type == "tool_use"]})


def printed(answers):
    (block,) = [block for said in answers for block in said.content if block.type == "code_execution_tool_result"]
    return block.content


@pytest.mark.parametrize("streams", [False, True])
def test_code_waits_for_the_clients_tools_and_goes_on(streams, tmp_path):
    code = ("found = {city: get_weather(city)['degrees'] for city in ['Rome', 'Oslo', 'Nuuk']}\n"
            "print(max(found, key=found.get))")
    with house(tmp_path, writes(code), more=ON) as (server, upstream):
        answers = talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)], streams)
        first, second, third, last = answers
        assert [block.type for block in first.content] == ["text", "server_tool_use", "tool_use"]
        _, wrote, asked = first.content
        assert (wrote.name, wrote.input, wrote.caller.type) == ("code_execution", {"code": code}, "direct")
        assert wrote.id.startswith("srvtoolu_") and asked.id.startswith("toolu_")
        assert (asked.name, asked.input) == ("get_weather", {"city": "Rome"})
        for said in answers[:-1]:
            assert said.stop_reason == "tool_use" and said.container.id.startswith("container_")
            (block,) = [block for block in said.content if block.type == "tool_use"]
            assert (block.caller.type, block.caller.tool_id) == ("code_execution_20260120", wrote.id)
        assert [len(said.content) for said in (second, third)] == [1, 1]
        assert [block.type for block in last.content] == ["code_execution_tool_result", "text"]
        told = last.content[0]
        assert told.tool_use_id == wrote.id
        assert (told.content.type, told.content.stdout, told.content.stderr, told.content.return_code) == (
            "code_execution_result", "Rome\n", "", 0)
        assert last.content[1].text == "It said: Rome\n" and last.stop_reason == "end_turn"
        # The model was asked twice, and has seen what was printed alone.
        assert len(upstream.prompts) == 2 and "degrees" not in results(upstream.prompts[1])[0]
        assert upstream.prompts[1].startswith(upstream.prompts[0])
        # Its history says the same to the model as the answer itself did.
        history = [{"role": "user", "content": "Where is it warmest?"}]
        for said in answers:
            history.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in said.content]})
            if said.stop_reason == "tool_use":
                history.append({"role": "user", "content": [result_of(block) for block in said.content if block.type == "tool_use"]})
        history.append({"role": "user", "content": "Thanks"})
        of_anthropic(server).messages.create(model="scripted", max_tokens=100, messages=history,
                                             tools=[CODE, weather(allowed_callers=ONLY_CODE)])
        assert upstream.prompts[-1].startswith(upstream.prompts[1])


def test_calls_that_are_made_together_reach_the_client_together(tmp_path):
    code = ("import asyncio\nfound = await asyncio.gather(*(get_weather(city) for city in ['Rome', 'Oslo', 'Nuuk']))\n"
            "print(sum(one['degrees'] for one in found))")
    with house(tmp_path, writes(code), more=ON) as (server, _):
        answers = talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)])
        assert printed(answers).stdout == "46\n"
        assert sum(block.type == "tool_use" for said in answers for block in said.content) == 3
        assert len(answers) <= 3  # in one answer, unless the machine is very busy


def test_a_new_server_goes_on_with_the_code(tmp_path):
    """The conversation has all that is needed."""
    tools = [CODE, weather(allowed_callers=ONLY_CODE)]
    asked = {"model": "scripted", "max_tokens": 1000, "tools": tools}
    messages = [{"role": "user", "content": "Warm?"}]
    script = writes("print(get_weather('Rome')['degrees'])")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with house(tmp_path / "a", script, more=ON) as (server, _):
        said = of_anthropic(server).messages.create(**asked, messages=messages)
    messages += [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in said.content]},
                 {"role": "user", "content": [result_of(said.content[-1])]}]
    with house(tmp_path / "b", script, more=ON) as (server, _):
        said = of_anthropic(server).messages.create(**asked, messages=messages)
    assert printed([said]).stdout == "31\n"


def listed(prompt):
    """The tools that the prompt lists, by name."""
    text, tools, decoder = prompt.split("<tools>")[1].split("</tools>")[0], {}, json.JSONDecoder()
    while text:
        tool, end = decoder.raw_decode(text)
        tools[tool["function"]["name"]], text = tool["function"], text[end:].lstrip()
    return tools


def test_who_may_call_a_tool_is_enforced(tmp_path):
    tools = [CODE, weather(allowed_callers=ONLY_CODE), weather(name="book"), weather(name="both", allowed_callers=["direct", *ONLY_CODE])]
    code = ("for name in ('book', 'get_weather'):\n    try:\n        print(call_tool(name, {'city': 'Rome'}))\n"
            "    except ToolError as error:\n        print(error)\nprint('book' in globals())")
    with house(tmp_path, writes(code), more=ON) as (server, upstream):
        answers = talk(of_anthropic(server), tools)
        names = listed(upstream.prompts[0])
        assert set(names) == {"book", "both", "code_execution"}
        said = names["code_execution"]["description"]
        assert "def get_weather(city: str, unit: Literal[\"c\", \"f\"] = ...) -> Any:" in said and "city: Its name" in said
        assert "def both(" in said and "def book(" not in said
        assert printed(answers).stdout == 'there is no tool "book" that code may call\n' + "{'degrees': 31}\nFalse\n"
    # A model that calls it all the same has made no call.
    with house(tmp_path, lambda prompt: call("get_weather", {"city": "Rome"}), more=ON) as (server, upstream):
        said = of_anthropic(server).messages.create(model="scripted", max_tokens=100, tools=tools,
                                                    messages=[{"role": "user", "content": "Warm?"}])
        assert [block.type for block in said.content if block.type == "tool_use"] == []
        # Neither has one whose turn has no code.
        for choice in ({"type": "none"}, {"type": "tool", "name": "book"}):
            of_anthropic(server).messages.create(model="scripted", max_tokens=100, tools=tools, tool_choice=choice,
                                                 messages=[{"role": "user", "content": "Warm?"}])
            assert "get_weather" not in upstream.prompts[-1]


def test_arguments_are_checked_before_a_call_leaves(tmp_path):
    code = ("for arguments in ({'city': 3}, {'city': 'Rome', 'unit': 'k'}, {}):\n"
            "    try:\n        print(call_tool('get_weather', arguments))\n    except ToolError as error:\n        print('no:', error)")
    with house(tmp_path, writes(code), more=ON) as (server, _):
        (said,) = talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)])
        assert printed([said]).stdout.count("no: ") == 3 and "/city" in printed([said]).stdout


def test_a_failed_call_is_an_exception(tmp_path):
    def fails(block):
        return {"type": "tool_result", "tool_use_id": block.id, "content": "no such city", "is_error": True}

    with house(tmp_path, writes("get_weather('Atlantis')"), more=ON) as (server, _):
        told = printed(talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)], answer=fails))
        assert told.return_code == 1 and told.stderr.endswith("ToolError: no such city")


def test_the_servers_own_tools_are_called_at_once_and_only_once(tmp_path):
    tool = tmp_path / "count.py"
    tool.write_text("#!/usr/bin/env python3\nimport json, sys\nopen('calls', 'a').write(sys.stdin.readline())\nprint('{\"n\": 7}')\n")
    tool.chmod(0o755)
    (tmp_path / "tools.json").write_text(json.dumps([{"name": name, "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
                                                      "command": [str(tool)]} for name in ("count", "secret")]))
    more = ON + f'execute = "server"\ntools = "{tmp_path / "tools.json"}"\ncode_calls = ["count"]\n'
    code = "a = count(x=1)['n']\nb = get_weather('Rome')['degrees']\nprint(a + b + count(x=2)['n'], 'secret' in globals())"
    with house(tmp_path, writes(code), more=more) as (server, upstream):
        answers = talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)])
        assert printed(answers).stdout == "45 False\n"
        assert (tmp_path / "calls").read_text().splitlines() == ['{"x":1}', '{"x":2}']
        assert set(listed(upstream.prompts[0])) == {"count", "secret", "code_execution"}


@pytest.mark.parametrize("more, code, says", [
    ("code_max_calls = 2\n", "for city in ('Rome', 'Oslo', 'Nuuk'): get_weather(city)", "the 2 calls that it may make"),
    ("code_timeout_s = 1\n", "while True: pass", "time limit of 1 s"),
    ("code_max_bytes = 1024\n", "get_weather('Rome' * 300)", "the limit of 1024 bytes"),
    ("code_output_chars = 100\n", "print('x' * 1000)", "[901 more characters were printed]")])
def test_budgets_end_what_code_does(more, code, says, tmp_path):
    with house(tmp_path, writes(code), more=ON + more) as (server, _):
        told = printed(talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)]))
        assert says in told.stdout + told.stderr


@pytest.mark.parametrize("settings, tools, says", [
    ("", [CODE, weather(allowed_callers=ONLY_CODE)], "code_execution = true"),
    (ON, [CODE, weather(input_schema={"properties": {"a": {"type": []}}}, allowed_callers=ONLY_CODE)], "'get_weather': /properties/a/type: must"),
    (ON, [weather(allowed_callers=ONLY_CODE)], "tools has none that runs code"),
    (ON, [CODE, weather(allowed_callers=[])], "must name who may call"),
    (ON, [CODE, weather(allowed_callers=["friends"])], "direct"),
    (ON, [CODE, weather(name="code_execution")], "as the one that runs code is"),
    (ON, [CODE, {**CODE, "type": "code_execution_20250825"}], "a second tool that runs code")])
def test_what_cannot_be_is_refused(settings, tools, says, tmp_path):
    with house(tmp_path, writes("print(1)"), more=settings) as (server, upstream):
        with pytest.raises(anthropic.BadRequestError) as refused:
            talk(of_anthropic(server), tools)
        assert says in str(refused.value) and not upstream.prompts
    with house(tmp_path, writes("print(1)"), more=ON) as (server, upstream), pytest.raises(anthropic.BadRequestError) as refused:
        talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE)], tool_choice={"type": "tool", "name": "get_weather"})
    assert "tool_choice cannot name it" in str(refused.value)


def test_many_tools_are_named_and_found_by_code(tmp_path):
    def script(prompt):
        told = results(prompt)
        if not told:
            return call("code_execution", {"code": "print(tool_docs('weather'))"})
        return "Done." if len(told) == 2 else call("code_execution", {"code": "print(get_weather('Rome')['degrees'])"})

    tools = [{"name": f"bank_{number}", "description": "Does this at the bank " * 5, "input_schema": CITY, "allowed_callers": ONLY_CODE}
             for number in range(500)]
    with house(tmp_path, script, more=ON) as (server, upstream):
        talk(of_anthropic(server), [CODE, *tools, weather(allowed_callers=ONLY_CODE)])
        assert len(upstream.prompts[0]) < 20_000
        first, second = results(upstream.prompts[-1])
        assert "def get_weather(city: str" in first and second == "31\n"


@pytest.mark.parametrize("file", [
    pytest.param(SAMPLES / "attacks.py", id="own"),
    pytest.param(MORE, id="large", marks=pytest.mark.skipif(not MORE.exists(), reason=f"NOT TESTED: the large set of attacks is not at {MORE}"))])
def test_attacks_are_refused(file, listener, tmp_path):
    """As in test_sandbox.py; here a model has written them."""
    port, connections = listener
    programs = {name: aimed(code, port) for name, code in attacks(file).items()}
    with house(tmp_path, lambda prompt: call("code_execution", {"code": programs[prompt.split("RUN ")[1].split("<|im_end|>")[0]]})
               if "<tool_response>" not in prompt else "Done.", more=ON + "code_timeout_s = 1\n") as (server, _):
        client = of_anthropic(server)

        def run(name):
            said = client.messages.create(model="scripted", max_tokens=1000, tools=[CODE], messages=[{"role": "user", "content": f"RUN {name}"}])
            told = printed([said])
            return name if "BREACH" in told.stdout or SECRET in json.dumps(said.to_dict()["content"][1]) else None

        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # many attacks wait until their time is over
            assert not [name for name in pool.map(run, programs) if name]
    assert not connections, "code reached a socket of the host"
    assert not [mark for mark in ("/var/tmp/PWNED", "/usr/lib/PWNED") if pathlib.Path(mark).exists()]


def of_responses(name="get_weather", **more):
    return {"type": "function", "name": name, "description": "The weather in a city", "parameters": CITY, "strict": False, **more}


PROGRAM = {"type": "programmatic_tool_calling"}


def writes_program(code):
    def script(prompt):
        told = results(prompt)
        return f"It said: {told[-1]}" if told else "I look. " + call("run_code", {"code": code})
    return script


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("streams", [False, True])
def test_responses_have_programs_and_calls_of_them(streams, keeps, tmp_path):
    code = ("found = {city: get_weather(city)['degrees'] for city in ['Rome', 'Oslo']}\n"
            "print(max(found, key=found.get))")
    with house(tmp_path, writes_program(code), more=ON) as (server, upstream):
        client = of_openai(server)
        items, said, more = [{"role": "user", "content": "Where is it warmest?"}], [], {}
        while True:
            response = client.responses.create(model="scripted", input=items, store=keeps, stream=streams, **more,
                                               tools=[PROGRAM, of_responses(allowed_callers=["programmatic"])])
            if streams:
                events = list(response)
                response = events[-1].response
                assert [event.item for event in events if event.type == "response.output_item.done"] == response.output
            said.append(response)
            calls = [item for item in response.output if item.type == "function_call"]
            answers = [{"type": "function_call_output", "call_id": one.call_id, "output": json.dumps({"degrees": DEGREES[json.loads(one.arguments)["city"]]})}
                       for one in calls]
            if not calls:
                break
            if keeps:
                items, more = answers, {"previous_response_id": response.id}
            else:
                items = [*items, *(item.model_dump(exclude_none=True) for item in response.output), *answers]
        first, second, last = said
        assert [item.type for item in first.output] == ["message", "program", "function_call"]
        _, program, asked = first.output
        assert program.code == code and program.fingerprint
        assert (asked.caller.type, asked.caller.caller_id) == ("program", program.call_id)
        assert [item.type for item in second.output] == ["function_call"] and second.output[0].caller.caller_id == program.call_id
        assert [item.type for item in last.output] == ["program_output", "message"]
        assert (last.output[0].call_id, last.output[0].result, last.output[0].status) == (program.call_id, "Rome\n", "completed")
        assert last.output_text == "It said: Rome\n" and len(upstream.prompts) == 2
        assert "get_weather" in listed(upstream.prompts[0])["run_code"]["description"] and set(listed(upstream.prompts[0])) == {"run_code"}


def test_responses_refuse_tools_that_nothing_could_call(tmp_path):
    with house(tmp_path, writes_program("print(1)"), more=ON) as (server, _), pytest.raises(openai.BadRequestError) as refused:
        of_openai(server).responses.create(model="scripted", input="Hi", tools=[of_responses(allowed_callers=["programmatic"])])
    assert "programmatic_tool_calling" in str(refused.value)
    with house(tmp_path, writes_program("print(1)")) as (server, _), pytest.raises(openai.BadRequestError) as refused:
        of_openai(server).responses.create(model="scripted", input="Hi", tools=[PROGRAM, of_responses(allowed_callers=["programmatic"])])
    assert refused.value.code == "code_execution_off"


def test_code_that_nothing_needs_is_left_out(tmp_path):
    """Agents send the tool as a matter of course, also to a model that runs no code."""
    both = ["direct", *ONLY_CODE]
    with house(tmp_path, lambda prompt: "Hello.") as (server, upstream):
        client = of_anthropic(server)
        asked = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], "tools": [CODE, weather(allowed_callers=both)]}
        raw = client.messages.with_raw_response.create(**asked, max_tokens=100)
        said = raw.parse()
        assert said.content[0].text == "Hello." and said.container is None and raw.headers["x-tenon-left-out"] == "tools"
        assert [one["message"] for one in said.tenon["repairs"]] == [
            'the tool "code_execution" is left out: "scripted" runs no code (docs/code-tools.md)']
        assert set(listed(upstream.prompts[0])) == {"get_weather"}
        assert client.messages.count_tokens(**asked).input_tokens > 0
        said = of_openai(server).responses.create(model="scripted", input="Hi", tools=[PROGRAM])
        assert said.output_text == "Hello." and "run_code" not in upstream.prompts[-1]
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(**{**asked, "tools": [CODE]}, max_tokens=100, tool_choice={"type": "any"})
        assert refused.value.body["error"]["code"] == "code_execution_off"


@pytest.mark.parametrize("choice", ["none", "book"])
def test_code_that_waits_goes_on_whatever_tool_choice_says(choice, tmp_path):
    """The choice is about the model's next call; the code is there already."""
    tools = [CODE, weather(allowed_callers=ONLY_CODE), weather(name="book")]
    messages = [{"role": "user", "content": "Warm?"}]
    with house(tmp_path, writes("print(get_weather('Rome')['degrees'])"), more=ON) as (server, upstream):
        asked = {"model": "scripted", "max_tokens": 1000, "tools": tools}
        first = of_anthropic(server).messages.create(**asked, messages=messages)
        messages += [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
                     {"role": "user", "content": [result_of(first.content[-1])]}]
        chosen = {"type": "none"} if choice == "none" else {"type": "tool", "name": choice}
        last = of_anthropic(server).messages.create(**asked, messages=messages, tool_choice=chosen)
        assert printed([last]).stdout == "31\n" and results(upstream.prompts[-1]) == ["31\n"]


@pytest.fixture
def large_numbers():
    """This process may write numbers of more digits than Python reads by itself."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


def test_a_schema_of_one_tool_does_not_break_the_others(large_numbers, tmp_path):
    strange = weather(name="strange", allowed_callers=ONLY_CODE, input_schema={"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"const": 10 ** 5000}, "c": {"enum": ['\N{GRINNING FACE}"', 1e300]}}})
    with house(tmp_path, writes("print(get_weather('Rome')['degrees'])"), more=ON) as (server, _):
        assert printed(talk(of_anthropic(server), [CODE, strange, weather(allowed_callers=ONLY_CODE)])).stdout == "31\n"


def test_the_log_tells_names_of_code_calls_that_code_cannot_call(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps([{"name": name, "parameters": {}, "command": ["true"]} for name in ("count", "put")]))
    more = ON + f'execute = "server"\ntools = "{tmp_path / "tools.json"}"\ncode_calls = ["count", "cuont", "put"]\napprove_always = ["put"]\n'
    with house(tmp_path, lambda prompt: "Hello.", more=more) as (server, _):
        of_anthropic(server).messages.create(model="scripted", max_tokens=100, messages=[{"role": "user", "content": "Hi"}])
    told = [line for line in (tmp_path / "log").read_text().splitlines() if "code_calls" in line]
    assert len(told) == 2 and 'no tool "cuont" of code_calls runs here' in told[0] and 'cannot call the tool "put" of code_calls' in told[1], told


def test_servers_that_a_response_names_are_called_by_code(hosted, tmp_path):
    code = "print(get_weather('Rome'))\ntry:\n    book('Rome')\nexcept NameError as error:\n    print(error)"
    with house(tmp_path, writes_program(code), f'mcp_allow = ["{hosted}"]', ON) as (server, upstream):
        said = of_openai(server).responses.create(model="scripted", input="Weather?", tools=[
            PROGRAM, tool(hosted, require_approval={"never": {"tool_names": ["get_weather"]}}, allowed_callers=["programmatic"])])
        (output,) = [item for item in said.output if item.type == "program_output"]
        assert output.result == "heavy rain in Rome\nname 'book' is not defined\n"
        assert set(listed(upstream.prompts[0])) == {"run_code"}


def test_code_beside_a_call_of_the_clients_is_left(tmp_path):
    """The client answers its own call with another request, which the model then goes on from."""
    both = call("code_execution", {"code": "print(1)"}) + call("book", {"city": "Rome"})
    with house(tmp_path, lambda prompt: "Done." if "<tool_response>" in prompt else both, more=ON) as (server, upstream):
        first, last = talk(of_anthropic(server), [CODE, weather(name="book")])
        assert [block.type for block in first.content] == ["server_tool_use", "tool_use", "code_execution_tool_result"]
        assert first.content[1].caller.type == "direct" and "was not run" in first.content[2].content.stderr
        assert last.content[0].text == "Done." and "was not run" in results(upstream.prompts[-1])[0]


def test_code_that_has_no_end_is_not_run(tmp_path):
    """Such as code that max_tokens has cut."""
    history = [{"role": "user", "content": "Warm?"},
               {"role": "assistant", "content": [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "print(1)"}}]},
               {"role": "user", "content": "And?"}]
    with house(tmp_path, lambda prompt: "Done.", more=ON) as (server, upstream):
        said = of_anthropic(server).messages.create(model="scripted", max_tokens=100, tools=[CODE], messages=history)
        assert [block.type for block in said.content] == ["text"]
        assert results(upstream.prompts[-1]) == ["Error: this code has not come to its end, and what it gave is not known"]


def test_code_and_tools_of_a_server_run_in_one_answer(hosted, tmp_path):
    both = call("code_execution", {"code": "print(get_weather('Rome')['degrees'])"}) + call("book", {"city": "Oslo"})
    with house(tmp_path, lambda prompt: "Done." if "<tool_response>" in prompt else both, f'mcp_allow = ["{hosted}"]', ON) as (server, upstream):
        client = of_anthropic(server)
        asked = {"model": "scripted", "max_tokens": 1000, "tools": [CODE, weather(allowed_callers=ONLY_CODE), {"type": "mcp_toolset", "mcp_server_name": "town"}],
                 "mcp_servers": [{"type": "url", "name": "town", "url": hosted}], "betas": ["mcp-client-2025-11-20"]}
        messages = [{"role": "user", "content": "Warm?"}]
        first = client.beta.messages.create(**asked, messages=messages)
        assert [block.type for block in first.content] == ["server_tool_use", "mcp_tool_use", "mcp_tool_result", "tool_use"]
        messages += [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
                     {"role": "user", "content": [result_of(first.content[-1])]}]
        last = client.beta.messages.create(**asked, messages=messages)
        assert [block.type for block in last.content] == ["code_execution_tool_result", "text"]
        assert sorted(results(upstream.prompts[-1])) == ["31\n", "a table in Oslo"]


def test_the_tool_that_runs_code_is_not_searched_for(tmp_path):
    tools = [weather(name=f"bank_{number}") for number in range(15)]
    more = ON + 'tool_search = "auto"\ntool_search_from = 10\n'
    with house(tmp_path, writes("print(get_weather('Rome')['degrees'])"), more=more) as (server, upstream):
        answers = talk(of_anthropic(server), [CODE, weather(allowed_callers=ONLY_CODE), *tools])
        assert printed(answers).stdout == "31\n"
        assert set(listed(upstream.prompts[0])) == {"tool_search", "code_execution"}


def test_recordings_of_code_are_not_replayed(tmp_path):
    with house(tmp_path, writes("print(1)"), f'record = "{tmp_path / "records"}"', ON) as (server, _):
        talk(of_anthropic(server), [CODE])
    ((status, said),) = replayed(tmp_path / "records")
    assert status == 3 and "a replay runs none" in said
