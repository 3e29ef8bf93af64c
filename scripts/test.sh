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
if [ -n "$long" ]; then export TENON_LONG=1 most_s=3600; else unset TENON_LONG; export most_s=900; fi
export TENON_BIN=${TENON_BIN:-$PWD/build/release/bin/tenon}
export PYTHONDONTWRITEBYTECODE=1
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"
started=$SECONDS

# shown TITLE COMMAND...: like stage, but with the output in sight: it names the tests.
shown() {
  local title=$1 begun=$SECONDS status=0
  shift
  printf '==> %s\n' "$title"
  "$@" || status=$?
  printf '    %d s\n' $((SECONDS - begun))
  return $status
}

# Under ThreadSanitizer these alone are long: the others' long parts are proofs in one thread, which would take hours.
export long_with_threads=' engine_llama_test rlm_test capi_test '

# One test program as a whole; quiet unless something fails.
unit_test() {  # unit_test PRESET PROGRAM
  local report=$results/unit-$1-$2.xml log=$results/unit-$1-$2.log
  [ "$1" != tsan ] || [[ $long_with_threads == *" $2 "* ]] || local TENON_LONG=
  timeout "$most_s" "build/$1/bin/$2" --gtest_brief=1 --gtest_output=xml:"$report" >"$log" 2>&1 </dev/null && return
  cat "$log"
  # A leak or a data race fails the program after its tests have passed and their report is written.
  grep -q '<failure' "$report" 2>/dev/null || echo "$2 ($1)" >>"$results/broken"
}
export -f unit_test
export results

# Everything of a preset but the end-to-end tests: the programs with unit tests, then by ctest what is
# not one of those (includes, fuzz corpora, the build's own promises).
unit_tests() {  # unit_tests PRESET
  xargs -P "$(nproc)" -I{} bash -c 'unit_test "$0" {}' "$1" <"build/$1/unit_tests.txt"
  ctest --preset "$1" --parallel "$(nproc)" --label-exclude '^(e2e|unit)$' --output-on-failure \
    --output-junit "$results/rest-$1.xml" | grep -vE '^ *$|^ *Start |   Passed  |^Test project'
  [ -s "$results/rest-$1.xml" ] || echo "ctest ($1)" >>"$results/broken"
}

scripts/setup.sh test </dev/null || fail "Set-up failed; nothing was tested."
scripts/setup.sh "clients${long:+-long}" </dev/null &  # waits for the network while the compiler works
clients=$!

scripts/build.sh dev
built=$?
wait $clients || echo "the clients' environments" >>"$results/broken"
if [ $built = 0 ]; then
  shown "Unit tests and fuzz corpora (ASan + UBSan)" unit_tests dev
else
  echo "the dev build" >>"$results/broken"
fi

if [ -n "$long" ] && [ -z "${LLAMA_SERVER:-}" ]; then
  LLAMA_SERVER=$(bench/llama_server.sh) || echo "llama-server" >>"$results/broken"
  export LLAMA_SERVER
fi
[ -z "$long" ] || scripts/setup.sh docs </dev/null || echo "doxygen" >>"$results/broken"
if scripts/build.sh release e2e; then
  shown "End-to-end tests (release binary)" \
    "$venv/bin/python" -m pytest tests --quiet -p no:cacheprovider --junitxml="$results/e2e.xml" -o junit_suite_name=e2e "$@"
  [ -s "$results/e2e.xml" ] || echo "the end-to-end tests" >>"$results/broken"
else
  echo "the release build" >>"$results/broken"
fi

if [ "$long" ]; then
  if scripts/build.sh tsan; then
    shown "Unit tests (ThreadSanitizer)" unit_tests tsan
  else
    echo "the tsan build" >>"$results/broken"
  fi
  scripts/setup.sh fuzz && shown "Fuzzers, a minute each" scripts/fuzz.sh ||
    echo "a fuzzer" >>"$results/broken"
fi

printf '==> All stages: %d s\n' $((SECONDS - started))
python3 scripts/count_tests.py "$results"
