#!/usr/bin/env bash
# scripts/build.sh PRESET [target [option of cmake...]]: configures where needed, and builds.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

preset=$1
target=${2:-all}
options=("${@:3}")
mkdir -p build
exec 9>"build/.$preset.lock"
flock 9  # ninja does not expect a second one in the same folder
unset NINJA_STATUS  # stages.sh reads how far ninja is from the form that ninja has by itself

build() {
  cmake --preset "$preset" "${options[@]}" >build/configure-"$preset".log 2>&1 || { cat build/configure-"$preset".log; return 1; }
  grep -A3 'CMake Warning' build/configure-"$preset".log || true
  cmake --build --preset "$preset" --target "$target"
}
stage "Building $target ($preset)" build
