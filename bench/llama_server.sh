#!/usr/bin/env bash
# bench/llama_server.sh: builds llama-server of the pinned llama-cpp-python source package, with the options that libllama
# has here, and prints its path. About 20 minutes on 2 cores, once.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

folder=$venv/peers/llama-server
if [ ! -x "$folder/build/bin/llama-server" ]; then
  mkdir -p "$folder"
  "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation \
    --no-binary llama-cpp-python --require-hashes --requirement requirements/libllama.txt --dest "$folder/source" >&2
  tar -xzf "$folder"/source/llama_cpp_python-*.tar.gz -C "$folder" --strip-components 1
  cmake -S "$folder/vendor/llama.cpp" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >&2
  cmake --build "$folder/build" --target llama-server >&2
fi
echo "$folder/build/bin/llama-server"
