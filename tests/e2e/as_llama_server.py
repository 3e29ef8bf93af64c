#!/usr/bin/env python3
"""Starts `tenon serve` by the options of llama-server, so that llama.cpp's own tests of its server run against it
(test_llama_cpp_suite.py). The model is the bundled one, whichever is named; options that Tenon has not are left out."""
import argparse
import hashlib
import json
import os
import pathlib
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TENON = os.environ.get("TENON_BIN", str(ROOT / "build/release/bin/tenon"))


def main():
    options = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("host", "port", "alias", "ctx-size", "parallel", "n-predict", "api-key", "chat-template-file", "temp", "seed"):
        options.add_argument(f"--{name}")
    told, _ = options.parse_known_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="as-llama-server-"))
    model = {"name": told.alias or "tenon-tiny", "alias": ["*"], "path": str(ROOT / "models" / "tenon-tiny.gguf"), "close_calls": True}
    for name, key in (("ctx_size", "context_tokens"), ("parallel", "max_concurrent"), ("n_predict", "max_tokens")):
        value = int(getattr(told, name) or 0)
        if value > 0:
            model[key] = value
    if told.chat_template_file:
        model["chat_template"] = str(pathlib.Path(told.chat_template_file).absolute())
    command = [TENON, "serve", "--host", told.host.split(",")[0], "--port", told.port, "--config", str(folder / "tenon.toml")]
    (folder / "tenon.toml").write_text("[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in model.items()))
    if told.api_key:
        (folder / "keys").write_text(f"user sha256:{hashlib.sha256(told.api_key.encode()).hexdigest()}\n")
        command += ["--api-keys", str(folder / "keys")]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
