"""Ask a question over one tool and print the calls that the model makes."""

import requests

# Define tools/functions
tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather for a location",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {
                        "type": "string",
                        "description": "City and state, e.g. San Francisco, CA",
                    },
                    "unit": {
                        "type": "string",
                        "enum": ["celsius", "fahrenheit"],
                        "description": "Temperature unit",
                    },
                },
                "required": ["location"],
            },
        },
    }
]

# Make request
response = requests.post(
    "http://localhost:8080/v1/chat/completions",
    json={
        "model": "tenon-tiny",
        "messages": [{"role": "user", "content": "What's the weather in San Francisco?"}],
        "tools": tools,
        "tool_choice": "auto",
    },
)

result = response.json()

# Check if model wants to call a tool
if result["choices"][0]["finish_reason"] == "tool_calls":
    tool_calls = result["choices"][0]["message"]["tool_calls"]
    for call in tool_calls:
        print(f"Function: {call['function']['name']}")
        print(f"Arguments: {call['function']['arguments']}")
