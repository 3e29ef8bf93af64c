#!/usr/bin/env bash
# `make test`: builds with sanitizers and for release, runs every test, and closes with one line:
#   N passed, N failed, N skipped
# A stage that fails does not keep the later ones from running. --long adds what takes minutes: tests
# marked long, ThreadSanitizer over the layers with threads, a minute of each fuzzer.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

long=
if [ "${1:-}" = --long ]; then long=1; shift; fi
export TENON_BIN=${TENON_BIN:-$PWD/build/release/bin/tenon}
export PYTHONDONTWRITEBYTECODE=1
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"
started=$SECONDS
broken=()

# shown TITLE COMMAND...: like stage, but with the output in sight: it names the tests.
shown() {
  local title=$1 begun=$SECONDS status=0
  shift
  printf '==> %s\n' "$title"
  "$@" || status=$?
  printf '    %d s\n' $((SECONDS - begun))
  return $status
}

unit_tests() {  # unit_tests PRESET [ctest option...]
  local preset=$1
  shift
  ctest --preset "$preset" --parallel "$(nproc)" --label-exclude e2e --output-on-failure \
    --output-junit "$results/unit-$preset.xml" "$@" | grep -vE '^ *$|^ *Start |   Passed  |^Test project'
  [ -s "$results/unit-$preset.xml" ] || broken+=("the unit tests ($preset)")
}

scripts/setup.sh test </dev/null || fail "Set-up failed; nothing was tested."

if scripts/build.sh dev; then
  TENON_LONG=$long shown "Unit tests and fuzz corpora (ASan + UBSan)" unit_tests dev
else
  broken+=("the dev build")
fi

if [ -d src/tenon/api ] || [ -d apps/tenon ]; then
  if scripts/build.sh release tenon; then
    TENON_LONG=$long shown "End-to-end tests (release binary)" \
      .venv/bin/python -m pytest tests --quiet -p no:cacheprovider --junitxml="$results/e2e.xml" -o junit_suite_name=e2e "$@"
    [ -s "$results/e2e.xml" ] || broken+=("the end-to-end tests")
  else
    broken+=("the release build")
  fi
fi

if [ "$long" ]; then
  if scripts/build.sh tsan; then
    shown "Unit tests (ThreadSanitizer)" unit_tests tsan
  else
    broken+=("the tsan build")
  fi
  scripts/setup.sh fuzz && shown "Fuzzers, a minute each" scripts/fuzz.sh || broken+=("a fuzzer")
fi

printf '==> All stages: %d s\n' $((SECONDS - started))
python3 scripts/count_tests.py "$results" "${broken[@]}"
