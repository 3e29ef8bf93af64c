"""Runs the code of a page of docs/clients against the server that TENON_URL names: what people read there is what
is tested. Standard library only, since each client has an environment of its own."""
import os
import pathlib
import re

URL = os.environ["TENON_URL"]
PAGES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "clients"


def code_of(page, language="python"):
    """All the page's code in this language, one after the other."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    code = "\n".join(blocks)
    assert "http://127.0.0.1:8080" in code, page
    return code.replace("http://127.0.0.1:8080", URL)


def run(page):
    """What the code leaves behind, by name."""
    names = {"__name__": "__main__"}
    exec(compile(code_of(page), page, "exec"), names)
    return names
