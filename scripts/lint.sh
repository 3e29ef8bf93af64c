#!/usr/bin/env bash
# scripts/lint.sh [--fix]: format of C++ and Python (--fix: formats in place and stops there), includes
# between layers, that the tree speaks of no machine, turns of speech that are hard to read, and clang-tidy.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

format=$venv/bin/clang-format
ruff=$venv/bin/ruff
mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc' '*.c')
status=0
complain() { echo "$1"; status=1; }

if [ "${1:-}" = --fix ]; then
  "$format" -i "${sources[@]}"
  "$ruff" check --quiet --fix . && "$ruff" format --quiet .
  exit
fi

echo "==> Format"
"$format" --dry-run --Werror "${sources[@]}" || complain "Run \`make fmt\`."

echo "==> Python"
"$ruff" check --quiet . || status=1
"$ruff" format --quiet --check . || complain "Run \`make fmt\`."

echo "==> Plain English"
python3 scripts/plain_english.py || status=1
python3 scripts/links.py || status=1
python3 scripts/openings.py || status=1

echo "==> Version"
python3 scripts/release.py || status=1

echo "==> Layers"
# A build folder of its own, in which every source is compiled by itself, so that one that lacks an include is found.
mkdir -p build
cmake --preset dev -B build/lint -D TENON_UNITY=OFF >build/lint.log 2>&1 || { cat build/lint.log; complain "The configuration fails."; }
ctest --test-dir build/lint -R '\.includes$' --output-on-failure >build/lint.log 2>&1 || { cat build/lint.log; status=1; }

echo "==> Names of machines"
# A tree that is built and tested anywhere names no home folder, no host of a package index, no model hub's cache. What a client
# was recorded saying names its own, which tests/e2e/agents.py makes /home/user.
git grep -nIE '(^|[^A-Za-z0-9_./])/(home|root|Users|work)/[a-z]|"resolved": *"http|--(extra-)?index-url|--find-links|[a-z0-9-]+\.internal\b' \
  -- . ':!scripts/lint.sh' ':!*.jsonl' ':!tests/e2e/clients/opencode/session.json' ':!tests/e2e/agents.py' \
  ':!tests/e2e/clients/*/requests.json' && complain "Paths or hosts of one machine."

echo "==> clang-tidy"
cmake --build build/lint --target embedded >build/lint.log 2>&1 || { cat build/lint.log; exit 1; }  # headers that are generated
# GCC's own warning flags are unknown to clang. The Python module is built by Python's tools, and that of training for the machine at hand; neither is in such a database.
printf '%s\n' "${sources[@]}" | grep '\.cc$' | grep -vE '^(python|training)/' | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build/lint --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error || status=1
[ $status = 0 ] && echo "Nothing to complain about."
exit $status
