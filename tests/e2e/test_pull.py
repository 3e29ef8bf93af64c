"""`tenon pull`, `tenon models` and `serve --hf`, over a hub that is played, in the cache that the hub's own client uses."""
import hashlib
import json
import os
import pathlib
import pty
import signal
import subprocess
import threading
import time

import pytest
from played_hub import COMMIT, playing
from serving import ROOT, TENON, free_port, serving
from test_tools import heed_signals

MODEL = (ROOT / "models" / "tenon-tiny.gguf").read_bytes()
EIGHT = b"GGUF not a model, but of another hash"
FILES = {"tiny-Q4_K_M.gguf": MODEL, "tiny-Q8_0.gguf": EIGHT, "README.md": b"# Tiny", "mmproj-tiny-f16.gguf": b"GGUF projector"}
VENV = pathlib.Path(os.environ.get("TENON_VENV", ROOT / ".venv"))
OFFICIAL = VENV / "clients" / "huggingface" / "bin" / "python"


@pytest.fixture
def hub():
    with playing({"owner/repo": dict(FILES)}) as hub:
        yield hub


@pytest.fixture
def env(hub, tmp_path):
    """The environment of a command with this hub and a cache of its own, and nothing of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING", "OLLAMA", "TENON_MODEL"))}
    return {**kept, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "", "HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.url}


def tenon(*arguments, env, timeout=120):
    return subprocess.run([str(TENON), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, cwd=ROOT, env=env,
                          stdin=subprocess.DEVNULL)


def pulled(*arguments, env):
    run = tenon("pull", *arguments, env=env)
    assert run.returncode == 0, run.stderr
    return pathlib.Path(run.stdout.removesuffix("\n"))


def test_a_pull_prints_the_path_and_has_the_layout_of_the_hub(hub, env, tmp_path):
    path = pulled("owner/repo", env=env)
    repository = tmp_path / "hf" / "hub" / "models--owner--repo"
    digest = hashlib.sha256(MODEL).hexdigest()
    assert path == repository / "snapshots" / COMMIT / "tiny-Q4_K_M.gguf"
    assert os.readlink(path) == f"../../blobs/{digest}"
    assert path.read_bytes() == MODEL
    assert (repository / "refs" / "main").read_text() == COMMIT
    assert sorted(entry.name for entry in (repository / "blobs").iterdir()) == [digest]
    assert len(hub.cdn_requests) == 1
    assert pulled("hf:owner/repo:q4_k_m", env=env) == path
    assert len(hub.cdn_requests) == 1, "it was here"


def test_json_tells_all(env):
    run = tenon("pull", "owner/repo:Q8_0", "--json", env=env)
    told = json.loads(run.stdout)
    assert told.pop("path") == told.pop("files")[0]
    assert told == {"size_bytes": len(EIGHT), "name": "tiny-Q8_0", "repository": "owner/repo", "commit": COMMIT,
                    "quantisation": "Q8_0", "note": None}


@pytest.mark.parametrize("arguments,status,says", [
    (("owner/repo:Q5_K_M",), 3, "there are Q4_K_M, Q8_0"),
    (("owner/other",), 3, "check the name"),
    (("owner/repo@v9",), 3, "no such branch"),
    (("owner/repo", "--revision", "v9"), 3, "no such branch"),
    (("owner/repo", "--revision", "../x"), 2, "no branch"),
    (("owner",), 2, "OWNER/REPO"),
    (("../x/y",), 2, "OWNER/REPO"),
    ((), 2, "NAME"),
    (("ollama:llama3",), 3, "ollama pull llama3"),
    (("ollama:llama3", "--revision", "x"), 2, "no effect"),
])
def test_what_cannot_be_pulled_is_told_with_a_way_out(env, arguments, status, says):
    run = tenon("pull", *arguments, env=env)
    assert run.returncode == status, run.stderr
    assert says in run.stderr + run.stdout, run.stderr
    assert "terminate" not in run.stderr


def test_the_token_opens_and_stays_with_the_hub(tmp_path, env):
    with playing({"owner/repo": dict(FILES)}, token="hf_secret") as hub:  # its CDN asserts that it never sees the token
        env = {**env, "HF_ENDPOINT": hub.url}
        closed = tenon("pull", "owner/repo", env=env)
        assert closed.returncode == 3 and "HF_TOKEN" in closed.stderr, closed.stderr
        wrong = tenon("pull", "owner/repo", env={**env, "HF_TOKEN": "hf_other"})
        assert wrong.returncode == 3 and "the token in HF_TOKEN" in wrong.stderr and "hf_other" not in wrong.stderr, wrong.stderr
        (tmp_path / "hf").mkdir(exist_ok=True)
        (tmp_path / "hf" / "token").write_text("hf_secret\n")
        assert pulled("owner/repo", env=env).read_bytes() == MODEL
        assert len(hub.cdn_requests) == 1


def test_a_pull_that_is_killed_goes_on(hub, env, tmp_path):
    hub.cdn_fault = lambda handler: handler.send_file(MODEL, bytes_per_s=len(MODEL) // 4) or True
    with subprocess.Popen([str(TENON), "pull", "owner/repo"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=heed_signals) as pull:
        incomplete = tmp_path / "hf/hub/models--owner--repo/blobs" / (hashlib.sha256(MODEL).hexdigest() + ".incomplete")
        deadline = time.monotonic() + 60
        while not (incomplete.exists() and incomplete.stat().st_size > len(MODEL) // 8):
            assert time.monotonic() < deadline and pull.poll() is None
            time.sleep(0.02)
        pull.send_signal(signal.SIGINT)
        assert pull.wait(timeout=30) == -signal.SIGINT
    hub.cdn_fault = lambda handler: False
    had = incomplete.stat().st_size
    assert 0 < had < len(MODEL)
    run = tenon("pull", "owner/repo", env=env)
    assert run.returncode == 0 and "here already" in run.stderr, run.stderr
    assert pathlib.Path(run.stdout.strip()).read_bytes() == MODEL
    assert hub.cdn_requests[-1][2]["Range"] == f"bytes={had}-"
    assert not incomplete.exists()


def test_other_bytes_than_the_list_says_are_removed(hub, env, tmp_path):
    hub.cdn_fault = lambda handler: handler.send_file(b"x" * len(MODEL)) or True
    run = tenon("pull", "owner/repo", env=env)
    assert run.returncode == 4 and "another hash" in run.stderr, run.stderr
    assert not any((tmp_path / "hf/hub/models--owner--repo/blobs").iterdir())
    assert not (tmp_path / "hf/hub/models--owner--repo/refs/main").exists()


def test_a_busy_hub_is_asked_again(hub, env):
    busy = iter([503, 429])

    def fault(handler):
        status = next(busy, None)
        if status:
            handler.send(status, {"Retry-After": "0"})
        return status is not None

    hub.fault = fault
    run = tenon("pull", "owner/repo", env=env)
    assert run.returncode == 0, run.stderr
    assert "503" in run.stderr and "429" in run.stderr and "again in" in run.stderr, run.stderr


def test_without_the_network_the_cache_has_to_do(hub, env):
    path = pulled("owner/repo", env=env)
    asked = len(hub.requests)
    offline = {**env, "HF_HUB_OFFLINE": "1"}
    assert pulled("owner/repo", env=offline) == path
    missing = tenon("pull", "owner/repo:Q8_0", env=offline)
    assert missing.returncode == 4 and "HF_HUB_OFFLINE" in missing.stderr, missing.stderr
    assert len(hub.requests) == asked
    cut_off = {**env, "HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    run = tenon("pull", "owner/repo", env=cut_off)
    assert run.returncode == 0 and run.stdout.strip() == str(path)
    assert "not asked for a newer file" in run.stderr, run.stderr
    missing = tenon("pull", "owner/repo:Q8_0", env=cut_off)
    assert missing.returncode == 4 and "127.0.0.1" in missing.stderr and "names a mirror" in missing.stderr, missing.stderr


def test_pulls_at_once_fetch_a_file_once(hub, env):
    hub.cdn_fault = lambda handler: handler.send_file(MODEL, bytes_per_s=len(MODEL)) or True
    runs = [subprocess.Popen([str(TENON), "pull", "owner/repo"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(3)]
    told = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], told
    assert len({out for out, _ in told}) == 1
    assert len(hub.cdn_requests) == 1
    assert sum("another process" in err for _, err in told) == 2, told


def test_a_terminal_shows_a_bar(hub, env):
    hub.cdn_fault = lambda handler: handler.send_file(MODEL, bytes_per_s=len(MODEL)) or True
    master, slave = pty.openpty()
    with subprocess.Popen([str(TENON), "pull", "owner/repo"], env=env, stdout=subprocess.PIPE, stderr=slave) as pull:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 4096):
                shown += piece
        except OSError:
            pass  # the other side is closed
        assert pull.wait(timeout=60) == 0
    os.close(master)
    assert b"[#" in shown and b"/s" in shown and b"left" in shown, shown
    assert shown.rstrip().endswith(b"its hash is right"), shown[-200:]


def ask(server, model):
    import openai

    client = openai.OpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=60)
    assert [one.id for one in client.models.list().data] == [model]
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello there!"}], max_tokens=8)
    return answer.choices[0].message


def test_serve_fetches_and_then_needs_no_hub(hub, env, tmp_path):
    with serving(tmp_path / "first.log", "--hf", "owner/repo", env=env) as server:
        ask(server, "tiny-Q4_K_M")
    asked = len(hub.requests)
    with serving(tmp_path / "second.log", "--hf", "hf:owner/repo:Q4_K_M", env=env) as server:
        ask(server, "tiny-Q4_K_M")
    assert len(hub.requests) == asked, "what is here is served without a question"


def test_a_configuration_and_other_commands_take_names(env, tmp_path):
    config = tmp_path / "tenon.toml"
    config.write_text('[[model]]\nname = "mine"\npath = "hf:owner/repo:Q4_K_M"\n')
    with serving(tmp_path / "config.log", "--config", str(config), env=env) as server:
        ask(server, "mine")
        assert "fetching tiny-Q4_K_M.gguf" in server.log.read_text()
    inspected = tenon("inspect", "hf:owner/repo", "--json", env=env)
    assert json.loads(inspected.stdout)["format"] == "hermes", inspected.stderr
    called = tenon("call", "--model", "hf:owner/repo", "--max-tokens", "4", "Hello", env=env)
    assert called.returncode in (0, 1) and called.stdout and not called.stderr, called  # 1: it has not called
    wrong = tenon("serve", "--hf", "owner/repo:Q9", "--port", free_port(), env=env)
    assert wrong.returncode == 3 and "there are Q4_K_M, Q8_0" in wrong.stderr, wrong.stderr
    both = tenon("serve", "--hf", "owner/repo", "--model", "x.gguf", env=env)
    assert both.returncode == 2


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_fetches(hub, env, stop):
    hub.cdn_fault = lambda handler: handler.send_file(MODEL, bytes_per_s=1000) or True
    with subprocess.Popen([str(TENON), "serve", "--hf", "owner/repo", "--port", str(free_port())], env=env, stderr=subprocess.PIPE,
                          text=True) as serve:
        deadline = time.monotonic() + 60
        while not hub.cdn_requests:
            assert time.monotonic() < deadline and serve.poll() is None
            time.sleep(0.02)
        serve.send_signal(stop)
        assert serve.wait(timeout=30) == 128 + stop
        assert stop.name in serve.stderr.read()


def put_into_ollama(store, name, tag, content):
    digest = hashlib.sha256(content).hexdigest()
    (store / "blobs").mkdir(parents=True, exist_ok=True)
    (store / "blobs" / f"sha256-{digest}").write_bytes(content)
    manifest = store / "manifests" / "registry.ollama.ai" / "library" / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64, "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(content)}]}))
    return store / "blobs" / f"sha256-{digest}"


def test_models_of_ollama_are_served_where_they_lie(env, tmp_path):
    env = {**env, "OLLAMA_MODELS": str(tmp_path / "ollama")}
    blob = put_into_ollama(tmp_path / "ollama", "tiny", "latest", MODEL)
    assert pulled("ollama:tiny", env=env) == blob
    with serving(tmp_path / "ollama.log", "--ollama", "tiny", env=env) as server:
        ask(server, "tiny:latest")
    inspected = tenon("inspect", "ollama:tiny:latest", "--json", env=env)
    assert json.loads(inspected.stdout)["format"] == "hermes", inspected.stderr
    gone = tenon("serve", "--ollama", "tiny:7b", env=env)
    assert gone.returncode == 3 and "ollama pull tiny:7b" in gone.stderr, gone.stderr


def test_models_lists_what_is_here_by_names_that_work(hub, env, tmp_path):
    env = {**env, "OLLAMA_MODELS": str(tmp_path / "ollama"), "TENON_MODELS": str(tmp_path / "folder")}
    hub.repositories["owner/repo"]["big/tiny-F16-00001-of-00002.gguf"] = b"GGUF one"
    hub.repositories["owner/repo"]["big/tiny-F16-00002-of-00002.gguf"] = b"GGUF two"
    for name in ("owner/repo:Q4_K_M", "owner/repo:F16"):
        pulled(name, env=env)
    put_into_ollama(tmp_path / "ollama", "tiny", "1b", MODEL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.Q5_K_M.gguf").write_bytes(MODEL)
    run = tenon("models", "--json", env=env)
    listed = json.loads(run.stdout)
    found = [(one["source"], one["name"], one["quantisation"], one["size_bytes"], one["format"]) for one in listed]
    mine = str(tmp_path / "folder" / "mine.Q5_K_M.gguf")
    assert found[0][0] == "bundled" and found[0][4] == "hermes"
    assert sorted(found[1:]) == [("folder", mine, "Q5_K_M", len(MODEL), "hermes"),
                                 ("hub", "hf:owner/repo:F16", "F16", 16, None),
                                 ("hub", "hf:owner/repo:Q4_K_M", "Q4_K_M", len(MODEL), "hermes"),
                                 ("ollama", "ollama:tiny:1b", None, len(MODEL), "hermes")]
    assert ["error" in one for one in listed if one["name"] == "hf:owner/repo:F16"] == [True], "it says why it has no format"
    asked = len(hub.requests)
    for one in listed:
        if "error" not in one:
            assert tenon("inspect", one["name"], env=env).returncode == 0, one
    assert len(hub.requests) == asked
    table = tenon("models", env=env).stdout
    assert all(name in table for _, name, *_ in found), table


# ---- the hub's own client

needs_official = pytest.mark.skipif(not OFFICIAL.exists(), reason="scripts/setup.sh clients installs the hub's own client")


def official(code, env):
    run = subprocess.run([str(OFFICIAL), "-c", code], env={**env, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"},
                         capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


FIND = 'from huggingface_hub import try_to_load_from_cache as find; print(find("owner/repo", "{file}"))'


@needs_official
def test_the_hubs_own_client_finds_what_we_pulled(hub, env):
    path = pulled("owner/repo", env=env)
    assert official(FIND.format(file="tiny-Q4_K_M.gguf"), env) == str(path)
    assert official(FIND.format(file="tiny-Q8_0.gguf"), env) == "None"
    before = len(hub.cdn_requests)
    code = 'from huggingface_hub import hf_hub_download as get; print(get("owner/repo", "tiny-Q4_K_M.gguf"))'
    assert official(code, env) == str(path)
    assert len(hub.cdn_requests) == before, "it has nothing to fetch"
    scanned = official('from huggingface_hub import scan_cache_dir as scan; found = scan(); '
                       'print(len(found.warnings), [(r.repo_id, r.size_on_disk) for r in found.repos])', env)
    assert scanned == f"0 [('owner/repo', {len(MODEL)})]"


@needs_official
def test_we_find_what_the_hubs_own_client_pulled(hub, env):
    code = 'from huggingface_hub import hf_hub_download as get; print(get("owner/repo", "tiny-Q4_K_M.gguf"))'
    path = official(code, env)
    fetched = len(hub.cdn_requests)
    assert str(pulled("owner/repo", env=env)) == path
    assert str(pulled("owner/repo", env={**env, "HF_HUB_OFFLINE": "1"})) == path
    assert len(hub.cdn_requests) == fetched
    listed = json.loads(tenon("models", "--json", env=env).stdout)
    assert [one["path"] for one in listed if one["source"] == "hub"] == [path]


@needs_official
def test_both_at_once_fetch_a_file_once(hub, env):
    hub.cdn_fault = lambda handler: handler.command == "GET" and (handler.send_file(MODEL, bytes_per_s=len(MODEL) // 3) or True)
    ours = subprocess.Popen([str(TENON), "pull", "owner/repo"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not hub.cdn_requests:
        assert ours.poll() is None
        time.sleep(0.02)
    theirs = []
    code = 'from huggingface_hub import hf_hub_download as get; print(get("owner/repo", "tiny-Q4_K_M.gguf"))'
    thread = threading.Thread(target=lambda: theirs.append(official(code, env)))
    thread.start()
    out, err = ours.communicate(timeout=120)
    thread.join(timeout=120)
    assert ours.returncode == 0, err
    assert theirs == [out.strip()]
    assert sum(method == "GET" for method, _, _ in hub.cdn_requests) == 1
