"""A whole loop: the model calls a tool, this program executes it, the model answers."""

import json

import requests


def execute_tool(name, arguments):
    """Execute the actual tool function"""
    if name == "multiply":
        args = json.loads(arguments)
        return args["a"] * args["b"]
    # Add other tool implementations
    return None


def chat_with_tools(messages, tools):
    response = requests.post(
        "http://localhost:8080/v1/chat/completions",
        json={"model": "tenon-tiny", "messages": messages, "tools": tools},
    ).json()

    choice = response["choices"][0]

    if choice["finish_reason"] == "tool_calls":
        # Model wants to call tools
        tool_calls = choice["message"]["tool_calls"]

        # Execute each tool
        for call in tool_calls:
            result = execute_tool(call["function"]["name"], call["function"]["arguments"])

            # Add tool result to conversation
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "name": call["function"]["name"],
                    "content": str(result),
                }
            )

        # Get final response after tool execution
        return chat_with_tools(messages, tools)

    return choice["message"]["content"]


# Example usage
tools = [
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
]

messages = [{"role": "user", "content": "What is 12234585 times 48838483920?"}]

result = chat_with_tools(messages, tools)
print(result)
