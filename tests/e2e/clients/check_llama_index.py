"""LlamaIndex: the page's loop, the same as a stream, and an agent with its own loop."""
import asyncio

import recipe
from llama_index.core.agent.workflow import FunctionAgent

page = recipe.run("llama-index.md", url=recipe.SCRIPTED)
llm, tools = page["llm"], page["tools"]


def calls_of(response):
    return [(call.tool_name, call.tool_kwargs) for call in llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)]


assert calls_of(page["asked"]) and "cloudy" in page["answer"].message.content
*_, streamed = llm.stream_chat_with_tools(tools, chat_history=page["messages"][:1], tool_required=True)
assert calls_of(streamed) == calls_of(page["asked"])
*_, streamed = llm.stream_chat_with_tools(tools, chat_history=page["messages"])
assert streamed.message.content == page["answer"].message.content


async def main():
    agent = FunctionAgent(tools=tools, llm=llm, streaming=True)
    answer = await agent.run("What is the weather in Ljubljana?")
    assert [call.tool_name for call in answer.tool_calls] == ["get_weather"]
    assert "cloudy" in answer.response.content


asyncio.run(main())
