"""The sandbox of recursive models, by `tenon sandbox`: attacks are refused in both tiers, as root and as another user."""
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import random
import socket
import subprocess
import tempfile
import threading
import time

import pytest
from data import LARGE, SAMPLES
from serving import TENON

MORE = LARGE.parent / "sandbox" / "attacks.py"
TIERS = ["bubblewrap", "landlock"]
USERS = ["self", "nobody"]
SECRET = "s3cr3t-of-the-host"


def attacks(file):
    """By name, the programs that a file has."""
    specification = importlib.util.spec_from_file_location("attacks", file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.ATTACKS if hasattr(module, "ATTACKS") else module.A


def command(user, *arguments):
    """The command line of `tenon sandbox` for this user; skips if it cannot run here."""
    if user == "self":
        return [str(TENON), "sandbox", *arguments]
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    line = [*become, str(TENON), "sandbox", *arguments]
    if subprocess.run([*become, str(TENON), "--version"], capture_output=True, cwd="/").returncode != 0:
        pytest.skip(f"another user cannot run {TENON}: it lies in a folder that is closed to them")
    return line


def sandbox(user, *arguments, code=None, timeout_s=120):
    return subprocess.run(command(user, *arguments), input=code, capture_output=True, text=True, timeout=timeout_s, cwd="/",
                          env={**os.environ, "SECRET_TOKEN": SECRET})


def require(tier, user):
    done = sandbox(user, "check", "--tier", tier, "--json")
    if done.returncode != 0:
        pytest.skip(f"no {tier} here: {done.stderr.strip()}")
    assert json.loads(done.stdout)["tier"] == tier


# What the attacks call seedstest: a name of this process, since files of tests run beside one another.
SOCKET = f"seedstest{os.getpid()}"


def aimed(code, port):
    """The program of an attack, aimed at the listener. A worker that ends itself takes what it printed with it, so it does not."""
    return code.replace("PORT", str(port)).replace("seedstest", SOCKET).removesuffix("\nimport os;os._exit(0)")


@pytest.fixture(scope="module")
def listener():
    """A TCP port and an abstract Unix socket of the host that greet every client."""
    tcp, unix = socket.socket(), socket.socket(socket.AF_UNIX)
    tcp.bind(("127.0.0.1", 0))
    unix.bind("\0" + SOCKET)
    connections = []

    def greet(one):
        while True:
            try:
                peer, _ = one.accept()
            except OSError:
                return
            connections.append(peer)
            peer.sendall(b"hello")
            peer.close()

    for one in (tcp, unix):
        one.listen(8)
        threading.Thread(target=greet, args=(one,), daemon=True).start()
    yield tcp.getsockname()[1], connections
    tcp.close()
    unix.close()


def descendants():
    """Processes below this one, zombies included."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(") ", 1)[1].split()[1])
            except OSError:
                pass
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return set(found[1:])


@pytest.mark.parametrize("file", [
    pytest.param(SAMPLES / "attacks.py", id="own"),
    pytest.param(MORE, id="large", marks=pytest.mark.skipif(not MORE.exists(), reason=f"NOT TESTED: the large set of attacks is not at {MORE}"))])
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", [*TIERS, "bubblewrap with a folder"])
def test_attacks_are_refused(tier, user, file, listener, tmp_path):
    tier, _, has_folder = tier.partition(" with ")
    given = ["--folder", "4"] if has_folder else []
    require(tier, user)
    port, connections = listener
    before, marks = descendants(), ("/var/tmp/PWNED", "/usr/lib/PWNED")
    core_pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        files = []
        for name, code in attacks(file).items():
            files.append(pathlib.Path(folder, f"{name}.py"))
            files[-1].write_text(aimed(code, port))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # many attacks wait until their time is over
            runs = list(pool.map(lambda some: sandbox(user, "run", "--tier", tier, "--wall", "1", "--memory", "512", "--cpu", "4", "--json",
                                                      *given, *map(str, some), timeout_s=600), [files[at::4] for at in range(4)]))
    reports = {pathlib.Path(report["file"]).stem: report for done in runs for report in map(json.loads, done.stdout.splitlines())}
    assert len(reports) == len(files), [done.stderr for done in runs]
    allowed = {}
    for name, report in reports.items():
        said = report.get("out", "") + report.get("err", "")  # a traceback shows the code, which has the word
        if "BREACH" in said or SECRET in json.dumps(report):
            allowed[name] = report
    assert not allowed
    assert not connections, "a worker reached a socket of the host"
    assert not [mark for mark in marks if os.path.exists(mark)]
    assert pathlib.Path("/proc/sys/kernel/core_pattern").read_text() == core_pattern
    assert descendants() <= before, "an attack left a process"


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", TIERS)
def test_code_runs(tier, user):
    require(tier, user)
    done = sandbox(user, "run", "--tier", tier, "-", code="import json, re\nprint(json.dumps({'a': 6 * 7}))")
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"a": 42}\n', "")
    done = sandbox(user, "run", "--tier", tier, "-", code="1 / 0")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


FOLDER = """
import os, pathlib, tempfile
with open("a.csv", "w") as file: file.write("x,y")
os.mkdir("b"); os.rename("a.csv", "b/c.csv"); print(pathlib.Path("b/c.csv").read_text(), os.getcwd())
with tempfile.NamedTemporaryFile() as file: print(os.path.dirname(file.name))
os.remove("b/c.csv"); os.rmdir("b"); print(os.listdir("."))
for path in ("/x", "/usr/x", "/usr/lib/x", "../x", "/tmp/x"):
    try: open(path, "w"); print("BREACH", path)
    except OSError: pass
def fill(count, size):
    try:
        for number in range(count):
            with open("big%d" % number, "wb") as file: file.write(bytes(size))
    except OSError as error: print(error.strerror)
    print(sum(os.path.getsize(name) for name in os.listdir(".")) <= 4 << 20)
    for name in os.listdir("."): os.remove(name)
fill(1, 5 << 20)
fill(5, 1 << 20)
"""


@pytest.mark.parametrize("user", USERS)
def test_a_folder_is_written_to_up_to_its_size(user):
    require("bubblewrap", user)
    done = sandbox(user, "run", "--tier", "bubblewrap", "--folder", "4", "-", code=FOLDER)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.splitlines() == ["x,y /work", "/work", "[]", "File too large", "True", "No space left on device", "True"]


def test_a_folder_is_of_one_worker_and_of_one_tier(tmp_path):
    require("bubblewrap", "self")
    for name, code in (("first.py", "open('kept', 'w')"), ("second.py", "import os; print(os.listdir('.'))")):
        (tmp_path / name).write_text(code)
    os.chmod(tmp_path, 0o755)
    done = sandbox("self", "run", "--folder", "4", str(tmp_path / "first.py"), str(tmp_path / "second.py"))
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    other = sandbox("self", "run", "--tier", "landlock", "--folder", "4", "-", code="1")
    assert other.returncode == 4 and "landlock: it has no folder to write into" in other.stderr
    without = sandbox("self", "run", "-", code="open('a', 'w')")
    assert without.returncode == 1 and "Error" in without.stderr


@pytest.mark.parametrize("tier", TIERS)
def test_packages_are_there_if_they_are_named(tier, python_with_numpy):
    require(tier, "self")
    given = ["--tier", tier, "--python", python_with_numpy, "--memory", "4096"]
    code = "import numpy, threading\nprint(int((numpy.ones((9, 9)) @ numpy.arange(9)).sum()), threading.active_count())\nimport beside"
    done = sandbox("self", "run", *given, "--package", "NumPy", "-", code=code)
    assert done.stdout == "324 1\n" and "No module named 'beside'" in done.stderr, done.stderr
    done = sandbox("self", "run", *given, "--package", "made_up", "-", code="import mdp; print(mdp.VALUE)")
    assert (done.returncode, done.stdout) == (0, "hello from mdp\n7\n"), done.stderr
    for name, said in (("No_Such.x", "the package No_Such.x is not installed for"), ("mdp", "mdp is a module of the package Made.Up")):
        refused = sandbox("self", "run", *given, "--package", name, "-", code="1")
        assert refused.returncode == 4 and said in refused.stderr, refused.stderr


@pytest.mark.serial  # of limits of time, and of processes of the whole machine
@pytest.mark.parametrize("tier", TIERS)
def test_limits_are_told_by_name(tier):
    require(tier, "self")
    for code, options, said in [
        ("while True: pass", ["--wall", "0.2"], "time limit of 0.2 s"),
        ("bytearray(1 << 30)", ["--memory", "200"], "limit of memory was reached"),
        ("while True: pass", ["--cpu", "1"], "limit of CPU time"),
    ]:
        done = sandbox("self", "run", "--tier", tier, *options, "-", code=code)
        assert done.returncode == 1 and said in done.stderr, (code, done.stderr)
    done = sandbox("self", "run", "--tier", tier, "-", code="print('x' * 30000)")
    assert done.stdout.endswith("x... + [10001 chars...]\n")


def orphans():
    """Processes of bubblewrap that have ended and are not waited for."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
            except OSError:
                continue
            state, parent = rest.split()[:2]
            if name == "bwrap" and state != "Z" and parent == "1":
                found.add(int(entry.name))
    return found


@pytest.mark.serial
@pytest.mark.parametrize("user", USERS)
def test_nothing_is_left_of_workers_that_were_starting_when_tenon_was_killed(user, tmp_path):
    require("bubblewrap", user)
    file = tmp_path / "cell.py"
    file.write_text("x = 1")
    os.chmod(tmp_path, 0o755)
    before, chance = orphans(), random.Random(1)
    line = command(user, "run", "--tier", "bubblewrap", *[str(file)] * 20)
    for _ in range(30):
        running = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/") for _ in range(8)]
        time.sleep(chance.uniform(0.05, 0.5))
        for one in running:
            one.kill()
        for one in running:
            one.wait()
    deadline = time.monotonic() + 10
    while orphans() - before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not orphans() - before


def test_there_is_no_silent_way_without_a_sandbox():
    done = sandbox("self", "run", "--tier", "unsafe_local", "-", code="print(1)")
    assert done.returncode == 4 and "no sandbox works here" in done.stderr
    assert sandbox("self", "check", "--tier", "unsafe_local").returncode == 1
    done = sandbox("self", "run", "--tier", "unsafe_local", "--unsafe-local", "-", code="print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n")
