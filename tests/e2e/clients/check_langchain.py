"""LangChain: the page's loop, streams, structured output, and the same over Responses."""
import pydantic
import recipe
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

page = recipe.run("langchain.md", url=recipe.SCRIPTED)
asked, answer, weather = page["asked"], page["answer"], page["get_weather"]
assert asked.tool_calls and {call["name"] for call in asked.tool_calls} == {"get_weather"}
assert asked.response_metadata["finish_reason"] == "tool_calls"
assert answer.content and not answer.tool_calls


def folded(pieces):
    whole = None
    for piece in pieces:
        whole = piece if whole is None else whole + piece
    return whole


def calls_of(message):
    return [(call["name"], call["args"]) for call in message.tool_calls]


question = [HumanMessage("What is the weather in Ljubljana?")]
for url, responses in ((url, responses) for url in (recipe.URL, recipe.SCRIPTED) for responses in (False, True)):
    model = ChatOpenAI(model="tenon-tiny", base_url=url + "/v1", api_key="none", temperature=0, max_tokens=128,
                       max_retries=0, stream_usage=True, use_responses_api=responses)
    for choice in ("required", "auto", "get_weather"):
        bound = model.bind_tools([weather], tool_choice=choice)
        bound.invoke(question)  # what follows finds its prompt in the cache (tools.settled)
        whole, streamed = bound.invoke(question), folded(bound.stream(question))
        assert calls_of(streamed) == calls_of(whole) and all(call["id"] for call in streamed.tool_calls)
        assert choice == "auto" or whole.tool_calls
        assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"] > 0
    assert not model.bind_tools([weather], tool_choice="none").invoke(question).tool_calls
    if url == recipe.SCRIPTED:
        bound = model.bind_tools([weather])
        history = [*question, whole, *(weather.invoke(call) for call in whole.tool_calls)]
        final = bound.invoke(history)
        assert "cloudy" in final.text and folded(bound.stream(history)).text == final.text


class Place(pydantic.BaseModel):
    """A place."""
    city: str = pydantic.Field(max_length=20)
    sunny: bool


model = ChatOpenAI(model="tenon-tiny", base_url=recipe.URL + "/v1", api_key="none", temperature=0, max_retries=0)
for method in ("json_schema", "function_calling"):
    assert isinstance(model.with_structured_output(Place, method=method).invoke("Is Paris sunny?"), Place), method
