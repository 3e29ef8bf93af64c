"""Requests of BFCL's public half for `tenon bench model`, in an order drawn by a seed.

    .venv/bin/python bench/bfcl_sample.py --seed 34 --most 2000 > build/sample.jsonl

Left out: rows that are marked invalid, and those whose tools and messages have more than `--most` characters as JSON.
Each beginning of the order is a sample of its own, so a run that is stopped has the figures of a smaller one.
"""

import argparse
import json
import random

from data import DATA


def characters(row):
    return sum(len(json.dumps(row[key], ensure_ascii=False)) for key in ("tools", "messages"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--most", type=int, default=2000, help="characters of a request")
    parser.add_argument("--due", action="store_true", help="only requests where calls are due")
    parser.add_argument("--single", action="store_true", help="only those with one tool")
    options = parser.parse_args()

    with (DATA / "formats" / "bfcl_public.jsonl").open() as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row.get("valid", True)]
    random.Random(options.seed).shuffle(rows)
    for row in rows:
        if characters(row) > options.most or (options.due and row["expected"] == []):
            continue
        if options.single and len(row["tools"]) != 1:
            continue
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
