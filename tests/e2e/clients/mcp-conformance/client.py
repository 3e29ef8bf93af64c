"""The client that the protocol's conformance runner tests: it gives each scenario's server to `tenon mcp`.

    conformance client --command "python3 client.py" --requirements 2026-07-28

The runner appends the server's address, and tells the scenario, with what it needs, in the environment.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TENON = os.environ.get("TENON_BIN", str(Path(__file__).parents[4] / "build/release/bin/tenon"))
# The client id that the scenario auth/basic-cimd expects; the servers of all scenarios know it.
METADATA = "https://conformance-test.local/client-metadata.json"
# Logs in at once: the scenarios' servers send the browser on to the client.
BROWSER = Path(__file__).with_name("browser.py")


def oauth(scenario, context):
    told = {"clientMetadataUrl": METADATA}
    if "client_id" in context:
        told["clientId"] = context["client_id"]
    if "client_secret" in context:
        told["clientSecret"] = context["client_secret"]
    if scenario.startswith("auth/client-credentials"):
        told["grant"] = "client_credentials"
    return told


def arguments_for(tool):
    """Something of the right type for each argument that the tool needs."""
    sample = {"string": "x", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}
    schema = tool["inputSchema"]
    return {name: sample.get(about.get("type"), "x") for name, about in schema.get("properties", {}).items()}


def main():
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder:
        servers = {"suite": {"url": sys.argv[-1], "oauth": oauth(scenario, context)}}
        (Path(folder) / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        environment = {**os.environ, "XDG_STATE_HOME": folder, "BROWSER": str(BROWSER)}

        def tenon(command, *words):
            run = subprocess.run([TENON, "mcp", command, "suite", *words, "--mcp", f"{folder}/mcp.json", "--timeout", "120",
                                  "--login"], env=environment, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            return run.returncode, run.stdout

        status, listed = tenon("tools", "--json")
        tools = [json.loads(line) for line in listed.splitlines()]
        if status != 0 or scenario == "json-schema-ref-no-deref":
            return status
        usable = [tool for tool in tools if "fault" not in tool]
        calls = context.get("toolCalls") or [{"name": tool["name"], "arguments": arguments_for(tool)} for tool in usable]
        if scenario == "json-schema-2020-12-preservation":
            schema = next(tool["inputSchema"] for tool in tools if tool["name"] == "json_schema_2020_12_tool")
            calls = [{"name": "json_schema_echo", "arguments": {"schema": schema}}]
        answers = {"confirmed": True} if scenario.startswith("sep-2322") else {}
        for call in calls:
            given, _ = tenon("call", call["name"], json.dumps(call["arguments"]), "--answers", json.dumps(answers))
            status = max(status, given)
        return status


if __name__ == "__main__":
    sys.exit(main())
