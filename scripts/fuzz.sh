#!/usr/bin/env bash
# scripts/fuzz.sh [name...]: runs each libFuzzer target (or those named) for TIME seconds (60).
# New inputs are kept in build/fuzz/corpus/<name>; a crash is left in build/fuzz/crashes and becomes
# a file of the target's corpus in the commit that mends it.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh fuzz fuzzers || exit 1
mkdir -p build/fuzz/crashes
status=0
while IFS=$'\t' read -r target corpus dictionary; do
  name=${target#fuzz_}
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  echo "==> $name, ${TIME:-60} s"
  mkdir -p "build/fuzz/corpus/$name"
  "build/fuzz/bin/$target" -max_total_time="${TIME:-60}" -timeout=10 -rss_limit_mb=4096 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$name-" ${dictionary:+-dict="$dictionary"} \
    "build/fuzz/corpus/$name" "$corpus" </dev/null || status=1
done <build/fuzz/fuzz_targets.txt
exit $status
