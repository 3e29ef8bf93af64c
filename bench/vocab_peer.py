"""What vocab_bench measures, with the `tokenizers` package: load time and MB/s, one thread.

build/release/bin/vocab_bench && python bench/vocab_peer.py
"""

import os
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402
from data import DATA, ROOT, VOCABULARIES  # noqa: E402

PROSE = "".join(
    (ROOT / "docs" / name).read_text() for name in ("formats.md", "schemas.md", "api.md")
)


def seconds(work, repeat):
    best = None
    for _ in range(repeat):
        begin = time.process_time()
        work()
        taken = time.process_time() - begin
        best = taken if best is None else min(best, taken)
    return best


for name in VOCABULARIES:
    path = str(DATA / "vocab" / name / "tokenizer.json")
    load = seconds(lambda: tokenizers.Tokenizer.from_file(path), 3)
    tokenizer = tokenizers.Tokenizer.from_file(path)
    prose = seconds(lambda: tokenizer.encode(PROSE, add_special_tokens=False), 5)
    print(f"load/{name} {load * 1e3:.0f} ms")
    print(f"prose/{name} {len(PROSE.encode()) / prose / 1e6:.2f} MB/s")
    letters = "a" * (1 << 20)
    print(
        f"one_letter/{name} {seconds(lambda: tokenizer.encode(letters, add_special_tokens=False), 1) * 1e3:.0f} ms"
    )
