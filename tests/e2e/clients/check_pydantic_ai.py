"""Pydantic AI: the page's loop, streams, output tools and native output, over the three APIs."""
import asyncio
import typing

import pydantic
import recipe
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

page = recipe.run("pydantic-ai.md", url=recipe.SCRIPTED)
parts = [part for message in page["result"].all_messages() for part in message.parts]
assert any(isinstance(part, ToolCallPart) and part.tool_name == "get_weather" for part in parts)
assert "cloudy" in page["result"].output and page["result"].usage.output_tokens > 0


class Place(pydantic.BaseModel):
    """A place."""
    city: typing.Literal["Paris", "Rome"]
    sunny: bool


def get_weather(location: str) -> dict:
    """Get the current weather in a city."""
    return {"temperature": 18, "condition": "cloudy"}


QUESTION = "What is the weather in Ljubljana?"
TOOL = ToolDefinition(name="get_weather", description="Get the current weather in a city.", parameters_json_schema={
    "type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]})
SETTINGS = {"temperature": 0, "max_tokens": 128}


def calls_of(response):
    return [(part.tool_name, part.args_as_dict()) for part in response.parts if isinstance(part, ToolCallPart)]


async def check_held(model):
    # One request, whole and streamed, that must be a call.
    ask = {"model": model, "messages": [ModelRequest.user_text_prompt(QUESTION)],
           "model_settings": {**SETTINGS, "tool_choice": "required"},
           "model_request_parameters": ModelRequestParameters(function_tools=[TOOL])}
    for _ in range(2):  # the second one finds its prompt in the cache, as the stream does (tools.settled)
        whole = await model_request(**ask)
    assert calls_of(whole) and {name for name, _ in calls_of(whole)} == {"get_weather"}
    async with model_request_stream(**ask) as stream:
        async for _ in stream:
            pass
    streamed = stream.get()
    assert calls_of(streamed) == calls_of(whole) and streamed.finish_reason == whole.finish_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens > 0

    # Output by a tool that must be called, and by the answer's own text.
    outputs = [Place] if isinstance(model, AnthropicModel) else [Place, NativeOutput(Place)]  # its own list of models
    for output in outputs:
        placed = await Agent(model, model_settings=SETTINGS, output_type=output).run("Is Paris sunny?")
        assert isinstance(placed.output, Place)


async def check_loop(model):
    """Whole and streamed."""
    agent = Agent(model, model_settings=SETTINGS, tools=[get_weather])
    answered = (await agent.run(QUESTION)).output
    async with agent.run_stream(QUESTION) as run:
        pieces = [piece async for piece in run.stream_text(delta=True)]
    assert "cloudy" in answered and "".join(pieces) == answered


async def main():
    for url, check in ((recipe.URL, check_held), (recipe.SCRIPTED, check_loop)):
        provider = OpenAIProvider(base_url=url + "/v1", api_key="none")
        await check(OpenAIChatModel("tenon-tiny", provider=provider))
        await check(OpenAIResponsesModel("tenon-tiny", provider=provider))
        await check(AnthropicModel("tenon-tiny", provider=AnthropicProvider(base_url=url, api_key="none")))


asyncio.run(main())
