"""OpenAI's Responses through the SDK people use."""
import json
import re
import subprocess
import time
import typing

import jsonschema
import openai
import pydantic
import pytest
import requests
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from serving import ROOT, TENON, serving
from tools import MULTIPLY, WEATHER, settled


def flat(tool):
    return {"type": "function", "strict": None, **tool["function"]}


TOOLS = [flat(WEATHER), flat(MULTIPLY)]
SCHEMAS = {tool["name"]: tool["parameters"] for tool in TOOLS}
ASK = {"model": "tenon-tiny", "max_output_tokens": 128, "temperature": 0, "tools": TOOLS,
       "input": "What is the weather in Paris?"}
WORDS = {"type": "custom", "name": "shout", "description": "Shouts.",
         "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z]{2,8}"}}


# A text that has some length.
WORD = {"format": {"type": "json_schema", "name": "word", "strict": True, "schema": {"type": "string", "pattern": "^[a-z ]{40,60}$"}}}


def check_calls(response):
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        assert call.call_id and call.status == "completed"
    return calls


OF_ONE_ANSWER = ("id", "item_id", "call_id", "parsed", "parsed_arguments")  # the last two are the SDK's own


def without_ids(value):
    if isinstance(value, list):
        return [without_ids(each) for each in value]
    if isinstance(value, dict):
        return {key: without_ids(each) for key, each in value.items() if key not in OF_ONE_ANSWER}
    return value


def outputs_of(response):
    return without_ids([item.model_dump() for item in response.output])


def is_strictly(kind, value):
    """Whether the SDK's own type takes the value; the SDK itself builds anything from anything."""
    pydantic.TypeAdapter(kind).validate_python(value.model_dump(), strict=False)


CHOICES = [
    ("auto", "auto"),
    ("required", "required"),
    ("named", {"type": "function", "name": "multiply"}),
    ("allowed", {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}),
    ("none", "none"),
]


@pytest.mark.parametrize("choice", [row[1] for row in CHOICES], ids=[row[0] for row in CHOICES])
def test_tool_choices_stream_as_they_answer(client, choice):
    whole = settled(lambda: client.responses.create(**ASK, tool_choice=choice))
    is_strictly(openai.types.responses.Response, whole)
    calls = check_calls(whole)
    assert choice == "auto" or bool(calls) == (choice != "none")
    assert whole.status in ("completed", "incomplete")
    if isinstance(choice, dict):
        names = [tool["name"] for tool in choice.get("tools", [choice])]
        assert {call.name for call in calls} <= set(names)
    with client.responses.stream(**ASK, tool_choice=choice) as stream:
        events = list(stream)
    last = events[-1]
    assert last.type == "response." + whole.status
    assert outputs_of(last.response) == outputs_of(whole)
    assert last.response.usage.output_tokens == whole.usage.output_tokens


ORDER = re.compile(
    "(response.created )(response.in_progress )"
    "((response.output_item.added )"
    "((response.content_part.added )(response.(?P<part>output_text|reasoning_text).delta )+"
    "(response.(output_text|reasoning_text).done )(response.content_part.done )"
    "|(response.function_call_arguments.delta )*(response.function_call_arguments.done )"
    "|(response.custom_tool_call_input.delta )*(response.custom_tool_call_input.done ))"
    "(response.output_item.done ))*"
    "(response.completed|response.incomplete)$")


