"""A model that is played, for tests of what a model has to choose by itself: to call, to stop calling, what to say.
It is always right about the questions of models/demo_questions.json. For other questions it calls the first tool that it
is offered, with the question's own numbers and last word, and then tells the result."""
import contextlib
import json
import re

from scripted_upstream import call, serving_script
from serving import ROOT

DEMO = json.loads((ROOT / "models" / "demo_questions.json").read_text())
KNOWN = {question["question"]: question for question in DEMO["questions"]}
RESULT = re.compile(r"<tool_response>\n(.*)\n</tool_response>", re.DOTALL)


def tools_of(prompt):
    """Those that are offered, in the shape in which a request has them."""
    at = prompt.find("<tools>") + len("<tools>")
    tools = []
    while "<tools>" in prompt and prompt.startswith('{"', at):
        tool, at = json.JSONDecoder().raw_decode(prompt, at)
        tools.append(tool)
    return tools


def question_and_results(prompt):
    """What the user said last, and what the tools have said since."""
    question, results = "", []
    for text in re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", prompt, re.DOTALL):
        result = RESULT.match(text)
        if result:
            results.append(result[1])
        else:
            question, results = text.strip(), []
    return question, results


def arguments_for(tool, question):
    """A value for each parameter that the tool requires."""
    schema = tool["function"]["parameters"]
    numbers = iter(re.findall(r"\d+", question))
    word = re.findall(r"\w+", question)[-1]
    return {name: int(next(numbers, "1")) if schema["properties"][name]["type"] in ("number", "integer") else word
            for name in schema.get("required", [])}


def answer(prompt):
    question, results = question_and_results(prompt)
    tools = tools_of(prompt)
    known = KNOWN.get(question)
    if results:
        return "It is so: " + ("; ".join(known["final_contains"]) if known else "; ".join(results))
    if not tools or known and not known["calls"]:
        return "Well: " + "; ".join(known["final_contains"] if known and not known["calls"] else [question])
    if known:
        return "\n".join(call(wanted["name"], wanted["arguments"]) for wanted in known["calls"])
    return call(tools[0]["function"]["name"], arguments_for(tools[0], question))


@contextlib.contextmanager
def serving_played(folder, name="tenon-tiny"):
    """`tenon serve` over this model, by the bundled one's name."""
    with serving_script(folder, answer, name=name) as (server, _):
        yield server
