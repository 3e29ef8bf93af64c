#!/bin/sh
# The whole way from nothing to a model file:  training/train.sh [--small]
# --small proves the pipeline in some five minutes; the model it makes knows little.
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-../.venv-train/bin/python}
TENON=${TENON:-../build/release/bin/tenon}
MILLIONS=780 COUNT=200 MOST=512 RUN=runs/main OUT=runs/main/tenon-tiny.gguf SHAPE='{"width": 192, "heads": 6, "hidden": 512, "layers": 8}'
if [ "${1:-}" = --small ]; then
    rm -rf runs/small  # an ended run would have nothing left to do
    MILLIONS=.7 COUNT=20 MOST=60 RUN=runs/small OUT=runs/small/tenon-tiny.gguf SHAPE='{}'
fi
# One allocator arena that keeps its memory: large tensors are otherwise mapped and unmapped all the time.
export OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=1 MALLOC_MMAP_MAX_=0
export MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=300000000
mkdir -p "$RUN"
"$PYTHON" check_template.py
"$PYTHON" check_model.py
"$PYTHON" gpu.py --check
"$PYTHON" check_generator.py
"$PYTHON" generator.py --count 1000 --json | "$PYTHON" check_sets.py --against -
"$PYTHON" train.py --run "$RUN" --tokens "$MILLIONS" --shape "$SHAPE"
"$PYTHON" export.py --state "$RUN/state.pt" --matrices Q5_0 --embeddings Q5_0 --out "$OUT"  # as the bundled model
"$PYTHON" heldout.py --count "$COUNT" >"$RUN/held.jsonl"
"$PYTHON" heldout.py --count "$COUNT" --seen >"$RUN/seen.jsonl"
"$TENON" bench model --model "$OUT" --set "$RUN/held.jsonl" --set "$RUN/seen.jsonl" --set sets/dev.jsonl --max-tokens "$MOST" --json "$RUN/figures.json"
