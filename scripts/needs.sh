#!/usr/bin/env bash
# Makes sure that this machine has what the tests use beside Go, Apache Kafka's jars included.
#
# As root on Debian it installs what is missing. Otherwise it says exactly what
# is missing and how to get it, and fails; ALLOW_MISSING=1 goes on, and the tests
# that need it are skipped with a clear word.
set -euo pipefail

# program:package, why it is needed
needs=(
  "gcc:gcc:the race detector links with it"
  "make:make:this file is run by it"
  "java:default-jre-headless:Apache Kafka and its tools, to compare with"
  "mvn:maven:fetches Apache Kafka's jars"
  "kcat:kcat:a client on librdkafka"
  "node:nodejs:KafkaJS"
  "npm:npm:fetches KafkaJS"
  "python3:python3:confluent-kafka"
  "strace:strace:makes fsync fail"
  "mkfs.ext4:e2fsprogs:file systems that lose power"
  "mount:mount:file systems that lose power"
)

# Debian keeps the tools of root in folders that others may not search.
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."

missing=() packages=()
for need in "${needs[@]}"; do
  IFS=: read -r program package why <<<"$need"
  if ! command -v "$program" >/dev/null; then
    missing+=("  $program ($why): apt-get install -y $package")
    packages+=("$package")
  fi
done
if command -v python3 >/dev/null && ! python3 -c 'import ensurepip' 2>/dev/null; then
  missing+=("  python3-venv (confluent-kafka): apt-get install -y python3-venv")
  packages+=(python3-venv)
fi
if command -v gcc >/dev/null && ! echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1; then
  missing+=("  the C library's headers (the race detector): apt-get install -y libc6-dev")
  packages+=(libc6-dev)
fi
# Debian keeps PostgreSQL's server programs out of the PATH, in a folder per version.
if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  missing+=("  initdb (the effect store's tests): apt-get install -y postgresql")
  packages+=(postgresql)
fi

# Once, before tests that run side by side would each fetch them.
fetch_jars() { test/peers/kafka install >/dev/null; }

if [ ${#missing[@]} -eq 0 ]; then
  fetch_jars
  exit 0
fi

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing what the tests need: ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${packages[@]}" libc6-dev python3-venv >/dev/null
  fetch_jars
  exit 0
fi
echo "The tests need what this machine does not have:" >&2
printf '%s\n' "${missing[@]}" >&2
if [ "${ALLOW_MISSING:-}" = 1 ]; then
  echo "ALLOW_MISSING=1: going on without; tests that need it are skipped." >&2
  exit 0
fi
echo "Install it (or run this as root), or set ALLOW_MISSING=1 to leave those tests out." >&2
exit 1
