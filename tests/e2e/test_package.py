"""The Debian package: made, installed, started as its service starts it, asked, removed. With TENON_LONG=1, as root, on Debian."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import pytest
from serving import ROOT, VERSION, free_port

BUILD = ROOT / "build" / "release"
pytestmark = [
    pytest.mark.serial,  # installs into the machine itself
    pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="installs a package: TENON_LONG"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("dpkg-deb"), reason="installs a package: root, on Debian"),
]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}


def run(*command, **more):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **more)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
    found = {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
    assert set(found) == {"tenon", "libtenon-dev"}
    return found


@pytest.fixture(scope="module")
def installed(packages):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "install", "--yes", "--no-install-recommends", packages["tenon"], env=environment)
    try:
        yield
    finally:
        run("dpkg", "--purge", "tenon")


def files_of(package):
    return [line.split()[5].removeprefix(".") for line in run("dpkg-deb", "--contents", package).splitlines() if line[0] == "-"]


def test_what_is_in_them(packages):
    files = files_of(packages["tenon"])
    for wanted in ("/usr/bin/tenon", "/etc/tenon/tenon.toml", "/lib/systemd/system/tenon.service", "/usr/share/man/man1/tenon.1.gz",
                   "/usr/share/man/man1/tenon-serve.1.gz", "/usr/share/man/man5/tenon.toml.5.gz",
                   "/usr/share/bash-completion/completions/tenon", "/usr/share/tenon/models/tenon-tiny.gguf",
                   "/usr/lib/tenon/libllama.so.0", f"/usr/lib/libtenon.so.{VERSION}", "/usr/share/doc/tenon/configuration.md",
                   "/usr/share/doc/tenon/copyright"):
        assert wanted in files, wanted
    assert not [name for name in files if "/local/" in name or name.endswith((".a", ".h"))]
    headers = files_of(packages["libtenon-dev"])
    for wanted in ("/usr/include/tenon.h", "/usr/include/tenon/json/value.h", "/usr/lib/cmake/tenon/tenon-config.cmake"):
        assert wanted in headers, wanted
    assert not set(files) & set(headers)


def test_the_service(installed, tmp_path):
    for file in ("/usr/bin/tenon", "/usr/lib/libtenon.so.0"):
        libraries = run("ldd", file)
        assert "not found" not in libraries
        places = [line.split()[2] for line in libraries.splitlines() if "libllama" in line or "libggml" in line]
        assert all(os.path.realpath(place).startswith("/usr/lib/tenon/") for place in places), libraries
        assert places or file != "/usr/bin/tenon"
        assert str(ROOT).encode() not in pathlib.Path(file).read_bytes()
    assert pathlib.Path("/var/lib/tenon").owner() == "tenon" and pathlib.Path("/var/lib/tenon").stat().st_mode & 0o777 == 0o700
    unit = pathlib.Path("/lib/systemd/system/tenon.service").read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()
    port = free_port()
    with open(tmp_path / "log", "wb") as log:
        service = subprocess.Popen(["setpriv", "--reuid=tenon", "--regid=tenon", "--clear-groups", "--no-new-privs", *command,
                                    "--port", str(port)],
                                   env={"HOME": "/var/lib/tenon", "PATH": "/usr/bin"}, cwd="/var/lib/tenon", stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            assert service.poll() is None, (tmp_path / "log").read_text()
            if f"{port}/v1" in (tmp_path / "log").read_text():
                break
            time.sleep(0.1)
        body = {"model": "tenon-tiny", "messages": [{"role": "user", "content": "What is the weather in Rome?"}], "tools": [WEATHER],
                "tool_choice": "required", "temperature": 0, "max_tokens": 100, "tenon": {"close_calls": True}}
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
        body = {"model": "tenon-tiny", "input": "Hello", "max_output_tokens": 8}
        request = urllib.request.Request(f"{url}/v1/responses", json.dumps(body).encode(), {"content-type": "application/json"})
        assert json.load(urllib.request.urlopen(request, timeout=60))["id"]
        assert pathlib.Path("/var/lib/tenon/responses.db").owner() == "tenon"
    finally:
        service.terminate()
        assert service.wait(30) == 0


def test_pages_and_completion(installed):
    for page in ("tenon", "tenon-serve", "tenon-rlm"):
        text = subprocess.run(f"zcat /usr/share/man/man1/{page}.1.gz | man --warnings -E UTF-8 -l -Tutf8 -Z - 2>&1 >/dev/null",
                              shell=True, capture_output=True, text=True) if shutil.which("man") else None
        assert text is None or text.stdout == "", text.stdout
    script = "source /usr/share/bash-completion/completions/tenon; COMP_WORDS=({words}); COMP_CWORD={at}; _tenon; echo ${{COMPREPLY[@]}}"
    assert run("bash", "-c", script.format(words="tenon ser", at=1)).split() == ["serve"]
    assert run("bash", "-c", script.format(words="tenon serve --po", at=2)).split() == ["--port"]
    for shell, flag in (("zsh", "-n"), ("fish", "-n")):
        if shutil.which(shell):
            run(shell, flag, {"zsh": "/usr/share/zsh/vendor-completions/_tenon",
                              "fish": "/usr/share/fish/vendor_completions.d/tenon.fish"}[shell])


def test_the_unit_is_understood(installed):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", "/lib/systemd/system/tenon.service"], capture_output=True, text=True)
    complaints = [line for line in (result.stdout + result.stderr).splitlines() if "tenon.service" in line]
    assert not complaints, complaints


def test_the_dockerfile_is_sound():
    linter = ROOT / "tests/e2e/clients/dockerfile/node_modules/.bin/dockerfile-utils"
    if not linter.exists():
        pytest.skip("scripts/setup.sh clients-long installs the linter")
    run(linter, "lint", ROOT / "packaging" / "Dockerfile")
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    for path in [word for line in text.splitlines() if line.startswith(("RUN", " ")) for word in line.split()
                 if word.startswith(("scripts/", "packaging/"))]:
        assert (ROOT / path).exists(), path


def test_removing_leaves_the_configuration_and_purging_nothing(packages):
    run("dpkg", "--install", packages["tenon"])
    config = pathlib.Path("/etc/tenon/tenon.toml")
    config.write_text(config.read_text() + "# mine\n")
    run("dpkg", "--install", packages["tenon"])
    assert config.read_text().endswith("# mine\n"), "an upgrade keeps what was changed"
    run("dpkg", "--remove", "tenon")
    assert config.exists() and not pathlib.Path("/usr/bin/tenon").exists()
    run("dpkg", "--purge", "tenon")
    for gone in ("/etc/tenon", "/usr/lib/tenon", "/usr/share/tenon", "/var/lib/tenon", "/usr/share/doc/tenon"):
        assert not pathlib.Path(gone).exists(), gone
