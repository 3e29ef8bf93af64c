"""A server of tools by FastMCP over HTTP: `python fastmcp_server.py PORT [login]`. With `login` it wants a token, is its own
authorization server, registers every client and lets everyone in."""
import sys

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions

port = int(sys.argv[1])
wants_login = sys.argv[2:] == ["login"]
auth = InMemoryOAuthProvider(base_url=f"http://127.0.0.1:{port}",
                             client_registration_options=ClientRegistrationOptions(enabled=True)) if wants_login else None
server = FastMCP("town", instructions="Ask before you book.", auth=auth)


@server.tool
def add(a: int, b: int = 1) -> dict:
    """Adds two numbers"""
    return {"sum": a + b}


@server.tool
async def book(city: str, ctx: Context) -> str:
    """Books a table, and tells how far it is"""
    await ctx.report_progress(1, 2, "half")
    return f"a table in {city}"


@server.tool
def fail() -> str:
    """Fails"""
    raise ToolError("out of cheese")


if __name__ == "__main__":
    server.run("http", host="127.0.0.1", port=port, show_banner=False)
