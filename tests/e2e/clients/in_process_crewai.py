"""tenon.crewai: what a program with CrewAI does, over models in its own process."""
import asyncio
import json
import os
from typing import Literal

os.environ.update(CREWAI_TRACING_ENABLED="false", CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")

import pydantic  # noqa: E402
from crewai import Agent, Crew, Task  # noqa: E402
from in_process_script import scripted, weather  # noqa: E402

import tenon  # noqa: E402
from tenon.crewai import TenonLLM, tool, toolbox_of  # noqa: E402


@tool
def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Its name.
    """
    return f"cloudy in {city}"


assert get_weather.name == "get_weather" and get_weather.run(city="Rome") == "cloudy in Rome"
assert get_weather.args_schema.model_json_schema()["properties"]["city"]["description"] == "Its name."

service = scripted(weather)
for stream in (False, True):
    llm = TenonLLM(model="script", service=service, stream=stream)
    agent = Agent(role="Weatherman", goal="Say it", backstory="You know it.", llm=llm, tools=[get_weather])
    task = Task(description="What is the weather in Oslo?", expected_output="One sentence.", agent=agent)
    result = Crew(agents=[agent], tasks=[task]).kickoff()
    assert result.raw.strip() == "It is cloudy.", result
    assert result.token_usage.successful_requests == 2 and result.token_usage.total_tokens > 0, result.token_usage

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
made = []
for stream in (False, False, True):
    tiny = TenonLLM(model="tenon-tiny", service=service, temperature=0, max_tokens=128, stream=stream, tool_choice="required")
    calls = tiny.call([{"role": "user", "content": "What is the weather in Oslo?"}], tools=TOOLS)
    made.append([(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls])
assert made[1] == made[2] and made[1][0][0] == "get_weather", made  # the first one settles the cache (tools.settled)
heard = tiny.call("What is the weather in Oslo?", tools=TOOLS, available_functions={"get_weather": lambda city: f"rain in {city}"})
assert heard.startswith("rain in"), heard


class Film(pydantic.BaseModel, extra="forbid"):
    kind: Literal["drama", "comedy"]
    is_old: bool


plain = TenonLLM(model="tenon-tiny", service=service, temperature=0, max_tokens=400)
assert isinstance(plain.call("A film?", response_model=Film), Film)
assert asyncio.run(TenonLLM(model="script", service=scripted(lambda prompt: "Hello to you.")).acall("Hello")) == "Hello to you."
turn = tenon.Conversation(service, model="script", tools=toolbox_of([get_weather])).send("Weather in Oslo?")
assert turn.content.strip() == "It is cloudy." and turn.rounds == 2
print("in process: crewai")
