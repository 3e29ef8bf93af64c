"""What who runs the server counts on: keys, limits, TLS, reloading, traces, stopping."""
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import re
import signal
import ssl
import subprocess
import threading
import time

import anthropic
import httpx
import openai
import pytest
import requests
from serving import ROOT, TENON, serving
from tools import bearer, endless, make_key, settled

MODEL = ROOT / "models" / "tenon-tiny.gguf"
PROMPT = [{"role": "user", "content": "Tell me a story."}]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def client_of(server, key="none", **options):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60, **options)


def config_text(models=("tiny",), **settings):
    """A configuration with `settings` of the server, and models of these names."""
    server = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return f"[server]\n{server}" + "".join(
        f'[[model]]\nname = "{name}"\npath = "{MODEL}"\ncontext_tokens = 2048\nmax_tokens = 16\n' for name in models)


def reload(server):
    """Sends SIGHUP and waits until the log says what came of it; gives what the log says from there on."""
    begin = len(server.log.read_text())
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        said = server.log.read_text()[begin:]
        if "reloaded: " in said or "not reloaded, " in said:
            time.sleep(0.05)  # a line about what was not taken over comes right after it
            return server.log.read_text()[begin:]
        time.sleep(0.02)
    raise AssertionError(f"it did not reload:\n{server.log.read_text()[-3000:]}")


# ---- keys


def test_a_key_is_made_and_only_its_hash_is_in_the_file(tmp_path):
    run = subprocess.run([str(TENON), "key", "ann", "--running", "3"], capture_output=True, text=True, check=True)
    key = run.stderr.split()[-1]
    assert re.fullmatch(r"tenon-[0-9A-Za-z]{43}", key)
    assert re.fullmatch(r"ann sha256:[0-9a-f]{64} running=3\n", run.stdout)
    assert key not in run.stdout
    again = subprocess.run([str(TENON), "key", "ann", "--read", "--running", "3"], capture_output=True, text=True,
                           input=key + "\n", check=True)
    assert again.stdout == run.stdout and not again.stderr
    for arguments, given, status in [(("a/b",), None, 2), ((), None, 2), (("ann", "--read"), "short\n", 3),
                                     (("ann", "--running", "0"), None, 2), (("ann", "--read"), "two words" * 9, 3)]:
        run = subprocess.run([str(TENON), "key", *arguments], capture_output=True, text=True, input=given)
        assert run.returncode == status, (arguments, run.stderr)
        assert run.stderr


def test_keys_have_limits_and_responses_of_their_own(tmp_path):
    ann, ann_line = make_key("ann", "--requests-per-minute", "3")
    bob, bob_line = make_key("bob", "--tokens-per-minute", "1")
    (tmp_path / "keys.txt").write_text("# who may come in\n" + ann_line + bob_line)
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(api_keys_file="keys.txt", log_level="debug"))
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        with pytest.raises(openai.AuthenticationError):
            client_of(server, "tenon-wrong").models.list()
        kept = client_of(server, ann).responses.create(model="tiny", input="hi")
        with pytest.raises(openai.NotFoundError):
            client_of(server, bob).responses.retrieve(kept.id)
        assert client_of(server, ann).responses.retrieve(kept.id).id == kept.id
        client_of(server, ann).chat.completions.create(model="tiny", messages=PROMPT)
        with pytest.raises(openai.RateLimitError) as refused:
            client_of(server, ann).chat.completions.create(model="tiny", messages=PROMPT)
        assert refused.value.code == "rate_limit_exceeded"
        assert "'ann'" in refused.value.message and "requests_per_minute" in refused.value.message
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= 20
        messages = anthropic.Anthropic(base_url=server.url, api_key=bob, max_retries=0, timeout=60).messages
        messages.create(model="tiny", max_tokens=8, messages=PROMPT)
        with pytest.raises(anthropic.RateLimitError):
            messages.create(model="tiny", max_tokens=8, messages=PROMPT)
        assert client_of(server, ann).models.list().data, "what is only looked at has no limit"
        log = server.log.read_text()
        assert " key=ann POST /v1/chat/completions" in log
        assert "429 rate_limit_exceeded" in log
        assert ann not in log and bob not in log


