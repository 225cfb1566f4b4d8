#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, two side by side on one core each.
#
#   scripts/fuzz.sh [PACKAGE...]      all targets, or those of these packages
#   FUZZ_TIME=5m FUZZ_JOBS=8 ...      how long each (20s), how many at once (2)
#
# What a target finds interesting is kept in Go's build cache (fuzz/ below "go
# env GOCACHE"), so a later run goes on from there. A failing input is kept in the
# package's testdata/fuzz and reproduced by a plain "go test" from then on:
# commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
export GO=${GO:-go} FUZZ_TIME=${FUZZ_TIME:-20s}
jobs=${FUZZ_JOBS:-2}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
cache=$($GO env GOCACHE)/fuzz
export cache

# run PACKAGE TARGET BINARY: one line, or all of the output where it fails.
# Minimizing by count: with Go's default, a minute each, a target of big inputs
# spends its time on making them smaller (a record batch: 15 inputs a second
# instead of 6,000).
run() {
  local pkg=$1 name=$2 bin=$3 out try
  for try in first second; do
    # The deadline is for a target that hangs.
    if out=$(cd "$pkg" && GOMAXPROCS=1 timeout -k 5 "$((120 + FUZZ_SECONDS))" "$bin" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$FUZZ_TIME" \
      -test.fuzzminimizetime 200x -test.fuzzcachedir "$cache/$(cat "$bin.path")" -test.parallel 1 2>&1); then
      printf 'ok   %s %s: %s\n' "$pkg" "$name" "$(sed -nE 's/^fuzz: elapsed: ([^,]*), execs: ([0-9]+) .*new interesting: ([0-9]+) \(total: ([0-9]+)\).*/\2 inputs in \1, \3 new, corpus \4/p' <<<"$out" | tail -1)"
      return 0
    fi
    # Go before 1.27 may report the end of the time as a failure although no
    # input failed (golang/go#75804): once is its flake, twice is ours.
    if [ "$try" = first ] && grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input written' <<<"$out"; then
      continue
    fi
    printf 'FAIL %s %s\n%s\n' "$pkg" "$name" "$out"
    return 1
  done
}
export -f run

FUZZ_SECONDS=$(awk -v t="$FUZZ_TIME" 'BEGIN { n = t + 0; if (t ~ /m$/) n *= 60; if (t ~ /h$/) n *= 3600; print int(n) }')
export FUZZ_SECONDS

mapfile -t files < <(grep -rlE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' "${@:-.}" | grep -v -e /node_modules/ -e '^./data/' | sort)
[ ${#files[@]} -gt 0 ] || { echo "no fuzz targets found" >&2; exit 1; }
mapfile -t packages < <(for f in "${files[@]}"; do echo "./$(dirname "${f#./}")"; done | sort -u)

# One instrumented binary for each package serves all of its targets.
for pkg in "${packages[@]}"; do
  bin=$work/$(tr / _ <<<"${pkg#./}").test
  $GO test -c -fuzz . -o "$bin" "$pkg"
  $GO list "$pkg" >"$bin.path"
  sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$pkg"/*_test.go | sort -u | while read -r name; do
    echo "$pkg $name $bin"
  done
done >"$work/targets"
echo "$(wc -l <"$work/targets") fuzz targets, $FUZZ_TIME each, $jobs at once"

# xargs goes on after a failure and reports it at the end.
xargs -P "$jobs" -L 1 bash -c 'run "$@"' fuzz <"$work/targets"
