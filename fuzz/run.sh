#!/usr/bin/env bash
# Fuzzes every target for so many seconds each (60), from captured replies, metrics pages and published tables as seeds.
# Ends with 1 when one of them has a finding, which is then in fuzz/artifacts.
#
#   fuzz/run.sh [SECONDS]
#
# Needs cargo-fuzz (`cargo install cargo-fuzz --locked`) and a C++ compiler; a stable toolchain does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
seconds=${1:-60}

# A seed is the bytes that choose (see the target) and a file behind them.
seed() {
  local target=$1 choice=$2 file
  shift 2
  mkdir -p "corpus/$target"
  for file in "$@"; do
    # Captured replies begin with their request and headers as comments.
    { printf '%b' "$choice"; case $target in reply) sed '1,/^$/d' "$file" ;; *) cat "$file" ;; esac; } >"corpus/$target/seed-$(printf '%s' "$choice$file" | cksum | cut -d' ' -f1)"
  done
}

captured=../crates/load/tests/fixtures/captured
# dialect, content type, status, cut
seed reply '\x00\x00\x00\x02' $captured/*/chat*.sse
seed reply '\x00\x02\x00\x02' $captured/*/chat*.json
seed reply '\x01\x00\x00\x04' $captured/*/completion*.sse
seed reply '\x02\x00\x00\x06' $captured/*/*responses*.sse
seed reply '\x03\x00\x00\x03' $captured/*/*messages*.sse
seed server_side '' ../crates/serving/tests/metrics/*.prom
seed files '\x00' ../tests/fixtures/curves/*.csv ../tests/fixtures/import/*
seed files '\x03' <(echo 'ttft.p95<=1.5s') <(echo 'lognormal:512:0.4:2048') <(echo '3000users:think=20s') <(echo '64,256,1024')

failed=()
for target in reply frames server_side files; do
  echo "--- $target"
  # No sanitizer: nothing here is unsafe, and stable has none.
  cargo fuzz run --sanitizer none "$target" -- -max_total_time="$seconds" -max_len=8192 -print_final_stats=1 -verbosity=0 ||
    failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "findings in: ${failed[*]}" >&2
  exit 1
fi
