"""tenon.llamaindex: what a program with LlamaIndex does, over models in its own process."""
import asyncio

from in_process_script import scripted, weather
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool

import tenon
from tenon.llamaindex import TenonLLM, TenonToolSpec, toolbox_of


def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Its name.
    """
    return f"cloudy in {city}"


async def get_news(topic: str, count: int = 3) -> list[str]:
    """News."""
    return [topic] * count


service = scripted(weather)
llm = TenonLLM(service=service, model="script")
spec = TenonToolSpec([get_weather, get_news])
tools = spec.to_tool_list()
assert [tool.metadata.name for tool in tools] == ["get_weather", "get_news"]
described = tools[0].metadata.to_openai_tool()["function"]
assert described["parameters"]["properties"]["city"] == {"type": "string", "description": "Its name."}, described
assert tools[0].call(city="Rome").content == "cloudy in Rome" and "a" in asyncio.run(tools[1].acall(topic="a")).content

question = [ChatMessage(role="user", content="Weather in Oslo?")]


def calls_of(response):
    return [(call.tool_name, call.tool_kwargs) for call in llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)]


response = llm.chat_with_tools(tools, chat_history=question)
assert calls_of(response) == [("get_weather", {"city": "Oslo"})], response
*_, streamed = llm.stream_chat_with_tools(tools, chat_history=question)
assert calls_of(streamed) == calls_of(response)
assert "cloudy in Oslo" in llm.predict_and_call(tools, chat_history=question).response
[call] = llm.get_tool_calls_from_response(response)
result = ChatMessage(role="tool", content="cloudy", additional_kwargs={"tool_call_id": call.tool_id})
assert llm.chat([*question, response.message, result]).message.content.strip() == "It is cloudy."

tiny = TenonLLM(service=service, model="tenon-tiny", temperature=0, max_tokens=50)
assert calls_of(tiny.chat_with_tools(tools, user_msg="Hello", tool_required=True))
tiny.complete("Hello")  # what follows finds its prompt in the cache (tools.settled)
whole = tiny.complete("Hello").text
*_, last = tiny.stream_complete("Hello")
assert whole == last.text


async def main():
    response = await llm.achat_with_tools(tools, chat_history=question)
    assert calls_of(response) == [("get_weather", {"city": "Oslo"})]
    assert (await tiny.acomplete("Hello")).text == whole
    for streaming in (True, False):
        agent = FunctionAgent(tools=tools, llm=llm, streaming=streaming)
        answer = await agent.run("Weather in Oslo?")
        assert [call.tool_name for call in answer.tool_calls] == ["get_weather"]
        assert answer.response.content.strip() == "It is cloudy.", answer


asyncio.run(main())
for theirs in (spec, [FunctionTool.from_defaults(get_weather)]):
    turn = tenon.Conversation(service, model="script", tools=toolbox_of(theirs)).send("Weather in Oslo?")
    assert turn.content.strip() == "It is cloudy." and turn.rounds == 2
print("in process: llama-index")
