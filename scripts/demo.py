"""The demo: a server on the bundled model, and a real tool loop through OpenAI's Python client.

Starts `tenon serve`, asks the questions of models/demo_questions.json, executes the calls that the model makes, hands
the results back, prints the final sentences, and stops the server. There is no weather to look up here, so the tools
other than `multiply` give the results of that file.

The bundled model has to answer every question right. Another model (--model: a name of scripts/real_models.py, or a
GGUF file) was not made for these questions: what it does is shown and counted, and any count is a success.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import time

import real_models

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOURS else text


def say(label, colour, text):
    print(f"  {paint(colour, f'{label:>9}')}  {text}")


def on_one_line(arguments):
    """The arguments without the line breaks that some models write between their members."""
    value = parsed(arguments)
    return json.dumps(value) if "\n" in arguments and value != arguments else arguments


def ask_whole(client, request):
    choice = client.chat.completions.create(**request).choices[0]
    calls = [
        (call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or []
    ]
    for _, name, arguments in calls:
        say("calls", "36", f"{name}({on_one_line(arguments)})")
    return choice.message.content, calls


def ask_streaming(client, request):
    """The same, printing every piece of the arguments when it arrives; `|` shows where the pieces join."""
    content, calls = "", {}
    for chunk in client.chat.completions.create(**request, stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for piece in delta.tool_calls or []:
            if piece.index not in calls:
                calls[piece.index] = [piece.id, piece.function.name, ""]
                print(
                    "\n" if piece.index else "",
                    f"  {paint('36', '    calls')}  {piece.function.name} <- ",
                    sep="",
                    end="",
                    flush=True,
                )
            arguments = piece.function.arguments if piece.function else ""
            if arguments:
                calls[piece.index][2] += arguments
                shown = arguments.replace("\n", "\\n")
                print(paint("2", "|") + shown, end="", flush=True)
    if calls:
        print()
    return content or None, [tuple(calls[index]) for index in sorted(calls)]


def parsed(arguments):
    """The arguments as a value, or as text where the model spoilt them."""
    try:
        return json.loads(arguments)
    except json.JSONDecodeError:
        return arguments


def execute(name, arguments, canned):
    """What the tool returns, as the text of a tool message."""
    numbers = [arguments.get(key) for key in "ab"] if isinstance(arguments, dict) else []
    if (
        name == "multiply"
        and len(numbers) == 2
        and all(isinstance(number, (int, float)) for number in numbers)
    ):
        canned = {key: numbers[0] * numbers[1] for key in canned}
    return canned if isinstance(canned, str) else json.dumps(canned)


@dataclasses.dataclass
class Outcome:
    """What became of a question."""

    is_call_due: bool
    has_called: bool
    are_calls_right: bool  # the wanted names and arguments, or no call where none is due
    is_answer_right: bool  # the final sentence tells the facts, too


def has_facts(content, question):
    return content is not None and all(fact in content for fact in question["final_contains"])


def result_of(demo, question, index, name):
    """The result that the file has for the call at `index`; for a call that it does not foresee, the first one of that tool."""
    foreseen = question["calls"][index]["name"] if index < len(question["calls"]) else None
    if foreseen == name:
        return question["results"][index]
    results = [
        result
        for other in demo["questions"]
        for call, result in zip(other["calls"], other["results"])
        if call["name"] == name
    ]
    return results[0] if results else {"error": f"there is no tool {name}"}


def run_question(client, model, demo, question, streaming):
    print(f"\n{paint('1', question['question'])}{paint('2', '   (streamed)') if streaming else ''}")
    request = {
        "model": model,
        "temperature": 0,
        "max_tokens": 160,
        "tools": demo["tools"],
        "messages": [{"role": "user", "content": question["question"]}],
    }
    ask = ask_streaming if streaming else ask_whole
    content, calls = ask(client, request)
    wanted = [(call["name"], call["arguments"]) for call in question["calls"]]
    if not calls:
        say("answers", "32", content)
        return Outcome(bool(wanted), False, not wanted, not wanted and has_facts(content, question))
    right = [(name, parsed(arguments)) for _, name, arguments in calls] == wanted
    messages = request["messages"] + [
        {
            "role": "assistant",
            "content": content,
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id, name, arguments in calls
            ],
        }
    ]
    for index, (id, name, arguments) in enumerate(calls):
        text = execute(name, parsed(arguments), result_of(demo, question, index, name))
        say("result", "33", text)
        messages.append({"role": "tool", "tool_call_id": id, "content": text})
    content, _ = ask_whole(client, {**request, "messages": messages})
    say("answers", "32", content)
    return Outcome(bool(wanted), True, right, right and has_facts(content, question))


def model_file(model):
    """The GGUF file that --model means."""
    if pathlib.Path(model).is_file():
        return pathlib.Path(model).resolve()
    if model in real_models.MODELS:
        return real_models.fetch(model)
    raise real_models.NotToBeHad(f"it is neither a file nor one of {', '.join(real_models.MODELS)}")


def report(outcomes, is_bundled):
    """The last lines, and the exit status."""
    over = "The server has stopped; `make serve` starts one for you, `build/release/bin/tenon chat` talks to the model here."
    right = sum(outcome.is_answer_right for outcome in outcomes)
    if is_bundled:
        print(f"\n{right} of {len(outcomes)} questions came out right. {over}")
        return 0 if right == len(outcomes) else 1
    # Where no call is due, the file has the bundled model's own words, so only the absence of a call is counted.
    due = [outcome for outcome in outcomes if outcome.is_call_due]
    others = [outcome for outcome in outcomes if not outcome.is_call_due]
    print(
        f"\nA call is due in {len(due)} questions: the model called in {sum(outcome.has_called for outcome in due)}, it was the wanted "
        f"call in {sum(outcome.are_calls_right for outcome in due)}, and the last sentence told its result in "
        f"{sum(outcome.is_answer_right for outcome in due)}.\nNo call is due in {len(others)}: the model did not call in "
        f"{sum(not outcome.has_called for outcome in others)}. {over}"
    )
    return 0


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--tenon", default=os.environ.get("TENON_BIN", str(ROOT / "build/release/bin/tenon"))
    )
    arguments.add_argument(
        "--model",
        default="",
        help="a name of scripts/real_models.py, which is fetched, or a GGUF file",
    )
    options = arguments.parse_args()
    path, serve_options, timeout_s = "models/tenon-tiny.gguf", (), 60
    if options.model:
        try:
            path = model_file(options.model)
        except real_models.NotToBeHad as why:
            print(f"The model {options.model} is not to be had: {why}", file=sys.stderr)
            return 4
        serve_options, timeout_s = ("--model", str(path)), 600

    os.environ["TENON_BIN"] = options.tenon  # read when serving is imported
    import openai
    from serving import serving

    demo = json.loads((ROOT / "models" / "demo_questions.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        with serving(pathlib.Path(folder) / "serve.log", *serve_options) as server:
            ready_ms = 1000 * (time.monotonic() - started)
            print(f"tenon serve is ready at {server.url}/v1 after {ready_ms:.0f} ms, with {path}")
            names = ", ".join(tool["function"]["name"] for tool in demo["tools"])
            print(f"tools: {names}")
            client = openai.OpenAI(
                base_url=server.url + "/v1", api_key="not-needed", max_retries=0, timeout=timeout_s
            )
            model = client.models.list().data[0].id
            outcomes = [
                run_question(client, model, demo, question, streaming=index == 1)
                for index, question in enumerate(demo["questions"])
            ]
    return report(outcomes, is_bundled=not options.model)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
