#!/usr/bin/env bash
# The hot path in micro-benchmarks, compared with the baseline that is kept.
#
#   bench-micro.sh            measure and compare with bench/results/micro-baseline.txt
#   bench-micro.sh baseline   measure and make that the baseline
#
# Times compare only on the box and at the load of the baseline (its first lines
# say which); allocations and bytes compare everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} COUNT=${COUNT:-6}
base=bench/results/micro-baseline.txt
new=$(mktemp)
trap 'rm -f "$new"' EXIT
run() { # package, benchmarks, time for each
  "$GO" test "./internal/$1" -run '^$' -bench "$2" -benchtime "$3" -count "$COUNT" -benchmem
}
{
  echo "box: $(uname -r), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
  run wire '^BenchmarkDecodeProduce$' 100ms                 # decode a Produce request
  run record '^BenchmarkValidate$/^(none|lz4|zstd)$' 100ms  # step over the records of a batch
  run storage/log '^BenchmarkAppend$' 100ms                 # append
  run storage/log '^BenchmarkRead$' 100ms                   # find a range to send
  run storage/index '^BenchmarkLookup$' 100ms               # offset index
  run fetchsession '^BenchmarkIncremental$' 100ms           # fetch session
  run wire '^BenchmarkAppendFetchResponse$' 100ms           # encode a Fetch answer
  run replica '^Benchmark(Produce|Fetch)$' 100ms            # both paths below the handlers
} | tee "$new" >&2
if [ "${1:-}" = baseline ]; then
  cp "$new" "$base"
else
  "$GO" tool -modfile=tools/go.mod benchstat "$base" "$new"
fi
