"""tenon.langchain: what a program with LangChain does, over models in its own process."""
import asyncio
from typing import Literal

import pydantic
from in_process_script import scripted, weather
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

import tenon
from tenon.langchain import ChatTenon, toolbox_of, tools_of


@tool
def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Weather of a city."""
    return f"cloudy in {city}, 18 {units}"


service = scripted(weather)
model = ChatTenon(service=service, model="script")
bound = model.bind_tools([get_weather])

# A call, its result, an answer.
messages = [SystemMessage("Be brief."), HumanMessage("Weather in Oslo?")]
said = bound.invoke(messages)
assert [(call["name"], call["args"]) for call in said.tool_calls] == [("get_weather", {"city": "Oslo"})], said
assert said.usage_metadata["total_tokens"] > 0 and said.response_metadata["finish_reason"] == "tool_calls"
result = get_weather.invoke(said.tool_calls[0])
assert isinstance(result, ToolMessage)
assert bound.invoke([*messages, said, result]).content.strip() == "It is cloudy."

# Streamed: pieces that add up to the same.
whole = AIMessageChunk("")
pieces = list(bound.stream(messages))
for piece in pieces:
    whole += piece
assert len(pieces) > 3 and [(call["name"], call["args"]) for call in whole.tool_calls] == [("get_weather", {"city": "Oslo"})], whole
assert whole.usage_metadata["total_tokens"] == said.usage_metadata["total_tokens"]


async def later():
    said = await bound.ainvoke(messages)
    assert said.tool_calls[0]["args"] == {"city": "Oslo"}
    text = ""
    async for piece in bound.astream([*messages, said, ToolMessage("cloudy", tool_call_id=said.tool_calls[0]["id"])]):
        text += piece.content
    assert text.strip() == "It is cloudy."
    assert len(await bound.abatch([messages] * 4)) == 4


asyncio.run(later())


# Structured output of a real model: whatever it says is of the schema.
class Film(pydantic.BaseModel, extra="forbid"):
    """A film."""

    kind: Literal["drama", "comedy"]
    is_old: bool


tiny = ChatTenon(service=service, model="tenon-tiny", temperature=0, max_tokens=200)
for method in ("json_schema", "function_calling"):
    assert isinstance(tiny.with_structured_output(Film, method=method).invoke("A film?"), Film), method
as_dict = tiny.with_structured_output(Film.model_json_schema()).invoke("A film?")
assert set(as_dict) == {"kind", "is_old"}
raw = tiny.with_structured_output(Film, include_raw=True).invoke("A film?")
assert isinstance(raw["parsed"], Film) and raw["raw"].content and raw["parsing_error"] is None

# A choice that names a tool, and one that demands any.
for choice in ("get_weather", "any", True):
    said = tiny.bind_tools([get_weather], tool_choice=choice).invoke("What is the weather in Paris?")
    assert said.tool_calls[0]["name"] == "get_weather", (choice, said)
assert not tiny.bind_tools([get_weather], tool_choice="none").invoke("Hello").tool_calls

# Tools from functions, and LangChain's in a conversation of Tenon's.
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def double(a: int) -> int:
    """Double."""
    return 2 * a


[adds, doubles] = tools_of([add, double])
assert (adds.name, adds.description, adds.run({"a": 2})) == ("add", "Add two numbers.", 3) and adds.invoke({"a": 2, "b": 5}) == 7
assert asyncio.run(doubles.ainvoke({"a": 4})) == 8
turn = tenon.Conversation(service, model="script", tools=toolbox_of([get_weather])).send("Weather in Oslo?")
assert turn.content.strip() == "It is cloudy." and turn.rounds == 2

# A refusal is an error that says why.
try:
    ChatTenon(service=service, model="nosuch").invoke("x")
    raise AssertionError("it was not refused")
except tenon.ApiError as error:
    assert error.status == 404, error
print("in process: langchain")
