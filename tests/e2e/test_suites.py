"""What other projects try their own servers and clients with, over the bundled model: the examples of OpenAI's and Anthropic's
SDKs, and llama.cpp's tests of its server. docs/conformance.md has the results. Nothing of theirs is in this tree: the examples come
from the SDKs' source packages, llama.cpp's tests from a folder that TENON_LLAMA_TESTS names (tools/server/tests in its sources)."""
import os
import pathlib
import re
import subprocess
import tarfile

import pytest
from agents import ENVIRONMENTS
from serving import ROOT, free_port, serving

pytestmark = [pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="suites of other projects: TENON_LONG"), pytest.mark.serial]
PYTHON = ENVIRONMENTS / "suites" / "bin" / "python"
CONFIG = """[[model]]
name = "tenon-tiny"
alias = ["*"]
path = "{model}"
max_tokens = 400
close_calls = true
"""

# Those that need this server alone. The others need a service or a person: docs/conformance.md.
EXAMPLES = {
    "openai": ["async_demo", "demo", "httpx2_client", "parsing", "parsing_stream", "parsing_tools_stream", "responses_input_tokens",
               "streaming"],
    "anthropic": ["fallbacks", "messages", "messages_stream", "structured_outputs", "structured_outputs_streaming", "thinking",
                  "thinking_stream", "tools", "tools_runner", "tools_runner_search_tool", "tools_stream", "web_search",
                  "web_search_stream"],
}


@pytest.fixture(scope="session")
def any_model(tmp_path_factory):
    """A server that answers to every name of a model."""
    assert PYTHON.exists(), f"{PYTHON} is not installed: scripts/setup.sh clients-long"
    folder = tmp_path_factory.mktemp("any-model")
    (folder / "tenon.toml").write_text(CONFIG.format(model=ROOT / "models" / "tenon-tiny.gguf"))
    with serving(folder / "serve.log", "--config", str(folder / "tenon.toml")) as running:
        yield running


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """The folders of the examples. pip asks a source package for its name, which takes a minute."""
    folder = tmp_path_factory.mktemp("sources")
    wanted = re.findall(r"^(?:openai|anthropic)==\S+", (ROOT / "requirements/clients/suites.in").read_text(), re.M)
    subprocess.run([PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder, *wanted],
                   check=True, timeout=900)
    for package in folder.glob("*.tar.gz"):
        with tarfile.open(package) as sources:
            sources.extractall(folder, filter="data")
    return {name: next(folder.glob(f"{name}-*/examples")) for name in EXAMPLES}


@pytest.mark.parametrize(("sdk", "name"), [(sdk, name) for sdk, names in EXAMPLES.items() for name in names])
def test_example_of_an_sdk(any_model, examples, sdk, name):
    env = {**os.environ, "OPENAI_BASE_URL": f"{any_model.url}/v1", "OPENAI_API_KEY": "none",
           "ANTHROPIC_BASE_URL": any_model.url, "ANTHROPIC_API_KEY": "none"}
    run = subprocess.run([PYTHON, f"{name}.py"], cwd=examples[sdk], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=300)
    assert run.returncode == 0 and run.stdout.strip(), run.stdout + run.stderr


# ---- llama.cpp's tests of its server ------------------------------------------------------------

LLAMA_TESTS = os.environ.get("TENON_LLAMA_TESTS")
# Those of which every case passes, without llama-server's own routes, words of its own test model, pictures and downloads.
LLAMA_PASSED = {
    "test_basic": ["test_server_models", "test_server_start_simple"],
    "test_chat_completion": [
        "test_chat_completions_multiple_choices", "test_chat_template_continue_final_message_mutual_exclusion",
        "test_completion_with_grammar", "test_completion_with_invalid_grammar", "test_completion_with_json_schema",
        "test_completion_with_response_format", "test_logit_bias", "test_logprobs", "test_logprobs_stream"],
    "test_compat_anthropic": [
        "test_anthropic_count_tokens", "test_anthropic_count_tokens_no_max_tokens", "test_anthropic_count_tokens_with_system",
        "test_anthropic_messages_basic", "test_anthropic_messages_conversation", "test_anthropic_messages_multipart_content",
        "test_anthropic_messages_streaming", "test_anthropic_messages_with_system", "test_anthropic_metadata",
        "test_anthropic_missing_messages", "test_anthropic_stop_sequences", "test_anthropic_streaming_content_block_indices",
        "test_anthropic_temperature", "test_anthropic_thinking", "test_anthropic_thinking_history_in_count_tokens",
        "test_anthropic_tool_result", "test_anthropic_tool_result_error", "test_anthropic_tool_result_with_text",
        "test_anthropic_tool_streaming", "test_anthropic_tool_use_basic", "test_anthropic_top_k", "test_anthropic_top_p",
        "test_anthropic_vs_openai_different_response_format"],
    "test_compat_oai_responses": ["test_responses_stream_with_openai_library"],
    "test_security": ["test_access_public_endpoint", "test_incorrect_api_key", "test_openai_library_correct_api_key"],
    "test_tool_call": ["test_completion_without_tool_call_fast"],
}


@pytest.mark.skipif(not LLAMA_TESTS, reason="TENON_LLAMA_TESTS names no folder: tools/server/tests in llama.cpp's sources")
@pytest.mark.parametrize("file", LLAMA_PASSED)
def test_llama_cpp_server(file):
    folder = pathlib.Path(LLAMA_TESTS)
    wanted = LLAMA_PASSED[file]
    env = {**os.environ, "LLAMA_SERVER_BIN_PATH": str(pathlib.Path(__file__).with_name("as_llama_server.py")), "PORT": str(free_port())}
    run = subprocess.run([PYTHON, "-m", "pytest", "-q", "-rA", "--tb=line", "--timeout", "120", "-p", "no:cacheprovider",
                          "-m", "not slow", "-k", " or ".join(wanted), f"unit/{file}.py"],
                         cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
    ended = re.findall(r"^(PASSED|FAILED|ERROR) unit/\w+\.py::(\w+)", run.stdout, re.M)
    assert {name for _, name in ended} >= set(wanted), run.stdout[-4000:] + run.stderr[-2000:]
    assert not [name for how, name in ended if how != "PASSED" and name in wanted], run.stdout[-4000:]
