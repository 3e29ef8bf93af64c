"""`make docs`: the reference of C, C++ and Python, with every page and without a link that leads nowhere."""
import re
import shutil
import subprocess
import sys

import pytest
from serving import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("doxygen"), reason="scripts/setup.sh docs installs doxygen")


def test_the_reference_has_every_function(tmp_path):
    """Doxygen fails on warnings: broken links to headings, documented parameters that do not exist."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts/docs.py"), str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    page = re.sub("<[^>]+>", "", (tmp_path / "html/tenon_8h.html").read_text())
    header = (ROOT / "src/tenon/capi/include/tenon.h").read_text()
    functions = set(re.findall(r"\b(tenon_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))
    assert len(functions) > 60
    assert not [name for name in functions if name not in page]
    assert "Fails where a limit of the" in page, "comments are documentation"
    assert list((tmp_path / "html").glob("*Matcher.html")) and (tmp_path / "html/python--tenon-in-python.html").exists()
