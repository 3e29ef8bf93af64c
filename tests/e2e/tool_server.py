"""A server of tools by the official SDK: `python tool_server.py` behind pipes, `python tool_server.py PORT` over HTTP."""
import asyncio
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

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


@server.prompt()
def forecast(city: str, days: str = "3") -> str:
    """Asks for a forecast"""
    return f"What will the weather be in {city} for {days} days?"


@server.resource("climate://bled")
def climate() -> str:
    """The climate of Bled"""
    return "Mild, with a lake."


class Table(BaseModel):
    name: str
    people: int = 2


def whom() -> Elicit[Table]:
    return Elicit("For whom?", Table)


@server.tool()
def reserve(city: str, table: Annotated[Table, Resolve(whom)]) -> str:
    """Books a table, once the user has said for whom"""
    return f"a table in {city} for {table.name} and {table.people - 1} more"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
