#!/usr/bin/env bash
# scripts/python.sh [--no-build]: builds the wheel into dist/ and installs it into build/python-venv.
#
# The module is linked against the libraries of the release build, so that it takes seconds. Then
# auditwheel puts in what it needs of this system beside glibc and libstdc++, under names of their own, and says in the wheel's name on
# which systems it runs. --no-build: the release libraries are built already.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

[ "${1:-}" = --no-build ] || scripts/build.sh release tenon_capi
scripts/setup.sh python </dev/null
tools=$venv/python
out=$PWD/build/python
mkdir -p "$out"
exec 9>"$out/.lock"
flock 9

# ICU's data are 30 MB, of which Tenon reads four files: normal forms and the ends of characters. The rest of what it knows of Unicode is
# code. A library with those alone stands in for the whole.
icu_data() {
  local original=$1 folder=$2 name
  name=$(basename "$(readlink -f "$original")")   # libicudata.so.72.1
  local version=${name#libicudata.so.}; version=${version%%.*}
  local data=icudt${version}_dat
  [ "$folder/libicudata.so.$version" -nt "$original" ] && return
  mkdir -p "$folder"
  "$tools/bin/python" - "$original" "$folder/icudt${version}l.dat" <<'PYTHON'
import sys
from elftools.elf.elffile import ELFFile
with open(sys.argv[1], "rb") as file:
    section = ELFFile(file).get_section_by_name(".rodata")
    open(sys.argv[2], "wb").write(section.data())
PYTHON
  local icupkg; icupkg=$(PATH=$PATH:/usr/sbin command -v icupkg)
  "$icupkg" -l "$folder/icudt${version}l.dat" |
    grep -vxE 'nfkc\.nrm|brkitr/(root\.res|char\.brk)|icuver\.res' >"$folder/others.txt"
  (cd "$folder" && "$icupkg" --ignore-deps -r others.txt "icudt${version}l.dat" small.dat) || return
  printf '.section .rodata\n.balign 16\n.globl %s\n.type %s, @object\n%s:\n.incbin "%s"\n.size %s, . - %s\n.section .note.GNU-stack,"",@progbits\n' \
    "$data" "$data" "$data" "$folder/small.dat" "$data" "$data" >"$folder/data.s"
  gcc -shared -nostdlib -Wl,-soname,"libicudata.so.$version" -o "$folder/libicudata.so.$version" "$folder/data.s"
}

wheel() {
  rm -rf "$out/raw" "$out/done"
  icu_data "$(gcc -print-file-name=libicudata.so)" "$out/icu" || return
  tenon_DIR=$PWD/build/release/cmake llama_DIR=$(echo "$venv"/lib/python3*/site-packages/lib/cmake/llama) TENON_VENV=$venv \
    CMAKE_PREFIX_PATH=$(echo "$venv"/lib/python3*/site-packages) \
    "$tools/bin/python" -m pip wheel . --quiet --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir "$out/raw" || return
  PATH="$tools/bin:$PATH" AUDITWHEEL_LD_LIBRARY_PATH="$out/icu" \
    "$tools/bin/auditwheel" repair --strip --zip-compression-level 9 --disable-isa-ext-check --only-plat --plat "manylinux_$(ldd --version | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\)$/\1_\2/p')_$(uname -m)" \
    --wheel-dir "$out/done" "$out"/raw/*.whl || return
  mkdir -p dist
  rm -f dist/*.whl
  mv "$out"/done/*.whl dist/
}
stage "Wheel" wheel

install_it() {
  python3 -m venv --clear build/python-venv &&
    build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps dist/*.whl
}
stage "build/python-venv" install_it
ls -l dist/*.whl
