#!/usr/bin/env bash
# `make test`: builds with sanitizers and for release, runs every test, and closes with one line:
#   N passed, N failed, N skipped
# A stage that fails does not keep the later ones from running. --long adds what takes minutes: tests
# marked long, ThreadSanitizer over the layers with threads, a minute of each fuzzer, an hour of the search for costly grammars, ten
# minutes of the soak.
set -uo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

long=
if [ "${1:-}" = --long ]; then long=1; shift; fi
if [ -n "$long" ]; then
  export TENON_LONG=1 most_s=3600 e2e_most_s=7200
  [ "${TENON_PROOF:-}" != all ] || e2e_most_s=43200
else
  unset TENON_LONG
  export most_s=900 e2e_most_s=3600
fi
export TENON_BIN=${TENON_BIN:-$PWD/build/release/bin/tenon}
export PYTHONDONTWRITEBYTECODE=1
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"
started=$SECONDS

# shown TITLE COMMAND...: like stage, but with the output in sight: it names the tests. It also says how long the processors worked.
# Where that is far less than the cores had, tests waited.
TIMEFORMAT='    %0R s, %0U s of user and %0S s of system time'
shown() {
  local title=$1
  shift
  printf '==> %s\n' "$title"
  time "$@"
}

# Under ThreadSanitizer these alone are long: the others' long parts are proofs in one thread, which would take hours.
export long_with_threads=' engine_llama_test rlm_test capi_test '

# The programs that take longest, with the number of pieces that each is run in. They run first, so that no piece is left alone at the
# end; the others follow whole.
pieces='grammar_test:4 format_test:4 prompt_test:3 api_test:2'

# units PRESET: a line "PROGRAM PIECE PIECES" for each piece of each program with unit tests.
units() {
  local name program count piece
  for name in $pieces; do
    program=${name%:*} count=${name#*:}
    grep -qx "$program" "build/$1/unit_tests.txt" || continue
    for ((piece = 0; piece < count; piece++)); do echo "$program $piece $count"; done
  done
  while read -r program; do
    [[ " $pieces " == *" $program:"* ]] || echo "$program 0 1"
  done <"build/$1/unit_tests.txt"
}

# A piece of a test program; quiet unless something fails.
unit_test() {  # unit_test PRESET PROGRAM PIECE PIECES
  local name=unit-$1-$2
  [ "$4" = 1 ] || name+=-$3
  local report=$results/$name.xml log=$results/$name.log
  [ "$1" != tsan ] || [[ $long_with_threads == *" $2 "* ]] || local TENON_LONG=
  GTEST_SHARD_INDEX=$3 GTEST_TOTAL_SHARDS=$4 \
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
  units "$1" | xargs -P "$(nproc)" -L 1 bash -c 'unit_test "$0" "$@"' "$1"
  ctest --preset "$1" --parallel "$(nproc)" --label-exclude '^(e2e|unit)$' --output-on-failure \
    --output-junit "$results/rest-$1.xml" | grep -vE '^ *$|^ *Start |   Passed  |^Test project'
  [ -s "$results/rest-$1.xml" ] || echo "ctest ($1)" >>"$results/broken"
}

# end_to_end REPORT ARGUMENT...: pytest over tests/. It ends with 5 where ARGUMENTs leave no test, which is no fault.
end_to_end() {
  local report=$1 status=0
  shift
  timeout "$e2e_most_s" "$venv/bin/python" -m pytest tests --quiet -p no:cacheprovider --junitxml="$results/$report.xml" \
    -o junit_suite_name="$report" "$@" || status=$?
  [ -s "$results/$report.xml" ] || echo "the end-to-end tests ($report, exit status $status)" >>"$results/broken"
}

# One process more than there are cores, since tests wait a third of their time; each has a file of tests at a time. Then, in one
# process, what does not run beside others.
end_to_end_tests() {
  end_to_end e2e --serial never --numprocesses $(($(nproc) + 1)) "$@"
  end_to_end e2e-serial --serial only "$@" --numprocesses 0
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
  if scripts/setup.sh llama-server </dev/null; then
    export LLAMA_SERVER=$venv/bin/llama-server
  else
    echo "llama-server" >>"$results/broken"
  fi
fi
[ -z "$long" ] || scripts/setup.sh docs </dev/null || echo "doxygen" >>"$results/broken"
if scripts/build.sh release e2e -D TENON_TESTS_REQUIRED=ON; then
  shown "End-to-end tests (release binary, $(($(nproc) + 1)) processes)" end_to_end_tests "$@"
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
  shown "Search for grammars that cost too much (an hour)" \
    python3 tests/cost_search.py --minutes 60 --slack 300 --save "$results/costly.jsonl" ||
    echo "the search for grammars that cost too much" >>"$results/broken"
  shown "Soak (ten minutes)" "$venv/bin/python" bench/soak.py --minutes 10 --json "$results/soak.json" ||
    echo "the soak" >>"$results/broken"
fi

printf '==> All stages: %d s\n' $((SECONDS - started))
python3 scripts/count_tests.py "$results"
