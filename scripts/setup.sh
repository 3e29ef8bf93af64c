#!/usr/bin/env bash
# Sets up what the project needs on Debian 12, and only what is missing:
#
#   scripts/setup.sh build    Debian packages, .venv, libllama: enough to compile
#   scripts/setup.sh test     and what the tests need: Python and Node packages
#   scripts/setup.sh clients  the environments of the clients that the tests talk to Tenon with; nothing else
#   scripts/setup.sh clients-long   and those of the heavy ones
#   scripts/setup.sh python   and the tools that build the Python package
#   scripts/setup.sh bench    and the peers that the benchmarks stand beside; nginx only with WITH_NGINX=1
#   scripts/setup.sh fmt      and clang-format
#   scripts/setup.sh lint     and clang-tidy too
#   scripts/setup.sh fuzz     and clang 19 with libFuzzer
#   scripts/setup.sh docs     and doxygen
#   scripts/setup.sh train    and what training needs: PyTorch in .venv-train, WordNet
#
# Each part leaves a stamp that names what it was made from; a part is redone when that changes.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

want=${1:-build}
stamps=$venv/stamps

exec 9>/tmp/tenon-setup-"$(id -u)".lock
flock 9  # two builds at once would otherwise install into each other

# ---- Clients -----------------------------------------------------------------------------------

# An environment for each: they want different versions of the same packages.
# python_environment clients/NAME or peers/NAME: as in requirements.
python_environment() {
  local name=$1 folder=$venv/$1 key
  key=$(sha256sum <"requirements/$name.txt")
  [ "$(cat "$folder/stamp" 2>/dev/null)" = "$key" ] && return
  make_python_environment() {
    python3 -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 \
      --require-hashes --requirement "requirements/$name.txt"
  }
  stage "Python environment: $name" make_python_environment
  echo "$key" >"$folder/stamp"
}

# node_client FOLDER: `install` where the registry's lock leaves out other systems' packages, which `ci` misses.
node_client() {
  local folder=$1 how=${2:-ci} key
  key=$(sha256sum <"$folder/package-lock.json")
  [ "$(cat "$folder/node_modules/.stamp" 2>/dev/null)" = "$key" ] && return
  node_packages() { (cd "$folder" && npm "$how" --silent --no-audit --no-fund); }
  stage "Node packages: ${folder##*/}" node_packages
  echo "$key" >"$folder/node_modules/.stamp"
}

case $want in clients*)
  mkdir -p "$venv/clients"
  for name in langchain-openai pydantic-ai instructor openai-agents schemathesis llama-cpp-server huggingface; do python_environment clients/$name; done
  node_client tests/e2e/clients/ai-sdk
  if [ "$want" = clients-long ]; then
    for name in llama-index crewai mlx-lm; do python_environment clients/$name; done
    for name in opencode claude-code dockerfile; do node_client tests/e2e/clients/$name install; done
  fi
  exit
esac

# ---- Debian packages ----------------------------------------------------------------------------

packages=(pkg-config libboost1.81-dev libexpected-dev libfmt-dev libspdlog-dev libcli11-dev
  libtomlplusplus-dev prometheus-cpp-dev libssl-dev libsqlite3-dev libseccomp-dev libicu-dev bubblewrap
  libgtest-dev libgmock-dev nlohmann-json3-dev libbenchmark-dev)
command -v g++ >/dev/null || packages+=(g++)
command -v gcc >/dev/null || packages+=(gcc)
command -v make >/dev/null || packages+=(make)
command -v cmake >/dev/null || packages+=(cmake)
command -v ninja >/dev/null || packages+=(ninja-build)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
[ "$want" != test ] || command -v npm >/dev/null || packages+=(nodejs npm)
[ "$want" != lint ] || packages+=(clang-tidy-19)
[ "$want" != bench ] || [ -z "${WITH_NGINX:-}" ] || packages+=(nginx-light)
[ "$want" != fuzz ] || packages+=(clang-19 libclang-rt-19-dev)
[ "$want" != docs ] || packages+=(doxygen)
[ "$want" != train ] || packages+=(wordnet-base)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
    missing+=("$package")
