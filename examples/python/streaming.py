"""Stream an answer and print the pieces of its tool calls as they are generated."""

import requests

response = requests.post(
    "http://localhost:8080/v1/chat/completions",
    json={
        "model": "tenon-tiny",
        "messages": [{"role": "user", "content": "Calculate 123 * 456"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "multiply",
                    "description": "Multiply two numbers",
                    "parameters": {
                        "type": "object",
                        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                        "required": ["a", "b"],
                    },
                },
            }
        ],
        "stream": True,
    },
    stream=True,
)

for line in response.iter_lines():
    if line:
        line_text = line.decode("utf-8")
        if line_text.startswith("data: ") and line_text != "data: [DONE]":
            import json

            chunk = json.loads(line_text[6:])
            delta = chunk["choices"][0]["delta"]

            # Tool calls appear in the delta when detected
            if "tool_calls" in delta:
                print("Tool calls:", delta["tool_calls"])