@pytest.mark.parametrize("tools", [TOOLS, [WORDS], []], ids=["functions", "custom", "text"])
def test_events_come_in_order_and_numbered(client, tools):
    choice = "required" if tools else "auto"
    events = list(client.responses.create(**{**ASK, "tools": tools, "tool_choice": choice}, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert ORDER.match(" ".join(event.type for event in events))
    for event in events:
        is_strictly(type(event), event)
    items = {}
    for event in events:
        if event.type.endswith(".delta"):
            items[event.output_index] = items.get(event.output_index, "") + event.delta
    for index, item in enumerate(events[-1].response.output):
        said = {"function_call": "arguments", "custom_tool_call": "input"}.get(item.type)
        assert items.get(index, "") == (getattr(item, said) if said else item.content[0].text)


def test_the_whole_loop_by_what_was_before(played_client):
    client = played_client
    first = client.responses.create(**ASK, tool_choice="required", instructions="Be kind.")
    outputs = [{"type": "function_call_output", "call_id": call.call_id,
                "output": json.dumps({"temperature": 18, "condition": "sunny"})} for call in check_calls(first)]
    second = client.responses.create(**{**ASK, "input": outputs}, previous_response_id=first.id)
    assert second.previous_response_id == first.id and second.instructions is None
    assert second.output_text == 'It is so: {"temperature": 18, "condition": "sunny"}' and second.usage.input_tokens > first.usage.input_tokens
    # The same with everything sent again, and by references.
    history = [{"role": "user", "content": ASK["input"]}, *first.output, *outputs]
    again = client.responses.create(**{**ASK, "input": history}, store=False)
    named = [{"role": "user", "content": ASK["input"]},
             *({"type": "item_reference", "id": item.id} for item in first.output), *outputs]
    referred = client.responses.create(**{**ASK, "input": named}, store=False)
    assert again.usage.input_tokens == second.usage.input_tokens == referred.usage.input_tokens
    assert outputs_of(again) == outputs_of(second)


def test_a_response_is_kept_until_it_is_deleted(client):
    made = client.responses.create(**ASK, metadata={"k": "v"})
    kept = client.responses.retrieve(made.id)
    assert kept.model_dump() == made.model_dump() and kept.metadata == {"k": "v"}
    items = client.responses.input_items.list(made.id)
    assert items.data[0].content[0].text == ASK["input"]
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(made.id)
    client.responses.delete(made.id)
    for gone in (client.responses.retrieve, client.responses.delete, client.responses.cancel,
                 client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            gone(made.id)


def test_nothing_is_kept_where_it_must_not(client):
    made = client.responses.create(**ASK, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(**ASK, previous_response_id=made.id)
    assert raised.value.code == "previous_response_not_found" and raised.value.param == "previous_response_id"


def test_a_streamed_response_is_kept_before_its_end_is_told(client):
    ends = 0
    for event in client.responses.create(**ASK, stream=True):
        if event.type in ("response.completed", "response.incomplete"):
            assert client.responses.retrieve(event.response.id).output == event.response.output
            ends += 1
    assert ends == 1


def test_what_is_kept_outlives_the_server(tmp_path):
    config = tmp_path / "tenon.toml"
    config.write_text(f'[server]\nstore = "kept.db"\n[[model]]\nname = "tenon-tiny"\n'
                      f'path = "{ROOT / "models" / "tenon-tiny.gguf"}"\n')
    made = None
    for _ in range(2):
        with serving(tmp_path / "serve.log", "--config", str(config)) as running:
            client = openai.OpenAI(base_url=running.url + "/v1", api_key="x", max_retries=0, timeout=60)
            if made is None:
                made = client.responses.create(**ASK)
            else:
                assert client.responses.retrieve(made.id).model_dump() == made.model_dump()
    assert (tmp_path / "kept.db").stat().st_mode & 0o777 == 0o600


def test_custom_tools_take_what_their_grammar_takes(client):
    response = client.responses.create(**{**ASK, "tools": [WORDS], "tool_choice": {"type": "custom", "name": "shout"}})
    call = next(item for item in response.output if item.type == "custom_tool_call")
    assert re.fullmatch(WORDS["format"]["definition"], call.input)
    second = client.responses.create(**{**ASK, "tools": [WORDS], "input": [
        {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}], "tool_choice": "required"},
        previous_response_id=response.id)
    assert [item.type for item in second.output][:1] == ["custom_tool_call"]


def test_the_text_fits_its_schema(client):
    class Place(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        city: typing.Literal["Paris", "Rome"]
        sunny: bool

    plain = {key: value for key, value in ASK.items() if key != "tools"}
    parsed = client.responses.parse(**plain, text_format=Place)
    assert isinstance(parsed.output_parsed, Place)
    free = client.responses.create(**plain, text={"format": {"type": "json_schema", "name": "place", "strict": True,
                                                             "schema": Place.model_json_schema()}})
    Place.model_validate_json(free.output_text)


def test_tokens_are_counted_as_they_are_used(client):
    counted = client.responses.input_tokens.count(model=ASK["model"], input=ASK["input"], tools=TOOLS)
    assert counted.input_tokens == client.responses.create(**ASK).usage.input_tokens
    assert counted.object == "response.input_tokens"


def test_logprobs_are_those_of_the_text(client):
    response = client.responses.create(**{**ASK, "tools": []}, text=WORD, include=["message.output_text.logprobs"], top_logprobs=2)
    text = response.output[-1].content[0]
    assert text.text and "".join(token.token for token in text.logprobs) == text.text
    assert all(len(token.top_logprobs) == 2 for token in text.logprobs)


def test_a_cut_answer_is_incomplete(client):
    response = client.responses.create(**{**ASK, "tools": [], "max_output_tokens": 2}, text=WORD)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
    assert response.output[-1].status == "incomplete"


# ---- without its client, in conversations, summed up


def polled(client, response):
    deadline = time.monotonic() + 60
    while response.status == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def test_a_response_is_made_in_the_background(client):
    begun = client.responses.create(**ASK, background=True)
    assert begun.background and begun.status in ("in_progress", "completed", "incomplete")
    made = polled(client, begun)
    assert made.status in ("completed", "incomplete") and made.id == begun.id and made.output
    events = list(client.responses.retrieve(made.id, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.model_dump() == made.model_dump()
    later = list(client.responses.retrieve(made.id, stream=True, starting_after=3))
    assert [event.sequence_number for event in later] == list(range(4, len(events)))
    assert client.responses.cancel(made.id).status == made.status, "it is over"
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_a_response_in_the_background_is_cancelled(client):
    endless = {**ASK, "tools": [], "max_output_tokens": 3000, "text": {"format": {
        "type": "json_schema", "name": "n", "schema": {"type": "string", "pattern": "^[a-z ]{2500,}$"}}}}
    begun = client.responses.create(**endless, background=True)
    assert client.responses.cancel(begun.id).status == "cancelled"
    assert client.responses.retrieve(begun.id).status == "cancelled"


def test_a_conversation_grows_by_what_is_asked_and_answered(client):
    made = client.conversations.create(metadata={"topic": "boats"}, items=[
        {"type": "message", "role": "user", "content": "We repair the old boat."}])
    answers = [client.responses.create(model="tenon-tiny", conversation=conversation, input="Paint it.",
                                       max_output_tokens=16)
               for conversation in (made.id, {"id": made.id})]
    assert answers[0].conversation.id == made.id
    assert answers[1].usage.input_tokens > answers[0].usage.input_tokens
    items = list(client.conversations.items.list(made.id, order="asc", limit=2))
    assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"]
    assert client.conversations.items.retrieve(items[1].id, conversation_id=made.id).content[0].text == "Paint it."
    client.conversations.items.delete(items[1].id, conversation_id=made.id)
    more = client.conversations.items.create(made.id, items=[{"type": "message", "role": "user", "content": "x"}])
    assert len(list(client.conversations.items.list(made.id))) == 5 and len(more.data) == 1
    assert client.conversations.update(made.id, metadata={"k": "v"}).metadata == {"k": "v"}
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_a_history_is_summed_up_and_carried_on(played_client):
    said = [{"role": "user", "content": "We repair the old boat."}, {"role": "assistant", "content": "It is dry."}]
    compacted = played_client.responses.compact(model="tenon-tiny", input=said)
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    summary = compacted.output[-1].model_dump()
    assert "boat" not in summary["encrypted_content"] and compacted.usage.total_tokens > 0
    asked = {"model": "tenon-tiny", "max_output_tokens": 16}
    with_it = played_client.responses.create(**asked, input=[summary, {"role": "user", "content": "Go on."}])
    without = played_client.responses.create(**asked, input=[{"role": "user", "content": "Go on."}])
    assert with_it.usage.input_tokens > without.usage.input_tokens
    broken = {**summary, "encrypted_content": summary["encrypted_content"][:-4] + "AAAA"}
    with pytest.raises(openai.BadRequestError) as refused:
        played_client.responses.create(**asked, input=[broken, {"role": "user", "content": "Go on."}])
    assert refused.value.param == "input[0].encrypted_content"


ERRORS = [
    ("unknown_model", {"model": "nosuch"}, openai.NotFoundError, "model"),
    ("no_input", {"input": []}, openai.BadRequestError, "input"),
    ("image", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
     openai.BadRequestError, "input[0].content[0].type"),
    ("hosted_tool", {"tools": [{"type": "web_search"}], "tool_choice": "required"}, openai.BadRequestError, "tool_choice"),
    ("background", {"background": True, "store": False}, openai.BadRequestError, "background"),
    ("truncation", {"truncation": "always"}, openai.BadRequestError, "truncation"),
    ("conversation", {"conversation": "conv_1"}, openai.BadRequestError, "conversation"),
    ("item", {"input": [{"type": "item_reference", "id": "msg_x_0"}]}, openai.BadRequestError, "input[0].id"),
    ("too_long", {"input": "word " * 40_000}, openai.BadRequestError, None),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row[0])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_errors_have_their_classes(client, row, stream):
    _, fields, kind, param = row
    with pytest.raises(kind) as raised:
        client.responses.create(**{**ASK, **fields}, stream=stream)
    assert param is None or raised.value.param == param


def test_every_field_of_the_sdk_has_its_place(server):
    """Absent and null are the same, so this asks only whether each name is known."""
    body = {**dict.fromkeys(typing.get_type_hints(ResponseCreateParamsStreaming)), **ASK}
    answer = requests.post(server.url + "/v1/responses", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


def test_a_store_that_is_none_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear reader, " * 100)
    config = tmp_path / "tenon.toml"
    config.write_text('[server]\nport = 0\nstore = "letter.txt"\n')
    run = subprocess.run([str(TENON), "serve", "--config", str(config), "--model", str(ROOT / "models" / "tenon-tiny.gguf")],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 3 and "letter.txt" in run.stderr and "name another file" in run.stderr
    assert (tmp_path / "letter.txt").read_text() == "Dear reader, " * 100
