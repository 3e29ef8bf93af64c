"""A server of tools by the official SDK, as requests name it: `python hosted_tools.py PORT`. It tells which headers came."""
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("hosted", version="1.2.3")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def get_weather(location: str) -> str:
    """Get current weather"""
    return f"heavy rain in {location}"


@server.tool(annotations=ToolAnnotations(destructiveHint=True))
def book(city: str) -> str:
    """Books a table"""
    return f"a table in {city}"


@server.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("out of cheese")


@server.tool()
def whose(ctx: Context) -> str:
    """Whose request it is"""
    headers = ctx.request_context.request.headers
    return f"{headers.get('authorization')} {headers.get('x-team')}"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
