"""The pages of web/: their tests are in Node, with a browser where there is one."""

import os
import pathlib
import shutil
import subprocess

import pytest

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
CHROMIUM = pathlib.Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
HOW = "scripts/setup.sh web installs it"


@pytest.mark.parametrize("name", ["parts", "dist", "pages"])
def test_web(name):
    if shutil.which("node") is None or not (WEB / "node_modules" / "vite").exists():
        pytest.skip(f"web/node_modules is not there: {HOW}")
    if name == "pages" and not CHROMIUM.exists():
        pytest.skip(f"the pages are not tested in a browser, because there is no {CHROMIUM}: {HOW}")
    done = subprocess.run(
        ["node", "--test", "--test-reporter=spec", f"test/{name}.test.mjs"],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
