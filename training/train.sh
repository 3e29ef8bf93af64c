#!/bin/sh
# The whole way from nothing to a model file:  ./train.sh [--small]
# --small proves the pipeline in about five minutes; the model it makes knows little.
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-../.venv-train/bin/python}
MINUTES=90 RUN=runs/main OUT=../models/tenon-tiny.gguf
if [ "${1:-}" = --small ]; then
    MINUTES=3 RUN=runs/small OUT=runs/small/tenon-tiny.gguf
fi
# One allocator arena that keeps its memory: large tensors are otherwise mapped and unmapped all the time.
export OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=1 MALLOC_MMAP_MAX_=0
export MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=300000000
mkdir -p "$RUN"
[ -f tokenizer.json ] || "$PYTHON" tokenizer.py --out tokenizer.json
"$PYTHON" check_template.py
nice -n 5 "$PYTHON" train.py --run "$RUN" --minutes "$MINUTES"
"$PYTHON" export.py --state "$RUN/state.pt" --out "$OUT"
"$PYTHON" evaluate.py --model "$OUT"
