#!/usr/bin/env bash
# Runs make targets one after another, to the end although one fails, and says at
# the end what each took. Fails if one did.
#
#   scripts/stages.sh needs lint unit
set -euo pipefail
cd "$(dirname "$0")/.."
TIMEFORMAT='%R %U %S'
report='' failed=''
for stage in "$@"; do
  echo "=== $stage"
  state=ok
  # The stage writes to descriptors 3 and 4, so that only bash's own times are caught.
  { took=$({ time "${MAKE:-make}" --no-print-directory "$stage" 1>&3 2>&4; } 2>&1); } 3>&1 4>&2 || { state=FAILED failed+=" $stage"; }
  read -r wall user system <<<"${took##*$'\n'}"
  report+=$(printf '%-12s %-7s %7.0f s %7.0f s CPU' "$stage" "$state" "$wall" "$(awk -v a="$user" -v b="$system" 'BEGIN {print a + b}')")$'\n'
done
printf '\n%s' "$report"
if [ -n "$failed" ]; then
  echo "FAILED:$failed" >&2
  exit 1
fi
echo "all tests passed"
