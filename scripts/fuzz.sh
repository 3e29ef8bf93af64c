#!/usr/bin/env bash
# scripts/fuzz.sh [name...]: runs each libFuzzer target (or those named) for TIME seconds (60).
# New inputs are kept in build/fuzz/corpus/<name>; a crash is left in build/fuzz/crashes and becomes
# a file of the target's corpus in the commit that fixes it.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh fuzz fuzzers || exit 1
mkdir -p build/fuzz/crashes

# fuzz TARGET CORPUS [DICTIONARY]: what it prints comes at its end, since others run beside it.
fuzz() {
  local target=$1 corpus=$2 dictionary=${3:-} name=${1#fuzz_} status=0
  mkdir -p "build/fuzz/corpus/$name"
  "build/fuzz/bin/$target" -max_total_time="${TIME:-60}" -timeout=10 -rss_limit_mb=4096 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$name-" ${dictionary:+-dict="$dictionary"} \
    "build/fuzz/corpus/$name" "$corpus" </dev/null >"build/fuzz/$name.log" 2>&1 || status=1
  printf '==> %s, %s s\n' "$name" "${TIME:-60}"
  cat "build/fuzz/$name.log"
  return $status
}
export -f fuzz

# One target on each core. xargs ends with 123 where one of them failed.
while IFS=$'\t' read -r target corpus dictionary; do
  if [ $# -gt 0 ] && [[ " $* " != *" ${target#fuzz_} "* ]]; then continue; fi
  printf '%s\0%s\0%s\0' "$target" "$corpus" "$dictionary"
done <build/fuzz/fuzz_targets.txt | xargs -0 -n 3 -P "$(nproc)" bash -c 'fuzz "$@"' fuzz
