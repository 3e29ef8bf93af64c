"""docs/tutorials: what they show runs as it stands there. Those in Python: test_python_package.py."""
import os
import re
import subprocess

from serving import ROOT, TENON, free_port


def test_the_operators_page(tmp_path):
    page = (ROOT / "docs/tutorials/operators.md").read_text()
    script = "\n".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL)).replace("8080", str(free_port()))
    assert script.count("curl") >= 5
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script + "\necho the end\n"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PATH": f"{TENON.resolve().parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
                                           "MODEL": str(ROOT / "models/tenon-tiny.gguf")})
    log = tmp_path / "tenon.log"
    assert done.returncode == 0 and done.stdout.endswith("the end\n"), done.stdout + done.stderr + (log.read_text() if log.exists() else "")
