#!/usr/bin/env bash
# Compiles the module for platforms that the tests do not run on.
set -euo pipefail
cd "$(dirname "$0")/.."
for target in linux/arm64 darwin/arm64; do
  GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 ${GO:-go} build -o /dev/null ./cmd/tidemark
  echo "ok   $target"
done
