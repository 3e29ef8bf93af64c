#!/usr/bin/env bash
# scripts/bench.sh [google-benchmark options]: runs every benchmark program of the release build, then
# the server as a whole. JSON of each run lies in build/bench/. `WITH_NGINX=1 make bench` installs nginx, beside
# which load_figures.py then measures Tenon; without it those rows are skipped. `WITH_LLAMA_SERVER=1` builds llama-server,
# beside which tool calls are measured. MASK_PEERS_PYTHON names a
# Python that has xgrammar, which no requirements file holds because it brings PyTorch along.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

mkdir -p build/bench
for program in build/release/bin/*_bench; do
  name=$(basename "$program")
  echo "==> $name"
  "$program" --benchmark_out="build/bench/$name.json" --benchmark_out_format=json "$@"
done

# The same work in the peers, for the ratios of docs/benchmarks.md.
for peer in engine jinja; do
  echo "==> $peer, the peer"
  "$venv/bin/python" "bench/${peer}_peer.py" | tee "build/bench/${peer}_peer.json"
done

echo "==> Masks over real schemas, beside the peers"
"$venv/bin/python" bench/mask_figures.py --peers-python "${MASK_PEERS_PYTHON:-$venv/bin/python}" | tee build/bench/masks.md

if [ -n "${PYTHON_PEERS_PYTHON:-}" ]; then  # a Python with xgrammar, vllm and sglang, as far as they are to be measured
  echo "==> The Python package, beside the peers"
  scripts/python.sh
  rm -rf build/bench/package && python3 -m zipfile -e dist/*.whl build/bench/package
  PYTHONPATH=build/bench/package "$PYTHON_PEERS_PYTHON" bench/python_figures.py --wheel dist/*.whl | tee build/bench/python.md
fi

# What a token costs outside the model, with a vocabulary of 128 k and a model that is next to nothing.
vocabulary=${TENON_DATA:-../shared/data}/vocab/llama3/tokenizer.json
if [ -f "$vocabulary" ]; then
  echo "==> The engine with a vocabulary of 128 k"
  "$venv/bin/python" bench/wide_model.py "$vocabulary" build/bench/wide.gguf
  TENON_BENCH_MODEL=build/bench/wide.gguf TENON_BENCH_THREADS=1 build/release/bin/engine_bench \
    --benchmark_filter='held|generation' --benchmark_out=build/bench/wide.json --benchmark_out_format=json "$@"
else
  echo "==> NOT MEASURED: the engine with a vocabulary of 128 k, which is not at $vocabulary (tests/samples/README.md)"
fi

if [ -n "${WITH_LLAMA_SERVER:-}" ]; then
  echo "==> Tool calls, beside llama-server"
  scripts/setup.sh llama-server </dev/null
  "$venv/bin/python" bench/tool_figures.py --llama-server "$venv/bin/llama-server" | tee build/bench/tools.json
fi

echo "==> Recursive models, beside rlms"
"$venv/bin/python" bench/rlm_figures.py --peer-python "$venv/peers/rlms/bin/python" | tee build/bench/rlm.json

echo "==> The server in front of an upstream, under load, beside nginx"
"$venv/bin/python" bench/load_figures.py --rounds 3 | tee build/bench/load.md

echo "==> The server with the bundled model, beside llama-cpp-python"
"$venv/bin/python" bench/server_figures.py | tee build/bench/server.json
