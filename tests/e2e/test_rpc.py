"""A model whose layers are spread over two workers answers as it does alone."""
import contextlib
import json
import socket
import subprocess
import time
import urllib.request

import pytest
from serving import ROOT, TENON, free_port, serving

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "required": ["city", "unit"], "additionalProperties": False,
    "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["celsius", "fahrenheit"]}}}}}]
REQUESTS = [
    {"messages": [{"role": "user", "content": "What is the weather in Paris in celsius?"}],
     "tools": TOOLS, "tool_choice": "required"},
    {"messages": [{"role": "user", "content": "What is the weather in Rome?"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "Hello! Tell me something."}]},
]


@contextlib.contextmanager
def worker(log):
    address = f"127.0.0.1:{free_port()}"
    with open(log, "wb") as output:
        process = subprocess.Popen([str(TENON), "worker", "--listen", address, "--threads", "1"],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 30
        while True:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(OSError), socket.create_connection(address.split(":"), timeout=1):
                break
            time.sleep(0.05)
        yield address
        assert process.poll() is None, f"the worker died:\n{log.read_text()[-2000:]}"
    finally:
        process.kill()
        process.wait()


def answers(folder, name, rpc):
    config = folder / f"{name}.toml"
    config.write_text(f'[[model]]\nname = "m"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\n'
                      f"max_tokens = 60\n{rpc}\n")
    messages = []
    with serving(folder / f"{name}.log", "--config", str(config)) as server:
        for request in REQUESTS:
            body = json.dumps({"model": "m", "temperature": 0, **request}).encode()
            with urllib.request.urlopen(f"{server.url}/v1/chat/completions", body, timeout=60) as answer:
                message = json.load(answer)["choices"][0]["message"]
            for call in message.get("tool_calls") or []:
                del call["id"]
            messages.append(message)
    return messages


def test_the_answers_are_those_of_one_machine(tmp_path):
    with worker(tmp_path / "one.log") as one, worker(tmp_path / "two.log") as two:
        spread = answers(tmp_path, "spread", f'rpc = ["{one}", "{two}"]')
        for log in ("one.log", "two.log"):
            assert "Accepted client connection" in (tmp_path / log).read_text()
    assert spread == answers(tmp_path, "alone", "")
    assert spread[0]["tool_calls"][0]["function"]["name"] == "get_weather"


@pytest.mark.parametrize("address, said", [
    ("127.0.0.1:1", "no RPC worker answers at 127.0.0.1:1"),
    ("nowhere", "'nowhere' is no address of an RPC worker: write host:port"),
    ("127.0.0.1:99999", "'127.0.0.1:99999' is no address of an RPC worker"),
])
def test_a_worker_that_is_not_there_is_named(tmp_path, address, said):
    config = tmp_path / "tenon.toml"
    config.write_text(f'[[model]]\nname = "m"\npath = "{ROOT / "models" / "tenon-tiny.gguf"}"\nrpc = ["{address}"]\n')
    ended = subprocess.run([str(TENON), "serve", "--port", "0", "--config", str(config)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert said in ended.stderr


def test_an_address_that_is_none_is_refused():
    ended = subprocess.run([str(TENON), "worker", "--listen", "nowhere"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "write host:port" in ended.stderr
