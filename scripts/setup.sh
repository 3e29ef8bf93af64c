#!/usr/bin/env bash
# Sets up what the project needs on Debian 12, and only what is missing:
#
#   scripts/setup.sh build    Debian packages, .venv, libllama: enough to compile
#   scripts/setup.sh demo     and OpenAI's client, with which the demo asks
#   scripts/setup.sh test     and what the tests need: Debian, Python and Node packages
#   scripts/setup.sh clients  the environments of the clients that the tests talk to Tenon with; nothing else
#   scripts/setup.sh clients-long   and those of the heavy ones
#   scripts/setup.sh python   and the tools that build the Python package
#   scripts/setup.sh bench    and the peers that the benchmarks stand beside; nginx only with WITH_NGINX=1
#   scripts/setup.sh llama-server   and the llama-server of libllama's source package, as bin/llama-server of .venv
#   scripts/setup.sh web      what makes and tests the pages of web/: Node packages and Debian's Chromium
#   scripts/setup.sh fmt      and clang-format
#   scripts/setup.sh lint     and clang-tidy too
#   scripts/setup.sh fuzz     and clang 19 with libFuzzer
#   scripts/setup.sh docs     and doxygen
#   scripts/setup.sh train    and what training needs: PyTorch in .venv-train, WordNet
#
# Each that installs Debian packages also installs ccache, and those for tests and fuzzers mold, where that asks for no password.
#
# Each part leaves a stamp that names what it was made from; a part is redone when that changes. libllama and llama-server are
# built once for all clones of a user: what was built is kept in TENON_CACHE, by default ~/.cache/tenon.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

want=${1:-build}
stamps=$venv/stamps
pip_options=(--disable-pip-version-check --no-input --retries 5)

# Two set-ups at once would otherwise install into each other.
exec 9>/tmp/tenon-setup-"$(id -u)".lock
flock --nonblock 9 || { echo "==> Waiting until another set-up of this user has ended"; flock 9; }

# ---- Clients -----------------------------------------------------------------------------------

# An environment for each: they want different versions of the same packages.
# python_environment clients/NAME or peers/NAME: as in requirements.
python_environment() {
  local name=$1 folder=$venv/$1 key
  key=$(sha256sum <"requirements/$name.txt")
  [ "$(cat "$folder/stamp" 2>/dev/null)" = "$key" ] && return
  make_python_environment() {
    python3 -m venv --clear "$folder" &&
      "$folder/bin/python" -m pip install --quiet "${pip_options[@]}" --require-hashes --requirement "requirements/$name.txt"
  }
  stage "Python environment: $name" make_python_environment || return
  echo "$key" >"$folder/stamp"
}

# node_client FOLDER: `install` where the registry's lock leaves out other systems' packages, which `ci` misses.
node_client() {
  local folder=$1 how=${2:-ci} key
  key=$(sha256sum <"$folder/package-lock.json")
  [ "$(cat "$folder/node_modules/.stamp" 2>/dev/null)" = "$key" ] && return
  node_packages() { (cd "$folder" && npm "$how" --prefer-offline --silent --no-audit --no-fund); }
  stage "Node packages: ${folder##*/}" node_packages || return
  echo "$key" >"$folder/node_modules/.stamp"
}

case $want in clients*)
  mkdir -p "$venv/clients"
  for name in langchain-openai pydantic-ai instructor openai-agents schemathesis llama-cpp-server huggingface; do python_environment clients/$name; done
  node_client tests/e2e/clients/ai-sdk
  node_client tests/e2e/clients/mcp-conformance install
  if [ "$want" = clients-long ]; then
    for name in llama-index crewai mlx-lm aider gptme llm open-responses suites mcp-servers fastmcp; do python_environment clients/$name; done
    for name in opencode claude-code codex qwen-code pi continue cline llmprobe dockerfile mcp-servers; do node_client tests/e2e/clients/$name install; done
  fi
  exit
esac

# ---- Debian packages ----------------------------------------------------------------------------

packages=(pkg-config libboost1.81-dev libexpected-dev libfmt-dev libspdlog-dev libcli11-dev
  libtomlplusplus-dev prometheus-cpp-dev libssl-dev libsqlite3-dev libseccomp-dev libicu-dev bubblewrap)
command -v g++ >/dev/null || packages+=(g++)
command -v gcc >/dev/null || packages+=(gcc)
command -v make >/dev/null || packages+=(make)
command -v cmake >/dev/null || packages+=(cmake)
command -v ninja >/dev/null || packages+=(ninja-build)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
case $want in test | bench | fuzz | lint) packages+=(libgtest-dev libgmock-dev nlohmann-json3-dev) ;; esac
case $want in bench | lint) packages+=(libbenchmark-dev) ;; esac
[ "$want" != test ] || command -v npm >/dev/null || packages+=(nodejs npm)
[ "$want" != lint ] || packages+=(clang-tidy-19)
[ "$want" != bench ] || [ -z "${WITH_NGINX:-}" ] || packages+=(nginx-light)
[ "$want" != fuzz ] || packages+=(clang-19 libclang-rt-19-dev)
[ "$want" != docs ] || packages+=(doxygen)
[ "$want" != web ] || packages+=(chromium fonts-dejavu-core)
[ "$want" != web ] || command -v npm >/dev/null || packages+=(nodejs npm)
[ "$want" != train ] || packages+=(wordnet-base)

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -qq)

