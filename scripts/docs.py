"""The reference of C, C++ and Python, with all pages, as a site.

    python3 scripts/docs.py [FOLDER]      into FOLDER/html (build/docs); fails where a link leads nowhere

Doxygen reads copies: of pages with an anchor for each heading, as links name them (file.md#heading), and of headers whose comments
it takes literally.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WHAT = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "src/tenon/**/*.h",
    "python/tenon/**/*.py",
    "python/tenon/**/*.pyi",
)
NOT_WHAT = re.compile(r"_for_test\.h$|/int_map\.h$|docs/requirements\.md$|clients/README\.md$")
NOT_IN_IT = (
    "CHANGELOG.md",
    "requirements.md",
    "LICENSE",
    "README.md",
    "/clients",
    ".toml",
    ".json",
    ".py",
    ".cc",
)  # of the reference
CODE = re.compile(r"(```.*?^ *```|``[^`]*``|`[^`\n]*(?:\n[^`\n]+)?`)", re.DOTALL | re.MULTILINE)


def spelled(text, characters):
    return "".join(f"&#{ord(one)};" if one in characters else one for one in text)


def code(span):
    """A span in backquotes, with every sign that Doxygen would read spelled out."""
    return "<code>" + spelled(span.strip("`"), "&<>\\@*_#|~[](){}:%$\"'`!.") + "</code>"


def slug(heading):
    """As GitHub makes anchors of headings."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def page(path):
    name = path.stem if path.parent.name != "clients" else "clients-" + path.stem

    def label(target, heading):
        other = pathlib.PurePosixPath(target)
        stem = (
            name
            if not target
            else other.stem
            if "clients/" not in target
            else "clients-" + other.stem
        )
        return f"{stem}--{heading}"

    def prose(text):
        text = re.sub(
            r"\[([^\]]*)\]\(([\w./-]*)\)",
            lambda link: link[1] if link[2].endswith(NOT_IN_IT) else link[0],
            text,
        )
        text = re.sub(
            r"\]\(([\w./-]*?)(?:\.md)?#([\w-]+)\)",
            lambda found: f"](#{label(found[1], found[2])})",
            text,
        )
        return spelled(text, "\\@").replace("::", ":&#58;")

    # A heading may have code in it, so headings are told apart first.
    lines = []
    in_code = False
    for line in path.read_text().splitlines():
        in_code ^= line.lstrip().startswith("```")
        heading = None if in_code else re.match(r"(#+) (.*)", line)
        lines.append(
            f"{heading[1]} {heading[2]} {{#{label('', slug(heading[2]))}}}" if heading else line
        )
    pieces = CODE.split("\n".join(lines) + "\n")
    return "".join(
        prose(piece) if at % 2 == 0 else piece if piece.startswith("```") else code(piece)
        for at, piece in enumerate(pieces)
    )


def header(path):
    text = path.read_text()
    if (
        path.name == "tenon.h"
    ):  # C89, whose comments are all alike: those before or behind a declaration are its documentation
        text = re.sub(r"^/\* (?!-)", "/** ", text, flags=re.MULTILINE)
        text = re.sub(r"([;,{]) /\* ", r"\1 /**< ", text)
    return re.sub(r"(?:^.*///.*\n)+", lambda block: comment(block[0]), text, flags=re.MULTILINE)


def comment(block):
    """Lines with ///; a span of code may go over several of them."""

    def span(text):
        return re.sub(
            r"([^\n]+?)(?=\n|$)|\n\s*/// ?",
            lambda part: part[0] if part[0].startswith("\n") else code(part[0]),
            text,
        )

    pieces = re.split(r"(`[^`]+`)", block)
    return "".join(
        span(piece.strip("`")) if at % 2 else spelled(piece, "\\@<")
        for at, piece in enumerate(pieces)
    )


def copy(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    text = (
        page(path)
        if path.suffix == ".md"
        else header(path)
        if path.suffix == ".h"
        else path.read_text()
    )
    to.write_text(text)


def main(folder):
    # Only what this has made.
    source = folder / "tenon-reference-source"
    shutil.rmtree(source, ignore_errors=True)
    for pattern in WHAT:
        for path in ROOT.glob(pattern):
            if not NOT_WHAT.search(str(path)):
                copy(path, source / path.relative_to(ROOT))
    settings = (ROOT / "docs/Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {folder}\n"
    return subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=source).returncode


if __name__ == "__main__":
    sys.exit(
        main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve())
    )
