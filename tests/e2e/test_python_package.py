"""The Python package: built as a wheel, installed where nothing else of the tree is, and tried there."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from serving import ROOT


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=more.pop("timeout", 600), **more)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done.stdout


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    run([sys.executable, "-m", "venv", folder / "venv"])
    python = folder / "venv/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    run([*pip, "--no-deps", wheel])
    run([*pip, "--require-hashes", "--requirement", ROOT / "requirements/python-test.txt"])
    return python


@pytest.fixture
def elsewhere(tmp_path):
    """A folder without the tree, and an environment that tells nothing of it."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TENON_LONG")}
    return {"cwd": tmp_path, "env": {**environment, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}}


def test_wheel_is_small_and_stands_alone(wheel):
    assert wheel.stat().st_size < 16_000_000
    assert "manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "tenon/py.typed" in names and "tenon/_tenon.pyi" in names and "tenon/models/tenon-tiny.gguf" in names


def test_libraries_are_the_wheels_own(python, elsewhere):
    """What the module maps is of the wheel, but for libc, libstdc++ and the like."""
    mapped = run([python, "-c", "import tenon, tenon._tenon; print(open('/proc/self/maps').read())"], **elsewhere)
    libraries = {pathlib.Path(path).name for path in re.findall(r"(/\S+\.so[\w.]*)", mapped) if "/venv/" not in path}
    of_the_system = ("ld-linux", "libc.", "libm.", "libdl.", "libpthread.", "librt.", "libutil.", "libstdc++.", "libgcc_s.", "libpython")
    assert not [name for name in libraries if not name.startswith(of_the_system) and "cpython" not in name]


def test_its_own_tests(python, tmp_path, elsewhere):
    shutil.copytree(ROOT / "python/tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    run([python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--timeout", "120", tmp_path / "tests"], **elsewhere)


def test_types_are_strict(wheel, tmp_path):
    """The package as it is written and, by its stubs, as it is used."""
    venv = pathlib.Path(os.environ.get("TENON_VENV", ROOT / ".venv"))
    run([venv / "python/bin/mypy", "--strict", "--cache-dir", tmp_path, "--config-file", ROOT / "pyproject.toml"], cwd=ROOT)


PAGES = ["python.md", "tutorials/engines.md", "tutorials/agents.md", "tutorials/autonomous.md"]


@pytest.mark.parametrize("page", PAGES)
def test_snippets_of_the_documentation(page, python, elsewhere, tmp_path):
    """Each page's snippets are one program: what one of them makes, the next may use."""
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len(snippets) >= 4
    program = tmp_path / "snippets.py"
    program.write_text("\n".join(snippets))
    run([python, program], **elsewhere)


@pytest.mark.skipif(not os.environ.get("TENON_LONG"), reason="PyTorch is large: TENON_LONG")
def test_torch(wheel, tmp_path, elsewhere):
    """Masks and logits in PyTorch's memory, in the environment of training (make train), which has PyTorch, or in TENON_TORCH_PYTHON."""
    torch = pathlib.Path(os.environ.get("TENON_TORCH_PYTHON", ROOT / ".venv-train/bin/python"))
    if not torch.exists():
        pytest.skip(f"{torch} is not there: make train-small makes it, or TENON_TORCH_PYTHON names a Python with torch, numpy and pytest")
    zipfile.ZipFile(wheel).extractall(tmp_path / "package")
    shutil.copytree(ROOT / "python/tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    if subprocess.run([torch, "-c", "import pytest"], capture_output=True).returncode != 0:
        run([torch, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", tmp_path / "package", "--require-hashes",
             "--requirement", ROOT / "requirements/python-test.txt"])
    elsewhere["env"]["PYTHONPATH"] = str(tmp_path / "package")
    run([torch, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--torch", tmp_path / "tests/test_logits.py", tmp_path / "tests/test_masks.py"],
        **elsewhere)