install_packages() {
  local install=("${apt[@]}" install --yes --no-install-recommends "$@")
  # Without lists, or with old ones, the first attempt fails: fetch them, then it must work.
  if apt-cache show "$@" >/dev/null 2>&1 && "${install[@]}"; then return; fi
  "${apt[@]}" update
  "${install[@]}"
}
is_installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
    fail "These Debian packages are missing, and this is neither root nor is there sudo.
Ask an administrator for:  apt-get install ${missing[*]}"
  stage "Debian packages: ${missing[*]}" install_packages "${missing[@]}"
fi

# ---- Python environment -------------------------------------------------------------------------

# requirement FILE PATTERN: the lines of a requirements file for the packages whose names match a pattern of Python, with their hashes.
requirement() {
  python3 - "$1" "$2" <<'PYTHON'
import re, sys
entries = re.findall(r"^[a-z0-9].*(?:\n[ \t].*)*\n", open(sys.argv[1]).read(), re.M)
sys.stdout.writelines(entry for entry in entries if re.match(rf"(?:{sys.argv[2]})(?:.*?)==", entry))
PYTHON
}

# requirements NAME [FILE]: installs requirements/NAME.txt, or FILE, unless the same file already is.
requirements() {
  local name=$1 stamp=$stamps/$1 file=${2:-requirements/$1.txt}
  local key
  key=$(sha256sum <"$file")
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
  stage "Python packages: $name" \
    "$venv/bin/python" -m pip install --quiet "${pip_options[@]}" --require-hashes --requirement "$file" || return
  echo "$key" >"$stamp"
}

"$venv/bin/python" -c 'import pip' 2>/dev/null || stage "Python environment" python3 -m venv --clear "$venv"
mkdir -p "$stamps"

# ---- Faster compilations ------------------------------------------------------------------------