done

install_packages() {
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "These Debian packages are missing, and this is neither root nor is there sudo.
Ask an administrator for:  apt-get install ${missing[*]}"
    root=(sudo)
  fi
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -qq)
  local install=("${apt[@]}" install --yes --no-install-recommends "${missing[@]}")
  # Without lists, or with old ones, the first attempt fails: fetch them, then it must work.
  if apt-cache show "${missing[@]}" >/dev/null 2>&1 && "${install[@]}"; then return; fi
  "${apt[@]}" update
  "${install[@]}"
}
if [ ${#missing[@]} -gt 0 ]; then
  stage "Debian packages: ${missing[*]}" install_packages
fi

# ---- Python environment -------------------------------------------------------------------------

# requirements NAME [pip option...]: installs requirements/NAME.txt unless the same file already is.
requirements() {
  local name=$1 stamp=$stamps/$1
  shift
  local key
  key=$(sha256sum <"requirements/$name.txt")
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
  stage "Python packages: $name" \
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 \
    --require-hashes "$@" --requirement "requirements/$name.txt"
  echo "$key" >"$stamp"
}

"$venv/bin/python" -c 'import pip' 2>/dev/null || stage "Python environment" python3 -m venv --clear "$venv"
mkdir -p "$stamps"
requirements build

# ---- libllama -----------------------------------------------------------------------------------

# GGML_NATIVE   it runs where it is built, so it may use every instruction of this processor. TENON_PORTABLE=1: it runs elsewhere
#               too, on any x86-64 with AVX2; for packages.
# GGML_OPENMP   off: decoding runs on threads that the engine owns; OpenMP would add a pool of its own
#               that spins between graphs, and it blinds ThreadSanitizer.
# GGML_RPC      spreads a model over machines.
# LLAVA_BUILD, LLAMA_OPENSSL, LLAMA_USE_PREBUILT_UI: parts that are not used; the last would download.
native=ON
[ -z "${TENON_PORTABLE:-}" ] || native=OFF
llama_options="-DGGML_NATIVE=$native -DGGML_OPENMP=OFF -DGGML_RPC=ON -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF"

build_libllama() {
  # The wheel cache is keyed by version alone, not by options, so it stays out of this.
  CMAKE_ARGS="$llama_options -DCMAKE_PROJECT_llama_cpp_INCLUDE='$PWD/cmake/libllama.cmake'" \
  CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 \
    --no-cache-dir --no-binary llama-cpp-python --no-build-isolation --force-reinstall \
    --require-hashes --requirement requirements/libllama.txt
}
# Built anew for another version, other options, another compiler or another processor.
llama_key=$({
  cat requirements/libllama.txt cmake/libllama.cmake
  echo "$llama_options"
  gcc -dumpfullversion
  grep -m1 '^flags' /proc/cpuinfo || uname -m
} | sha256sum)
if [ "$(cat "$stamps/libllama" 2>/dev/null)" != "$llama_key" ]; then
  stage "libllama (built from source, about 3 minutes on 2 cores)" build_libllama
  echo "$llama_key" >"$stamps/libllama"
fi

# ---- What only some need ------------------------------------------------------------------------

if [ "$want" = test ]; then
  requirements test
  python_environment python
  node_client tests/e2e/node
fi
case $want in
  bench)
    requirements test && requirements bench && mkdir -p "$venv/peers"
    for name in litellm rlms; do python_environment peers/$name; done
    ;;
  python) python_environment python ;;
  train)
    training_environment() {
      python3 -m venv --clear .venv-train
      .venv-train/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 5 --requirement training/requirements.txt
    }
    if [ "$(cat .venv-train/stamp 2>/dev/null)" != "$(sha256sum <training/requirements.txt)" ]; then
      stage "Python environment: training" training_environment
      sha256sum <training/requirements.txt >.venv-train/stamp
    fi
    ;;
  fmt | lint) requirements lint ;;
esac
