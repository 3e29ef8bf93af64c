"""The demo: a server on the bundled model, and a real tool loop through OpenAI's Python client.

Starts `tenon serve`, asks the questions of models/demo_questions.json, executes the calls that the model makes, hands
the results back, prints the final sentences, and stops the server. There is no weather to look up here, so the tools
other than `multiply` give the results of that file.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOURS else text


def say(label, colour, text):
    print(f"  {paint(colour, f'{label:>9}')}  {text}")


def ask_whole(client, request):
    choice = client.chat.completions.create(**request).choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    for _, name, arguments in calls:
        say("calls", "36", f"{name}({arguments})")
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
                print("\n" if piece.index else "", f"  {paint('36', '    calls')}  {piece.function.name} <- ", sep="",
                      end="", flush=True)
            arguments = piece.function.arguments if piece.function else ""
            if arguments:
                calls[piece.index][2] += arguments
                print(paint("2", "|") + arguments, end="", flush=True)
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
    if name == "multiply" and isinstance(arguments, dict) and {"a", "b"} <= arguments.keys():
        canned = {key: arguments["a"] * arguments["b"] for key in canned}
    return canned if isinstance(canned, str) else json.dumps(canned)


def run_question(client, tools, question, streaming):
    print(f"\n{paint('1', question['question'])}{paint('2', '   (streamed)') if streaming else ''}")
    request = {"model": "tenon-tiny", "temperature": 0, "max_tokens": 160, "tools": tools,
               "messages": [{"role": "user", "content": question["question"]}]}
    ask = ask_streaming if streaming else ask_whole
    content, calls = ask(client, request)
    wanted = [(call["name"], call["arguments"]) for call in question["calls"]]
    if not calls:
        say("answers", "32", content)
        return not wanted and all(fact in content for fact in question["final_contains"])
    right = [(name, parsed(arguments)) for _, name, arguments in calls] == wanted
    messages = request["messages"] + [{"role": "assistant", "content": content, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} for id, name, arguments in calls]}]
    for (id, name, arguments), canned in zip(calls, question["results"]):
        text = execute(name, parsed(arguments), canned)
        say("result", "33", text)
        messages.append({"role": "tool", "tool_call_id": id, "content": text})
    content, _ = ask_whole(client, {**request, "messages": messages})
    say("answers", "32", content)
    return right and content is not None and all(fact in content for fact in question["final_contains"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tenon", default=os.environ.get("TENON_BIN", str(ROOT / "build/release/bin/tenon")))
    options = arguments.parse_args()

    os.environ["TENON_BIN"] = options.tenon  # read when serving is imported
    import openai
    from serving import serving

    demo = json.loads((ROOT / "models" / "demo_questions.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        with serving(pathlib.Path(folder) / "serve.log") as server:
            ready_ms = 1000 * (time.monotonic() - started)
            print(f"tenon serve is ready at {server.url}/v1 after {ready_ms:.0f} ms, with models/tenon-tiny.gguf")
            names = ", ".join(tool["function"]["name"] for tool in demo["tools"])
            print(f"tools: {names}")
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="not-needed", max_retries=0, timeout=60)
            right = [run_question(client, demo["tools"], question, streaming=index == 1)
                     for index, question in enumerate(demo["questions"])]
    print(f"\n{sum(right)} of {len(right)} questions came out right. The server has stopped; `make serve` starts one "
          "for you, `build/release/bin/tenon chat` talks to the model here.")
    return 0 if all(right) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
