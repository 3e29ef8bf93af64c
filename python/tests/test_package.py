"""The package itself: names, types, what importing costs."""

import pathlib
import subprocess
import sys

import pytest
import tenon


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_names():
    assert set(tenon.__all__) <= set(dir(tenon))
    for name in tenon.__all__:
        assert getattr(tenon, name) is not None
    with pytest.raises(AttributeError, match="nosuch"):
        tenon.nosuch


def test_every_name_of_the_extension_has_a_stub():
    from tenon import _tenon

    stub = (pathlib.Path(tenon.__file__).parent / "_tenon.pyi").read_text()
    for name, value in vars(_tenon).items():
        if name.startswith("__"):
            continue
        assert f"class {name}" in stub or f"def {name}" in stub, name
        for member in vars(value) if isinstance(value, type) else ():
            assert member.startswith("__") or f" {member}(" in stub, f"{name}.{member}"


def test_pytest_finds_the_plugin():
    """By its entry point, and it does not load the library."""
    options = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True
    ).stdout
    assert "--tenon-verify=URL" in options
    program = "import sys, tenon.pytest_verify; print('tenon._tenon' in sys.modules)"
    assert run(program).strip() == "False"


def test_nothing_is_loaded_before_it_is_used():
    loaded = run(
        "import sys, tenon; print([name for name in sys.modules if 'numpy' in name or '_tenon' in name or 'asyncio' in name])"
    )
    assert loaded.strip() == "[]"


def test_import_takes_less_than_50_ms():
    """The best of five, beside the interpreter's own start, whatever else the machine does."""
    program = "import time; begun = time.process_time(); import tenon, tenon._tenon; print(time.process_time() - begun)"
    assert min(float(run(program)) for _ in range(5)) < 0.05


def test_module_gives_away_no_names():
    from tenon import _tenon

    listed = subprocess.run(
        ["nm", "-D", "--defined-only", _tenon.__file__], capture_output=True, text=True
    )
    if listed.returncode == 0:
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        assert not {
            name for name in names if "tenon" in name.lower() and name != "PyInit__tenon"
        }, names
