#!/usr/bin/env bash
# web/build.sh [FOLDER]: checks the types and makes the pages from src/, in FOLDER or web/dist. What is in web/dist is committed, so
# a build of the server needs neither Node nor npm.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-$PWD/dist}

stamp=node_modules/.stamp
key=$(sha256sum <package-lock.json)
if [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
  npm ci --prefer-offline --loglevel=error --no-audit --no-fund
  echo "$key" >"$stamp"
fi

npx --no-install tsc
mkdir -p "$out"
rm -f "$out"/*.html "$out"/*.js "$out"/*.css
for page in app home; do
  PAGE=$page OUT=$out npx --no-install vite build --logLevel warn
done
cp index.html home.html "$out"/
