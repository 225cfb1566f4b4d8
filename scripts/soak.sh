#!/usr/bin/env bash
# Looks for what the gate cannot see: property tests with many new cases, and the
# faults suite again and again. It is no part of the gate, which draws the same
# cases on every run.
#
#   scripts/soak.sh [PACKAGE...]      all property tests and the faults suite, or the property tests of these packages
#   SOAK_CHECKS=20000 SOAK_ROUNDS=5   cases of each property, runs of the faults suite
#   SOAK_LIMIT=300                    seconds after which a dear property gets no more cases
#   SOAK_FLAGS="-rapid.steps=100"     more flags for the test binaries
#   SOAK_BUILD="-race"                more flags for "go test -c"
#
# A failure says how to play it again and leaves its case in testdata/rapid: make
# it a script or a unit test in the commit that mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} checks=${SOAK_CHECKS:-20000} rounds=${SOAK_ROUNDS:-5} limit=${SOAK_LIMIT:-300}
unset RAPID_SEED TESTKIT_SEED # new cases
read -ra flags <<<"${SOAK_FLAGS:-}"
read -ra build <<<"${SOAK_BUILD:-}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# properties PACKAGE: the tests that hand a property to rapid.
properties() {
  awk 'match($0, /^func Test[A-Za-z0-9_]*/) { name = substr($0, 6, RLENGTH - 5) } /rapid\.(Check|MakeCheck)\(/ { print name }' "$1"/*_test.go | sort -u
}

# report WHAT STATUS SECONDS: one line, and the output where it failed.
report() {
  if [ "$2" = 0 ]; then
    echo "ok   $1 ($3 s)"
  else
    echo "FAIL $1 ($3 s)"
    head -c 200000 "$work/out"
    failed=1
  fi
}

# soak PACKAGE TEST: in portions, each with a seed of its own, until there are
# enough or the time is over.
soak() {
  local begin=$SECONDS done=0 status=0
  while [ "$done" -lt "$checks" ] && [ $((SECONDS - begin)) -lt "$limit" ] && [ "$status" = 0 ]; do
    local portion=$((checks - done < 500 ? checks - done : 500))
    env -C "$1" "$work/test" -test.run "^$2\$" -test.timeout 15m -rapid.checks="$portion" "${flags[@]}" >"$work/out" 2>&1 || status=1
    done=$((done + portion))
  done
  report "$1 $2, $done cases" "$status" $((SECONDS - begin))
}

mapfile -t packages < <(grep -rl --include='*_test.go' 'pgregory.net/rapid"' "${@:-.}" | xargs -n1 dirname | sort -u)
for pkg in "${packages[@]}"; do
  pkg=./${pkg#./}
  $GO test -c "${build[@]}" -o "$work/test" "$pkg"
  for name in $(properties "$pkg"); do
    soak "$pkg" "$name"
  done
done
if [ $# -eq 0 ]; then
  for ((i = 1; i <= rounds; i++)); do
    begin=$SECONDS status=0
    $GO test -count=1 -timeout 30m ./test/faults >"$work/out" 2>&1 || status=1
    report "faults, round $i of $rounds" "$status" $((SECONDS - begin))
  done
fi
exit "$failed"
