"""`tenon doctor`: what each model of a configuration can do, or why it is not there."""
import json
import subprocess
import threading

import pytest
from scripted_upstream import TEMPLATE, Upstream
from serving import ROOT, TENON

CONFIG = """[[model]]
name = "here"
path = "{model}"

[[model]]
name = "there"
engine = "llama-server"
url = "http://127.0.0.1:{port}"

[[model]]
name = "nowhere"
engine = "llama-server"
url = "http://127.0.0.1:1"
"""


def doctor(*arguments):
    return subprocess.run([str(TENON), "doctor", *arguments], capture_output=True, text=True, timeout=60)


def test_says_what_each_model_can_do(tmp_path):
    upstream = Upstream(lambda prompt: "", TEMPLATE)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        config = tmp_path / "tenon.toml"
        config.write_text(CONFIG.format(model=ROOT / "models" / "tenon-tiny.gguf", port=upstream.server_port))
        result = doctor("--config", str(config), "--json")
        assert result.returncode == 4, result.stderr
        here, there, nowhere = map(json.loads, result.stdout.splitlines())
        assert here["holding"] == "masks" and here["chat_template"] and here["tool_call_format"]
        assert there == {"model": "there", "engine": "llama-server", "url": f"http://127.0.0.1:{upstream.server_port}",
                         "context_tokens": 1 << 20, "max_concurrent": 8, "holding": "gbnf", "prompt": "tokens", "vocabulary": 256,
                         "chat_template": True, "tool_call_format": "hermes"}
        assert nowhere["model"] == "nowhere" and "127.0.0.1:1" in nowhere["error"]
        shown = doctor("--config", str(config))
        assert shown.returncode == 4 and "\n  holding: gbnf\n" in shown.stdout
    finally:
        upstream.shutdown()
        upstream.server_close()


def test_tells_what_the_code_of_recursive_models_runs_in(tmp_path):
    def told(server):
        config = tmp_path / "tenon.toml"
        config.write_text(f"[server]\nrepl_memory_mb = 2048\n{server}\n" + CONFIG.format(model=ROOT / "models" / "tenon-tiny.gguf", port=1)
                          .split("[[model]]\nname = \"there\"")[0] + '[[model]]\nname = "rlm"\nengine = "rlm"\nroot = "here"\n')
        result = doctor("--config", str(config), "--json")
        return result.returncode, json.loads(result.stdout.splitlines()[-1])

    status, report = told('repl_python = "/usr/bin/python3"')
    if "no sandbox works" in report.get("error", ""):
        pytest.skip(report["error"])
    assert status == 0 and report["sandbox"] in ("bubblewrap", "landlock"), report
    assert report["python"].startswith("3.") and report["repl_python"] == "/usr/bin/python3", report
    assert (report["repl_packages"], report["repl_memory_mb"], report["repl_folder_mb"]) == ([], 2048, 0), report
    status, report = told('repl_packages = ["no-such-package"]')
    assert status == 4 and "the package no-such-package is not installed" in report["error"], report
    assert report["repl_packages_missing"] == ["no-such-package"] and report["python"].startswith("3."), report
    status, report = told('repl_python = "/no/such/python3"')
    assert status == 4 and "/no/such/python3" in report["error"] and "python" not in report, report


def test_a_model_by_itself():
    result = doctor("--model", str(ROOT / "models" / "tenon-tiny.gguf"), "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["holding"] == "masks"
    assert doctor("--model", "/no/such.gguf").returncode == 4
    assert doctor("--config", "/no/such.toml").returncode == 3
