"""The same through OpenAI's own Python client."""

from openai import OpenAI

client = OpenAI(base_url="http://localhost:8080/v1", api_key="not-needed")

tools = [
    {
        "type": "function",
        "function": {
            "name": "search_docs",
            "description": "Search the documentation",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
            },
        },
    }
]

response = client.chat.completions.create(
    model="tenon-tiny",
    messages=[{"role": "user", "content": "How do I enable RDMA on EXO?"}],
    tools=tools,
)

print(response.choices[0].message)
