"""OpenAI's Agents SDK: the page's loop, streams, and the same over Responses."""
import asyncio

import recipe
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner
from agents.items import ToolCallItem, ToolCallOutputItem
from openai import AsyncOpenAI

page = recipe.run("openai-agents.md", url=recipe.SCRIPTED)


def check(result):
    kinds = [type(item) for item in result.new_items]
    assert ToolCallItem in kinds and ToolCallOutputItem in kinds
    assert "cloudy" in result.final_output
    return result.final_output


async def main():
    check(page["result"])
    # A client of its own: the page's belongs to another event loop.
    server = AsyncOpenAI(base_url=recipe.SCRIPTED + "/v1", api_key="none", max_retries=0)
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind(model="tenon-tiny", openai_client=server)
        agent = Agent(name="weatherman", model=model, tools=[page["get_weather"]],
                      model_settings=ModelSettings(temperature=0, max_tokens=128, tool_choice="required",
                                                   include_usage=True))
        question = "What is the weather in Ljubljana?"
        whole = await Runner.run(agent, question)
        said = check(whole)
        streamed = Runner.run_streamed(agent, question)
        kinds = {event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"}
        assert {"response.function_call_arguments.delta", "response.output_text.delta", "response.completed"} <= kinds
        assert check(streamed) == said
        usage = [result.context_wrapper.usage.output_tokens for result in (whole, streamed)]
        assert usage[0] == usage[1] > 0


asyncio.run(main())
