"""Runs the code of a page of docs/clients against a server: what people read there is what is tested. Two servers run:
TENON_URL names that of the bundled model, for what an answer is held to, and TENON_SCRIPTED one whose model is played, for what a
model has to choose by itself. Standard library only, since each client has an environment of its own."""
import os
import pathlib
import re

URL = os.environ["TENON_URL"]
SCRIPTED = os.environ.get("TENON_SCRIPTED", "")
PAGES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "clients"


def code_of(page, model, url):
    """All the page's code, one after the other; `model` stands for its my-model."""
    blocks = re.findall(r"^```python\n(.*?)^```", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    code = "\n".join(blocks)
    assert "http://127.0.0.1:8080" in code, page
    code = code.replace("http://127.0.0.1:8080", url)
    return code.replace("my-model", model) if model else code


def run(page, model=None, url=URL):
    """What the code leaves behind, by name."""
    names = {"__name__": "__main__"}
    exec(compile(code_of(page, model, url), page, "exec"), names)
    return names