def test_a_public_address_needs_a_key(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("# no keys\n")
    plain = tmp_path / "plain.txt"
    plain.write_text("sk-a-key-in-the-clear\n")
    for arguments, said in [((), "needs an API key"), (("--api-keys", str(empty)), "there is no key in it"),
                            (("--api-keys", str(plain)), "line 1: a line is NAME sha256:HASH")]:
        run = subprocess.run([str(TENON), "serve", "--host", "0.0.0.0", "--port", "0", *arguments],
                             capture_output=True, text=True, timeout=30)
        assert run.returncode == 3
        assert said in run.stderr and "sk-a-key" not in run.stderr


# ---- TLS


def make_certificate(folder, name):
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                    "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def test_tls_with_a_certificate_that_changes(tmp_path):
    first, first_key = make_certificate(tmp_path, "first")
    second, second_key = make_certificate(tmp_path, "second")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(first.read_bytes())
    key.write_bytes(first_key.read_bytes())
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(tls_certificate_file="tls.crt", tls_key_file="tls.key"))
    context = ssl.create_default_context(cafile=str(first))
    with serving(tmp_path / "serve.log", "--config", str(config), tls=context) as server:
        assert server.url.startswith("https://")
        client = client_of(server, http_client=httpx.Client(verify=context, limits=httpx.Limits(keepalive_expiry=None)))
        whole = settled(lambda: client.chat.completions.create(model="tiny", messages=PROMPT).choices[0].message.content)
        chunks = list(client.chat.completions.create(model="tiny", messages=PROMPT, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole
        with pytest.raises(openai.APIConnectionError):
            client_of(server).models.list()

        # A key that does not belong to the certificate: all stays as it was.
        certificate.write_bytes(second.read_bytes())
        assert "not reloaded, all stays as it was: TLS key file" in reload(server)
        assert httpx.get(server.url + "/health", verify=context).status_code == 200
        plain = httpx.get(server.url.replace("https:", "http:") + "/health")
        assert plain.status_code == 400 and "https://" in plain.json()["error"]["message"]
        key.write_bytes(second_key.read_bytes())
        assert "reloaded: no keys" in reload(server)
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health", verify=ssl.create_default_context(cafile=str(first)))
        assert httpx.get(server.url + "/health", verify=ssl.create_default_context(cafile=str(second))).status_code == 200


# ---- SIGHUP


def test_sighup_takes_over_what_can_change(tmp_path):
    ann, ann_line = make_key("ann")
    bob, bob_line = make_key("bob")
    keys, config = tmp_path / "keys.txt", tmp_path / "tenon.toml"
    keys.write_text(ann_line)
    config.write_text(config_text(api_keys_file="keys.txt", drain_timeout_s=1))
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        def models(key):
            answer = requests.get(server.url + "/v1/models", headers=bearer(key), timeout=10)
            return [model["id"] for model in answer.json()["data"]] if answer.status_code == 200 else answer.status_code

        assert models(ann) == ["tiny"] and models(bob) == 401
        keys.write_text(bob_line)
        assert "reloaded: 1 keys, log level info" in reload(server)
        assert models(bob) == ["tiny"] and models(ann) == 401

        for text, said in [
                (config_text(api_keys_file="nosuch.txt"), "nosuch.txt: No such file"),
                (config_text(api_keys_file="keys.txt", speed=3), "tenon.toml:3:9: unknown key server.speed"),
                (config_text(api_keys_file="keys.txt", log_level="loud"), "server.log_level must be"),
                (config_text(("tiny", "other"), api_keys_file="keys.txt").replace(str(MODEL), "/nowhere.gguf"), "/nowhere.gguf"),
                (config_text(api_keys_file="keys.txt", tls_key_file="x", tls_certificate_file="x", format_files=["y"]), None),
                ("[server", "tenon.toml:1:")]:
            config.write_text(text)
            said_now = reload(server)
            if said is None:
                assert "not taken over before the next start: server.format_files, server.tls_certificate_file" in said_now
            else:
                assert "not reloaded, all stays as it was" in said_now and said in said_now, said_now
            assert models(bob) == ["tiny"]

        config.write_text(config_text(("other", "tiny"), api_keys_file="keys.txt", log_level="debug", max_body_bytes=10_000))
        assert "log level debug, models added other" in reload(server)
        assert sorted(models(bob)) == ["other", "tiny"]
        assert " key=bob GET /v1/models" in server.log.read_text()
        large = requests.post(server.url + "/tokenize", headers=bearer(bob), json={"content": "x" * 20_000}, timeout=10)
        assert large.status_code == 413
        assert client_of(server, bob).chat.completions.create(model="other", messages=PROMPT).choices


def test_answers_go_on_while_their_model_is_replaced(tmp_path):
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(("old", "stays")))
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        client = client_of(server)
        stream = client.chat.completions.create(model="old", messages=PROMPT, stream=True, max_tokens=1500,
                                                logit_bias=endless(server, "old"))
        next(stream)
        config.write_text(config_text(("new", "stays")))
        assert "models added new, models removed old" in reload(server)
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="old", messages=PROMPT)
        assert client.chat.completions.create(model="new", messages=PROMPT).choices
        assert [chunk for chunk in stream][-1].choices[0].finish_reason == "length"


