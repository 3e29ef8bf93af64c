"""Instructor: the page, its modes, what a validator refuses (asked again with a tool's result), and streams."""
import typing

import instructor
import openai
import pydantic
import recipe

page = recipe.run("instructor.md")
assert isinstance(page["weather"], page["Weather"])


class Place(pydantic.BaseModel):
    """A place."""
    model_config = pydantic.ConfigDict(extra="forbid")  # a small model may think of ever more members
    city: typing.Literal["Paris", "Rome"]
    sunny: bool


ASK = {"model": "tenon-tiny", "temperature": 0, "max_tokens": 200}
QUESTION = [{"role": "user", "content": "Is Paris sunny?"}]
server = openai.OpenAI(base_url=recipe.URL + "/v1", api_key="none", max_retries=0)

for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(server, mode=mode)
    for _ in range(2):  # the second one finds its prompt in the cache, as the stream does (tools.settled)
        whole, completion = client.chat.completions.create_with_completion(
            **ASK, messages=QUESTION, response_model=Place, max_retries=0)
    assert isinstance(whole, Place) and completion.usage.completion_tokens > 0
    *_, last = client.chat.completions.create_partial(**ASK, messages=QUESTION, response_model=Place)
    assert last.model_dump() == whole.model_dump(), mode

# Ask, call, what is wrong with it as the call's result, call.
asked = []


class Checked(Place):
    """A place."""

    @pydantic.model_validator(mode="after")
    def only_the_second_will_do(self):
        asked.append(self.city)
        if len(asked) == 1:
            raise ValueError("say it again")
        return self


client = instructor.from_openai(server, mode=instructor.Mode.TOOLS)
sent = []
client.on("completion:kwargs", lambda *_, **fields: sent.append(fields["messages"]))
assert isinstance(client.chat.completions.create(**ASK, messages=QUESTION, response_model=Checked, max_retries=1), Checked)
assert len(asked) == 2 and [message["role"] for message in sent[1]] == ["user", "assistant", "tool"]
