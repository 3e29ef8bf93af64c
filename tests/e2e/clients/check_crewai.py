"""CrewAI: an agent's loop as the page has it, whole and streamed, over TENON_SCRIPTED; calls that are demanded."""
import json

import recipe

page = recipe.run("crewai.md", model="scripted", url=recipe.SCRIPTED)
from crewai import LLM, Agent, Crew, Task  # noqa: E402  after the page has set the environment

assert page["result"].raw == "It is 18 degrees and cloudy." and page["result"].token_usage.successful_requests == 2

llm = LLM(model="openai/scripted", base_url=recipe.SCRIPTED + "/v1", api_key="none", stream=True)
agent = Agent(role="Weatherman", goal="Say it", backstory="You know it.", llm=llm, tools=[page["get_weather"]])
task = Task(description="What is the weather in Ljubljana?", expected_output="One sentence.", agent=agent)
assert Crew(agents=[agent], tasks=[task]).kickoff().raw == page["result"].raw

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather in a city.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}}]
calls = []
for stream in (False, False, True):
    llm = LLM(model="openai/tenon-tiny", base_url=recipe.URL + "/v1", api_key="none", temperature=0, max_tokens=128,
              stream=stream, additional_params={"tool_choice": "required"})
    made = llm.call([{"role": "user", "content": "What is the weather in Ljubljana?"}], tools=TOOLS)
    made = [call if isinstance(call, dict) else call.model_dump() for call in made]
    calls.append([(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made])
assert calls[1] == calls[2] and calls[1][0][0] == "get_weather"  # the first one settles the cache (tools.settled)
