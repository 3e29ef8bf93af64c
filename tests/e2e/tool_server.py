"""A server of tools by the official SDK: `python tool_server.py` behind pipes, `python tool_server.py PORT` over HTTP."""
import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("weather", version="1.2.3")


@server.tool()
def get_weather(location: str) -> str:
    """Get current weather"""
    return f"heavy rain in {location}"


@server.tool()
async def slow(ctx: Context) -> str:
    """Takes a minute"""
    await asyncio.sleep(60)
    return "done"


@server.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("out of cheese")


@server.tool()
def add(a: int, b: int = 2) -> dict[str, int]:
    """Adds two numbers"""
    return {"sum": a + b}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
