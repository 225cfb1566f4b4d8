#!/usr/bin/env bash
# Looks for what the gate cannot see: property tests with many new cases, and the
# faults suite again and again. It is no part of the gate, which draws the same
# cases on every run.
#
#   scripts/soak.sh [PACKAGE...]      all property tests and the faults suite, or the property tests of these packages
#   SOAK_CHECKS=20000 SOAK_ROUNDS=5   cases of each property, runs of the faults suite
#   SOAK_LIMIT=5m                     the longest a property test goes on; a dear one stops early and passes
#   SOAK_FLAGS="-rapid.steps=100"     more flags for the test binaries
#   SOAK_BUILD="-race"                more flags for "go test -c"
#
# A failure says how to play it again and leaves its case in testdata/rapid: make
# it a script or a unit test in the commit that mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} checks=${SOAK_CHECKS:-20000} rounds=${SOAK_ROUNDS:-5} limit=${SOAK_LIMIT:-5m}
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

# once WHAT COMMAND...: one line, or the end of the output where it fails.
once() {
  local what=$1 begin=$SECONDS
  shift
  if "$@" >"$work/out" 2>&1; then
    echo "ok   $what ($((SECONDS - begin)) s)"
  else
    echo "FAIL $what ($((SECONDS - begin)) s)"
    head -c 200000 "$work/out"
    failed=1
  fi
}

mapfile -t packages < <(grep -rl --include='*_test.go' 'pgregory.net/rapid"' "${@:-.}" | xargs -n1 dirname | sort -u)
for pkg in "${packages[@]}"; do
  pkg=./${pkg#./}
  $GO test -c "${build[@]}" -o "$work/test" "$pkg"
  for name in $(properties "$pkg"); do
    once "$pkg $name" env -C "$pkg" "$work/test" -test.run "^$name\$" -test.timeout "$limit" -rapid.checks="$checks" "${flags[@]}"
  done
done
if [ $# -eq 0 ]; then
  for ((i = 1; i <= rounds; i++)); do
    once "faults, round $i of $rounds" "$GO" test -count=1 -timeout 15m ./test/faults
  done
fi
exit "$failed"
