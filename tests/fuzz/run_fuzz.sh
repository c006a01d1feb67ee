#!/usr/bin/env bash
# Every fuzz target for FUZZ_SECONDS (default 10) on its committed seeds, one a core; a crash, leak or time-out fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

fuzzed() {
  local name=${1##*/tandem_fuzz_} work
  work=$(mktemp -d)
  echo "== $name"
  "$1" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 \
    -verbosity=0 -artifact_prefix="$work/" "$work" "tests/fuzz/corpus/$name" || { echo "== $name: FAILED"; return 1; }
  rm -rf "$work"
}
export -f fuzzed

printf '%s\n' build/fuzz/bin/tandem_fuzz_* | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzzed "$1"' fuzzed {}
