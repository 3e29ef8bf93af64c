# Sourced by the other scripts: stages that say what they do and how long it took.

# The virtual environment; TENON_VENV names one that several checkouts share.
venv=${TENON_VENV:-$PWD/.venv}

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# progress LOG: says how far a compilation is whose output goes into LOG: "building 120 of 298", from ninja's "[120/298]".
# On a terminal that is one line which changes, elsewhere a line every 15 seconds. It runs beside the compilation and ends with the
# script.
progress() {
  local log=$1 at said='' next=0
  while kill -0 $$ 2>/dev/null && [ -e "$log" ]; do
    sleep 1
    at=$(tail -c 16384 "$log" 2>/dev/null | grep -aoE '\[[0-9]+/[0-9]+\]' | tail -n 1) || continue
    at=${at#[} at=${at%]} at="building ${at%/*} of ${at#*/}"
    [ "$at" != "$said" ] || continue
    if [ -t 1 ]; then
      printf '\r    %s ' "$at"
    elif [ $SECONDS -ge $next ]; then
      printf '    %s\n' "$at"
      next=$((SECONDS + 15))
    else
      continue
    fi
    said=$at
  done
}

# stage TITLE COMMAND...: runs COMMAND with its output in a log, which is shown only when it fails. Variables that COMMAND sets are lost.
stage() {
  local title=$1 started=$SECONDS log status=0 watcher
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/tenon-stage.XXXXXX")
  printf '==> %s\n' "$title"
  if [ -n "${VERBOSE:-}" ]; then
    "$@" 2>&1 | tee "$log" || status=$?
  else
    progress "$log" 9>&- &  # its last `sleep` outlives it, and must not hold the lock that callers have as 9
    watcher=$!
    ("$@") >"$log" 2>&1 || status=$?  # in a process of its own: after a `fail` in it, the log is shown all the same
    { kill $watcher && wait $watcher; } 2>/dev/null || true
    [ ! -t 1 ] || printf '\r\033[K'
  fi
  if [ $status != 0 ]; then
    [ -n "${VERBOSE:-}" ] || cat "$log"
    rm -f "$log"
    printf '==> %s: failed after %d s\n' "$title" $((SECONDS - started)) >&2
    return $status
  fi
  rm -f "$log"
  printf '    %d s\n' $((SECONDS - started))
}
