"""The files of tests/samples are those that make.py makes of the cases: what they expect is of jinja2 and jsonschema, and of no hand."""
import subprocess
import sys

from data import SAMPLES


def test_files_are_made_from_the_cases(tmp_path):
    done = subprocess.run([sys.executable, SAMPLES / "make.py", tmp_path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) >= 12
    for path in made:
        assert (tmp_path / path).read_text() == (SAMPLES / path).read_text(), f"{path}: run tests/samples/make.py"
