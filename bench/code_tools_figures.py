#!/usr/bin/env python3
"""How many input tokens a task with many tools and calls costs, with code that calls tools and without it.

    .venv/bin/python bench/code_tools_figures.py --model FILE [--tools 20 100 500] [--calls 20] [--rows 40]

The conversations are played, so no model has to be able to write them; the tokens are counted by the server with the model's own
tokenizer and template (`/v1/messages/count_tokens`), over all answers that the model would be asked for. The task: which of
`--calls` employees has spent too much; each lookup gives `--rows` rows. "one by one" calls the tool in a round of its own for each,
"together" all in one round; "code" reads about the function, writes one program, and answers.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from serving import serving  # noqa: E402

CODE = {"type": "code_execution_20260120", "name": "code_execution"}
PROGRAM = """\
limits = {{}}
for number in range({calls}):
    rows = get_expenses(employee=f"E{{number}}", quarter="Q3")
    limits[number] = sum(row["amount"] for row in rows)
print([number for number, spent in limits.items() if spent > 5000])"""


def tools_of(count, more):
    """Tools with a description and four parameters each, and the one that is due."""
    verbs, nouns = (
        ["list", "create", "update", "delete", "export"],
        ["invoice", "order", "ticket", "account", "report"],
    )
    tools = [
        {
            "name": f"{noun}s_{verb}_{number}",
            "description": f"Use this to {verb} a {noun} of the company's system number {number}. Needs the right to {verb} {noun}s.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": f"The id of the {noun}"},
                    "team": {"type": "string", "description": "Whose it is"},
                    "limit": {"type": "integer", "description": "At most so many"},
                    "state": {"type": "string", "enum": ["open", "closed", "all"]},
                },
                "required": ["id"],
            },
            **more,
        }
        for number in range(count - 1)
        for verb, noun in [(verbs[number % 5], nouns[number // 5 % 5])]
    ]
    schema = {
        "type": "object",
        "properties": {
            "employee": {"type": "string", "description": "The employee's id"},
            "quarter": {"type": "string", "enum": ["Q1", "Q2", "Q3", "Q4"]},
        },
        "required": ["employee", "quarter"],
    }
    due = {
        "name": "get_expenses",
        "description": "The expenses of an employee, a list of rows",
        "input_schema": schema,
    }
    return [*tools, {**due, **more}]


def result_of(number, rows):
    return json.dumps(
        [
            {
                "employee": f"E{number}",
                "item": f"travel {row}",
                "amount": 100 + row,
                "day": f"2026-08-{row % 28 + 1:02}",
            }
            for row in range(rows)
        ]
    )


class Counter:
    """Adds up the input of all answers of one way to do the task."""

    def __init__(self, url, tools):
        self.url, self.tools, self.total, self.answers = url, tools, 0, 0
        self.messages = [
            {"role": "user", "content": "Which employees have spent more than 5000 in Q3?"}
        ]

    def ask(self, *blocks):
        """An answer of the model, which says these blocks."""
        body = {"model": "model", "messages": self.messages, "tools": self.tools}
        request = urllib.request.Request(
            self.url + "/v1/messages/count_tokens",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            self.total += json.load(answer)["input_tokens"]
        self.answers += 1
        self.messages.append({"role": "assistant", "content": list(blocks)})

    def tell(self, *blocks):
        self.messages.append({"role": "user", "content": list(blocks)})


def direct(url, options, count, is_together):
    way = Counter(url, tools_of(count, {}))
    numbers = range(options.calls)
    for group in [numbers] if is_together else [[number] for number in numbers]:
        way.ask(
            *(
                {
                    "type": "tool_use",
                    "id": f"a{number}",
                    "name": "get_expenses",
                    "input": {"employee": f"E{number}", "quarter": "Q3"},
                }
                for number in group
            )
        )
        way.tell(
            *(
                {
                    "type": "tool_result",
                    "tool_use_id": f"a{number}",
                    "content": result_of(number, options.rows),
                }
                for number in group
            )
        )
    way.ask({"type": "text", "text": "Nobody."})
    return way


def by_code(url, options, count):
    way = Counter(url, [CODE, *tools_of(count, {"allowed_callers": ["code_execution_20260120"]})])
    steps = [
        (
            'print(tool_docs("expenses employee"))',
            'def get_expenses(employee: str, quarter: Literal["Q1", "Q2", "Q3", "Q4"]) -> Any:\n    """The expenses of an employee, a list of rows\n    employee: The employee\'s id"""\n',
        )
    ]
    if count < 30:
        steps = []  # the description has it
    for place, (code, out) in enumerate([*steps, (PROGRAM.format(calls=options.calls), "[]\n")]):
        way.ask(
            {
                "type": "server_tool_use",
                "id": f"s{place}",
                "name": "code_execution",
                "input": {"code": code},
            }
        )
        # Results of code stand in the assistant's message.
        content = {
            "type": "code_execution_result",
            "stdout": out,
            "stderr": "",
            "return_code": 0,
            "content": [],
        }
        way.messages[-1]["content"].append(
            {"type": "code_execution_tool_result", "tool_use_id": f"s{place}", "content": content}
        )
    way.ask({"type": "text", "text": "Nobody."})
    return way


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--tools", type=int, nargs="+", default=[20, 100, 500])
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "tenon.toml")
        config.write_text(
            f'[[model]]\nname = "model"\npath = "{options.model}"\ncode_execution = true\ncontext_tokens = 262144\n'
        )
        with serving(pathlib.Path(folder, "log"), "--config", str(config)) as server:
            print(
                f"{options.calls} calls, {options.rows} rows each; input tokens of all answers (answers)"
            )
            for count in options.tools:
                ways = {
                    "one by one": direct(server.url, options, count, is_together=False),
                    "together": direct(server.url, options, count, is_together=True),
                    "code": by_code(server.url, options, count),
                }
                print(
                    f"{count:4} tools: "
                    + "; ".join(
                        f"{name} {way.total:,} ({way.answers})" for name, way in ways.items()
                    )
                )


if __name__ == "__main__":
    main()
