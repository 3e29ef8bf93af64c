"""Servers whose recordings are replayed when they stop: whatever a test asked of them, the answer is made again to the byte."""
import contextlib
import json
import pathlib
import subprocess

from serving import TENON, serving

# What a recording cannot be replayed for (docs/recording.md).
NOT_REPLAYED = ("the client left before the end", "the recording is not whole", "ends before a model has begun to answer",
                "the engine refused the request", "tokens in or out", "answers of recursive models")


@contextlib.contextmanager
def serving_recorded(folder, *arguments, **options):
    records = pathlib.Path(folder) / "records"
    with serving(folder / "serve.log", *arguments, "--record", str(records), **options) as server:
        yield server
    files = sorted(records.glob("*/*.jsonl"))
    replayed = sum(replay(file) for file in files)
    assert replayed or not files, "no recording was replayed"


def replay(file):
    """Whether the recording could be replayed. It must be the same then."""
    made = subprocess.run([TENON, "replay", "--expect", file], capture_output=True, text=True, timeout=60)
    if made.returncode == 3 and any(why in made.stderr for why in NOT_REPLAYED):
        return False
    request = json.loads(file.read_text().splitlines()[0])
    assert made.returncode == 0, f"{json.dumps(request)[:2000]}\n{made.stdout[:4000]}{made.stderr}"
    return True
