"""A recursive model (docs/rlm.md): tools without a context, tools beside a context of a million lines, no tools.

OPENAI_BASE_URL=http://localhost:8080/v1 OPENAI_API_KEY=none python3 examples/recursive/client.py rlm
"""

import json
import sys

from openai import OpenAI

client = OpenAI()
model = sys.argv[1]

DATABASE = {"ORDER-7": "paid on Monday", "ORDER-8": "waits for its payment"}
tools = [
    {
        "type": "function",
        "function": {
            "name": "search_database",
            "description": "Search a database for information",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "Search query"}},
                "required": ["query"],
            },
        },
    }
]


def search_database(query):
    return DATABASE.get(query, "nothing found")


def ask(messages, tools=None):
    """Asks until there is an answer, and runs the tools that are called on the way. All messages are sent again each time; the
    server knows by the ids of the calls where it was."""
    extra = {"tools": tools} if tools else {}
    while True:
        choice = client.chat.completions.create(model=model, messages=messages, **extra).choices[0]
        if choice.finish_reason != "tool_calls":
            return choice.message.content
        messages.append(choice.message)
        for call in choice.message.tool_calls:
            arguments = json.loads(call.function.arguments)
            print(f"  [{call.function.name} {arguments}]")
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": search_database(arguments["query"]),
                }
            )


print("Tools:", ask([{"role": "user", "content": "Has ORDER-7 been paid?"}], tools))

context = "\n".join(
    f"line {number}: nothing" if number != 777_777 else "line 777777: the order is ORDER-8"
    for number in range(1_000_000)
)
print(
    "Tools and a million lines:",
    ask(
        [
            {"role": "system", "content": context},
            {"role": "user", "content": "Has the order in this log been paid?"},
        ],
        tools,
    ),
)

print("No tools:", ask([{"role": "user", "content": "How much is 6 times 7?"}]))
