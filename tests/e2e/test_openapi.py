"""openapi.json against the server that serves it, by schemathesis; the environment is one of scripts/setup.sh clients."""
import os
import pathlib
import subprocess
import sys

import jsonschema
import pytest
import requests
from serving import ROOT, serving
from tools import WEATHER

SCHEMATHESIS = pathlib.Path(sys.prefix) / "clients" / "schemathesis" / "bin" / "st"
HOOKS = ROOT / "tests" / "e2e" / "clients"
LONG = bool(os.environ.get("TENON_LONG"))

# Answers are short, since it is not they that are judged: requests that name a large max_tokens end with the context.
CONFIG = """[[model]]
name = "tenon-tiny"
path = "{model}"
max_tokens = 4
queue_limit = 1000
context_tokens = 1024
"""

# Which requests the document takes and the server does not is judged by refusals_fit_the_document: of values that do not
# go together the server says so with 400, which schemathesis would take for a fault.
LEFT_OUT = "positive_data_acceptance"


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    config = folder / "tenon.toml"
    config.write_text(CONFIG.format(model=ROOT / "models" / "tenon-tiny.gguf"))
    with serving(folder / "serve.log", "--config", str(config)) as running:
        yield running
        assert running.is_alive(), f"the server died:\n{running.log.read_text()[-4000:]}"


def test_the_document_stands_under_both_paths(api):
    documents = [requests.get(api.url + path, timeout=30).json() for path in ("/openapi.json", "/v1/openapi.json")]
    assert documents[0] == documents[1] and documents[0]["openapi"].startswith("3.1")
    assert documents[0]["components"]["schemas"]["ModelName"]["enum"] == ["tenon-tiny"]


def test_its_schemas_take_tools_and_calls(api, client):
    document = requests.get(api.url + "/openapi.json", timeout=30).json()

    def faults(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]

    answer = client.chat.completions.create(model="tenon-tiny", messages=[{"role": "user", "content": "Weather in Paris?"}],
                                            tools=[WEATHER], tool_choice="required", temperature=0)
    assert faults("Tool", WEATHER) == [] and faults("FunctionDefinition", WEATHER["function"]) == []
    assert faults("ChatCompletion", answer.to_dict()) == []
    for call in answer.choices[0].message.tool_calls:
        assert faults("ToolCall", call.to_dict()) == [] and faults("ToolCallFunction", call.function.to_dict()) == []
    assert faults("Tool", {"type": "function"}) and faults("FunctionDefinition", {"description": "without a name"})
    assert faults("ToolCall", {"type": "function", "function": {"name": "f", "arguments": "{}"}})
    assert faults("ToolCallFunction", {"name": "f", "arguments": {}})


@pytest.mark.timeout(1800)
def test_the_server_does_what_its_document_says(api, tmp_path):
    assert SCHEMATHESIS.exists(), "schemathesis is not installed: scripts/setup.sh clients"
    # Ten seconds, or five minutes on an idle machine.
    phases, examples = ("examples,coverage,fuzzing,stateful", "200") if LONG else ("fuzzing", "5")
    done = subprocess.run(
        [str(SCHEMATHESIS), "run", api.url + "/openapi.json", "--phases", phases, "--exclude-checks", LEFT_OUT,
         "--workers", "2", "--seed", "1", "--request-timeout", "60", "--continue-on-failure", "--no-color",
         "--generation-database", "none", "--max-examples", examples],
        cwd=tmp_path, env={**os.environ, "SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": str(HOOKS)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, (done.stdout + done.stderr)[-20000:]