# Everything works without these two: ccache, whose answers all clones share, and mold, which links programs with sanitizers faster.
# They come after the packages that are needed, when apt has its lists, and before anything is configured. They are installed where
# that asks for no password, and are tried once for a .venv: where they cannot be installed, no later command waits for that again.
faster=()
command -v ccache >/dev/null || faster+=(ccache)
case $want in test | fuzz) command -v mold >/dev/null || faster+=(mold) ;; esac
if [ ${#faster[@]} -gt 0 ] && [ "$(cat "$stamps/faster" 2>/dev/null)" != "${faster[*]}" ] &&
  { [ "$(id -u)" -eq 0 ] || sudo --non-interactive true 2>/dev/null; }; then
  stage "For faster compilations: ${faster[*]}" install_packages "${faster[@]}" || echo "    They are left out."
  echo "${faster[*]}" >"$stamps/faster"
fi

# ---- What is built once for all clones ----------------------------------------------------------

cache=${TENON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}

# build_key: reads what is built, and how, and prints its key. All else that it depends on goes into the key too. So what another
# compiler, C library, Python or processor made has another key, and what is found under a key is never a stale one.
build_key() {
  {
    cat
    export LC_ALL=C
    local name
    for name in CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CMAKE_TOOLCHAIN_FILE CMAKE_BUILD_TYPE; do echo "$name=${!name:-}"; done
    cat "${CMAKE_TOOLCHAIN_FILE:-/dev/null}"
    ${CC:-gcc} -v 2>&1
    ${CXX:-g++} -v 2>&1
    ldd --version | head -n 1
    "$venv/bin/python" -c 'import sys, sysconfig; print(sys.version_info[:2], sysconfig.get_platform(), sysconfig.get_config_var("SOABI"))'
    uname -m
    [ "$native" = OFF ] || grep -m1 -E '^(flags|Features)' /proc/cpuinfo || true
  } | sha256sum | cut -c -32
}

# Whether FOLDER is there and whole: the hashes of its files lie beside them.
is_kept() { (cd "$1" 2>/dev/null && sha256sum --check --status SHA256SUMS); }

# keep FOLDER MAKER: has MAKER fill a folder beside FOLDER, which is moved there whole. So another clone, which may be at the same,
# sees all of it or nothing.
keep() {
  local folder=$1 maker=$2 work status=0
  mkdir -p "$cache" || return
  # What an interrupted one left.
  find "$cache" -maxdepth 1 -name '*-*.??????' -mmin +120 -exec rm -rf {} +
  work=$(mktemp -d "$folder.XXXXXX") || return
  "$maker" "$work" && (cd "$work" && sha256sum -- * >SHA256SUMS) || status=$?
  if [ $status = 0 ]; then
    is_kept "$folder" || rm -rf "$folder"
    mv -T "$work" "$folder" 2>/dev/null || is_kept "$folder" || status=$?
  fi
  rm -rf "$work"
  return $status
}

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

llama_key=$({
  requirement requirements/libllama.txt llama-cpp-python
  cat requirements/build.txt cmake/libllama.cmake
  echo "$llama_options"
} | build_key)
llama_folder=$cache/libllama-$llama_key

make_libllama() {
  requirement requirements/libllama.txt llama-cpp-python >"$1/requirement.txt" || return
  # pip's own cache of wheels is keyed by version alone, not by options, so it stays out of this.
  CMAKE_ARGS="$llama_options -DCMAKE_PROJECT_llama_cpp_INCLUDE='$PWD/cmake/libllama.cmake'" \
  CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} \
    "$venv/bin/python" -m pip wheel --verbose "${pip_options[@]}" --no-cache-dir --no-deps --no-binary llama-cpp-python \
    --no-build-isolation --require-hashes --requirement "$1/requirement.txt" --wheel-dir "$1"
}
install_libllama() {
  "$venv/bin/python" -m pip install --quiet "${pip_options[@]}" --no-index --no-deps --force-reinstall "$llama_folder"/*.whl
}
if [ "$(cat "$stamps/libllama" 2>/dev/null)" != "$llama_key" ]; then
  if ! is_kept "$llama_folder"; then
    requirements build
    stage "libllama (built from source, about 3 minutes on 2 cores, once for all clones)" keep "$llama_folder" make_libllama
  fi
  stage "libllama: ${llama_folder/#$HOME/\~}" install_libllama
  echo "$llama_key" >"$stamps/libllama"
fi

# ---- llama-server -------------------------------------------------------------------------------

server_options=(-DBUILD_SHARED_LIBS=OFF "-DGGML_NATIVE=$native" -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF
  -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF)

make_llama_server() {
  local source=$1/source
  requirement requirements/libllama.txt llama-cpp-python >"$1/requirement.txt" || return
  # pip reads the package's metadata even where it only fetches it, which takes what builds libllama.
  "$venv/bin/python" -m pip download --quiet "${pip_options[@]}" --no-deps --no-binary llama-cpp-python \
    --no-build-isolation --require-hashes --requirement "$1/requirement.txt" --dest "$source" &&
    tar -xzf "$source"/llama_cpp_python-*.tar.gz -C "$source" --strip-components 1 &&
    cmake -S "$source/vendor/llama.cpp" -B "$source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${server_options[@]}" &&
    cmake --build "$source/build" --target llama-server &&
    mv "$source/build/bin/llama-server" "$1" &&
    rm -r "$source"
}

set_up_llama_server() {
  local key folder
  key=$({
    requirement requirements/libllama.txt llama-cpp-python
    echo "${server_options[@]}"
  } | build_key)
  [ "$(cat "$stamps/llama-server" 2>/dev/null)" = "$key" ] && return
  folder=$cache/llama-server-$key
  if ! is_kept "$folder"; then
    requirements build
    exec 9>&-  # another set-up need not wait for this: it works in a folder of its own
    stage "llama-server (built from source, about 20 minutes on 2 cores, once for all clones)" keep "$folder" make_llama_server
  fi
  stage "llama-server: ${folder/#$HOME/\~}" install -m 755 "$folder/llama-server" "$venv/bin/llama-server"
  echo "$key" >"$stamps/llama-server"
}

# ---- What only some need ------------------------------------------------------------------------

# What the Python binding of libllama imports, which the tests use and the build does not.
llama_in_python() {
  requirement requirements/libllama.txt '(?!llama-cpp-python)' >"$stamps/libllama-python.txt"
  requirements libllama-python "$stamps/libllama-python.txt"
}

if [ "$want" = test ]; then
  requirements test
  llama_in_python
  python_environment python
  node_client tests/e2e/node
fi
case $want in
  bench)
    requirements test
    requirements bench
    llama_in_python
    mkdir -p "$venv/peers"
    for name in litellm rlms; do python_environment peers/$name; done
    ;;
  llama-server) set_up_llama_server ;;
  python) python_environment python ;;
  web) node_client web ;;
  demo) [ -e "$stamps/test" ] || requirements demo ;;  # the tests' packages have it
  train)
    training_environment() {
      python3 -m venv --clear .venv-train &&
        .venv-train/bin/python -m pip install --quiet "${pip_options[@]}" --requirement training/requirements.txt
    }
    if [ "$(cat .venv-train/stamp 2>/dev/null)" != "$(sha256sum <training/requirements.txt)" ]; then
      stage "Python environment: training" training_environment
      sha256sum <training/requirements.txt >.venv-train/stamp
    fi
    ;;
  fmt | lint) requirements lint ;;
esac
