#!/usr/bin/env bash
# Builds tidemark and the example, starts a broker in a temporary folder, and runs
# the demo on it. With an argument it uses the cluster at that HOST:PORT instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
pid=
stop() {
  if [ -n "$pid" ]; then
    kill "$pid" 2>/dev/null && wait "$pid" || true
  fi
  rm -rf "$dir"
}
trap stop EXIT
go build -o "$dir/orders" ./examples/orders
addr=${1:-}
if [ -z "$addr" ]; then
  # A free port: a node that runs on 9092 keeps its topics to itself.
  go build -o "$dir/tidemark" ./cmd/tidemark
  "$dir/tidemark" server --data-dir "$dir/data" --listen "127.0.0.1:${PORT:-0}" --admin none >"$dir/server.log" 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    addr=$(sed -n 's/^ *clients *\([0-9.:]*\) .*/\1/p' "$dir/server.log")
    [ -n "$addr" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$addr" ] || { cat "$dir/server.log" >&2; exit 1; }
fi
"$dir/orders" demo -bootstrap-server "$addr" -dir "$dir" ${POSTGRES:+-postgres "$POSTGRES"}