def resident_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.mark.skipif(b"__asan_init" in TENON.read_bytes(), reason="ASan keeps what is given back")
def test_a_model_that_goes_gives_its_memory_back(tmp_path):
    """Grammars of a model lie in the arenas of many threads, and glibc keeps what is free in the middle of an arena."""
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(("old",)))
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        client = client_of(server)

        def fill(i):
            schema = {"type": "object", "properties": {"mark": {"const": f"x{i:011}"}}, "required": ["mark"]}
            client.chat.completions.create(model="old", messages=PROMPT, response_format={
                "type": "json_schema", "json_schema": {"name": "mark", "schema": schema}})
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(fill, range(250)))
        full = resident_mb(server)
        config.write_text(config_text(("new",)))
        assert "models added new, models removed old" in reload(server)
        deadline = time.monotonic() + 20
        while resident_mb(server) > full - 20:  # the grammars alone have 30 MB
            assert time.monotonic() < deadline, f"{full:.0f} MB before, {resident_mb(server):.0f} MB behind"
            time.sleep(0.1)


def test_sighup_under_load_loses_nothing(tmp_path):
    _, line = make_key("spare")
    key, mine = make_key("mine")
    keys = tmp_path / "keys.txt"
    keys.write_text(mine)
    answered, faults, ends = [], [], threading.Event()
    with serving(tmp_path / "serve.log", "--model", str(MODEL), "--name", "tiny", "--api-keys", str(keys)) as server:
        def ask():
            client = client_of(server, key)
            while not ends.is_set():
                try:
                    client.chat.completions.create(model="tiny", messages=PROMPT, max_tokens=4)
                    answered.append(time.monotonic())
                except openai.OpenAIError as error:
                    faults.append(repr(error))
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        for i in itertools.count():
            if i >= 20 and len(answered) >= 20 or time.monotonic() - begin > 60:
                break
            keys.write_text(mine + (line if i % 2 else ""))
            reload(server)
        ends.set()
        for thread in threads:
            thread.join()
        assert not faults
        assert len(answered) >= 20, "the server was hardly asked while it reloaded"


# ---- traces, contents, stopping


def test_log_lines_carry_the_trace_and_no_contents(tmp_path):
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(log_level="debug", log_contents=False) +
                      'chat_template = "t.jinja"\ntool_call_format = "hermes"\n')
    (tmp_path / "t.jinja").write_text(
        "{% for m in messages %}{% if m.tool_calls and m.tool_calls | length > 1 %}"
        "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
        "{{ m.role }}: {{ m.content }}\n{% endfor %}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}")
    names = ["secret_one", "secret_two"]
    history = [*PROMPT, {"role": "assistant", "content": None, "tool_calls": [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}} for i, name in enumerate(names)]},
        *({"role": "tool", "tool_call_id": f"c{i}", "content": "hidden"} for i in range(2))]
    body = {"model": "tiny", "messages": history, "max_tokens": 4,
            "tools": [{"type": "function", "function": {"name": name}} for name in names]}
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        answer = requests.post(server.url + "/v1/chat/completions", json=body, timeout=30,
                               headers={"traceparent": PARENT, "x-request-id": "mine"})
        assert answer.status_code == 200, answer.text
        log = server.log.read_text()
        assert "mine trace=0af7651916cd43dd8448eb211c80319c POST /v1/chat/completions" in log
        assert "info mine trace=0af7651916cd43dd8448eb211c80319c " in log, "what was shaped is told"
        assert "secret_" not in log and "hidden" not in log


def lines_of(server, path, body, lines):
    with contextlib.suppress(requests.RequestException):
        with requests.post(server.url + path, json={**body, "stream": True}, stream=True, timeout=30) as answer:
            for line in answer.iter_lines():
                lines.append(line.decode())


def test_answers_that_are_cut_say_so(tmp_path):
    config = tmp_path / "tenon.toml"
    config.write_text(config_text(drain_timeout_s=0).replace("max_tokens = 16\n", "").replace("2048", "16384"))
    with serving(tmp_path / "serve.log", "--config", str(config)) as server:
        chat = {"model": "tiny", "messages": PROMPT, "max_tokens": 16_000, "logit_bias": endless(server, "tiny")}
        seen = []
        thread = threading.Thread(target=lines_of, args=(server, "/v1/chat/completions", chat, seen))
        thread.start()
        deadline = time.monotonic() + 30
        while len(seen) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(seen) >= 8, seen
        server.process.terminate()
        thread.join()
        assert server.process.wait(timeout=20) == 0
        last = json.loads([line for line in seen if line.startswith("data: {")][-1].removeprefix("data: "))
        assert last["error"]["code"] == "server_stopping", seen[-5:]
        assert "the answer was cut: the server is being stopped" in server.log.read_text()
