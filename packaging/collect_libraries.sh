#!/usr/bin/env bash
# packaging/collect_libraries.sh PROGRAM FOLDER: copies into FOLDER what PROGRAM loads and a bare Debian has not. glibc and
# the compiler's libraries stay outside: they belong to the system that it runs on.
set -euo pipefail
program=$1
folder=$2
mkdir -p "$folder"
ldd "$program" | awk '$2 == "=>" { print $3 }' | while read -r library; do
  case ${library##*/} in
    libc.so.* | libm.so.* | libgcc_s.so.* | libstdc++.so.* | libpthread.so.* | libdl.so.* | ld-linux*) ;;
    *) [ -e "$folder/${library##*/}" ] || cp --dereference "$library" "$folder/" ;;
  esac
done
