# Sourced by the other scripts: stages that say what they do and how long it took.

# The virtual environment; TENON_VENV names one that several checkouts share.
venv=${TENON_VENV:-$PWD/.venv}

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# stage TITLE COMMAND...: runs COMMAND with its output in a log, which is shown only when it fails.
stage() {
  local title=$1 started=$SECONDS log
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/tenon-stage.XXXXXX")
  printf '==> %s\n' "$title"
  if [ -n "${VERBOSE:-}" ]; then
    "$@" 2>&1 | tee "$log"
  else
    "$@" >"$log" 2>&1
  fi || {
    local status=$?
    cat "$log"
    rm -f "$log"
    printf '==> %s: failed after %d s\n' "$title" $((SECONDS - started)) >&2
    return $status
  }
  rm -f "$log"
  printf '    %d s\n' $((SECONDS - started))
}
