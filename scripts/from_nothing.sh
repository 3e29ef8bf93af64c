#!/usr/bin/env bash
# scripts/from_nothing.sh demo|test|edits: how long a newcomer waits, for docs/benchmarks.md. Takes the committed tree, clones it and
# gives it an empty home folder of its own, so that no cache of this machine helps. Debian packages that are installed stay installed:
# the time to install them is not in the figures, unless the machine is a fresh one. Prints rows of a table: what, seconds on the
# clock, seconds of processor time (user and system). Nothing else may run meanwhile.
#
#   demo    `make demo` from nothing; in a second clone with libllama and packages cached, but no compilation; in a third with all cached
#   test    `make test` from nothing, and once more when all is built
#   edits   in a built clone: from a change in a header or a source to the test program of its layer
#
# WORK names the folder (clones, logs and home are kept until the next run); otherwise there is a temporary one, which is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?demo, test or edits}
root=$PWD
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
export HOME=$work/home XDG_CACHE_HOME=$work/home/.cache CCACHE_DIR=$work/home/.cache/ccache PIP_CACHE_DIR=$work/home/.cache/pip
export npm_config_cache=$work/home/.npm
unset TENON_VENV TENON_CACHE
rm -rf "${work:?}/home"  # the caches of an earlier run
mkdir -p "$HOME"

clone() { rm -rf "${work:?}/$1" && git clone --quiet "file://$root" "$work/$1" && cd "$work/$1"; }

row() { # row TITLE COMMAND...
  local title=$1 log=$work/log status=0
  shift
  TIMEFORMAT="%0R | %0U + %0S"
  local spent
  spent=$({ time "$@" >"$log" 2>&1; } 2>&1) || status=$?
  [ $status = 0 ] || tail -n 20 "$log" >&2
  echo "| $title | $spent |$([ $status = 0 ] || echo " failed ($status)")"
}

# edit FILE: a change that no cache of compilations knows.
edit() { echo "namespace tenon { [[maybe_unused]] inline constexpr int edited_$(date +%s%N) = 0; }" >>"$1"; }
edited() { # edited FILE LAYER
  edit "$1"
  row "$1 to ${2}_test" cmake --build --preset dev --target "${2}_test"
}

echo "| | s | user + system s |"
echo "|---|---|---|"
case $what in
  demo)
    clone first
    row "\`make demo\`, from nothing" make demo
    clone second
    rm -rf "$CCACHE_DIR"
    row "\`make demo\`, libllama and packages cached" make demo
    clone third
    row "\`make demo\` in another clone, all cached" make demo
    ;;
  test)
    clone first
    row "\`make test\`, from nothing" make test
    row "\`make test\`, when built" make test
    ;;
  edits)
    clone first
    row "all of dev" bash -c 'scripts/setup.sh test && scripts/build.sh dev'
    edited src/tenon/format/definition.h format
    edited src/tenon/chat/responder.h chat
    edited src/tenon/format/render.cc format
    edited src/tenon/json/parse.cc json
    edited src/tenon/chat/turn.cc chat
    ;;
  *) exit 2 ;;
esac
