#!/usr/bin/env bash
# Puts a small corpus for each fuzz target into testdata/fuzz, from what earlier
# runs of scripts/fuzz.sh found interesting (Go's build cache keeps that).
#
#   scripts/fuzz.sh && scripts/fuzz-corpus.sh
#   CORPUS_FILES=30 CORPUS_BYTES=40000 ...     bounds for each target
#
# Go keeps an input only when it reaches code that no other one did, so the
# smallest ones cover the most per byte. Inputs that are committed already stay:
# among them are those that once failed.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} files=${CORPUS_FILES:-30} bytes=${CORPUS_BYTES:-40000}
cache=$($GO env GOCACHE)/fuzz
module=$($GO list -m)
[ -d "$cache/$module" ] || { echo "no corpus in $cache: run scripts/fuzz.sh first" >&2; exit 1; }

cd "$cache/$module"
find . -type d -name 'Fuzz*' | sort | while read -r target; do
  to=$OLDPWD/$(dirname "$target")/testdata/fuzz/$(basename "$target")
  # A target that is gone, or was renamed, leaves its cache behind.
  grep -qsE "^func $(basename "$target")\(" "$OLDPWD/$(dirname "$target")"/*_test.go || continue
  mkdir -p "$to"
  find "$target" -type f -size -8k -printf '%s %p\n' | sort -n | awk -v files="$files" -v bytes="$bytes" '
    n < files && sum + $1 <= bytes { n++; sum += $1; print $2 }' | while read -r f; do
    cp -n "$f" "$to/" 2>/dev/null || true
  done
  echo "$(find "$to" -type f | wc -l) inputs, $(du -cb "$to"/* | tail -1 | cut -f1) bytes: $target"
done
