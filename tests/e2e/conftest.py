"""One `tenon serve` on the bundled model for each process that runs tests, and clients to talk to it.

`make test` runs one process more than there are cores (pytest-xdist), each with the tests of a file at a time.
A fixture of the session exists once per process. A test that must not run beside others has the marker `serial`."""
import fcntl
import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from faulty_server import serving_faults
from native import Installed
from played import serving_played
from serving import ROOT, TENON, serving
from verify_player import serving_player

# Without a limit a small model may ramble until its context is full where a request names no max_tokens. No limit cuts a call, so
# that what tests say of calls holds for whatever a model writes.
CONFIG = """[[model]]
name = "tenon-tiny"
path = "{model}"
max_tokens = 400
close_calls = true
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    assert TENON.exists(), f"{TENON} is missing: run `make build`, or set TENON_BIN"
    folder = tmp_path_factory.mktemp("server")
    config = folder / "tenon.toml"
    config.write_text(CONFIG.format(model=ROOT / "models" / "tenon-tiny.gguf"))
    with serving(folder / "serve.log", "--config", str(config)) as running:
        yield running
        assert running.is_alive(), f"the server died:\n{running.log.read_text()[-4000:]}"


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """One whose model is played: for what a model has to choose by itself."""
    with serving_played(tmp_path_factory.mktemp("played")) as running:
        yield running


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    """One whose engine a request scripts, for `tenon verify --played`."""
    with serving_player(tmp_path_factory.mktemp("player")) as running:
        yield running


@pytest.fixture(scope="module")
def faulty(player):
    """One that relays `player`, with faults that are switched on."""
    with serving_faults(player.port) as running:
        yield running


def client_of(server):
    import openai

    return openai.OpenAI(base_url=server.url + "/v1", api_key="not-needed", max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def client(server):
    return client_of(server)


@pytest.fixture(scope="session")
def played_client(played):
    return client_of(played)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, worker_id):
    """The Python package, built against the same release libraries as the binary; one process builds it for all."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent  # pytest-xdist: below this run's folder each process has its own
    with open(folder / "wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / "wheel.txt"
        if not known.exists():
            done = subprocess.run([ROOT / "scripts/python.sh", "--no-build"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            [built] = (ROOT / "dist").glob("*.whl")
            known.write_text(str(built))
        return pathlib.Path(known.read_text())


@pytest.fixture(scope="session")
def python_with_numpy():
    """The system's interpreter in a folder that every user may read, with numpy of this environment, the package Made.Up, whose module
    is `mdp` and prints when it is imported, and a module beside them."""
    system = "/usr/bin/python3"
    version = subprocess.run([system, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True).stdout.split()
    if version != [str(part) for part in sys.version_info[:2]]:
        pytest.skip("this environment's numpy is built for another version than the system's Python")
    numpy = importlib.metadata.distribution("numpy")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        subprocess.run([system, "-m", "venv", "--without-pip", folder], check=True)
        (packages,) = pathlib.Path(folder).glob("lib/python*/site-packages")
        for top in {file.parts[0] for file in numpy.files} - {".."}:
            shutil.copytree(numpy.locate_file(top), packages / top)
        (packages / "mdp").mkdir()
        (packages / "mdp" / "__init__.py").write_text("print('hello from mdp')\nVALUE = 7\n")
        about = packages / "Made.Up-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: Made.Up\nVersion: 1.0\n")
        (about / "RECORD").write_text("mdp/__init__.py,,\nMade.Up-1.0.dist-info/METADATA,,\nMade.Up-1.0.dist-info/RECORD,,\n")
        (packages / "beside.py").write_text("")
        yield f"{folder}/bin/python"
