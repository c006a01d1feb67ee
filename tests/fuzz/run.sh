#!/usr/bin/env bash
# Every fuzz target for FUZZ_SECONDS (default 10) on its committed seeds; a crash, leak or time-out fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-10}
for program in build/asan/bin/tandem_fuzz_*; do
  name=${program##*/tandem_fuzz_}
  work=$(mktemp -d)
  echo "== $name"
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 \
    -verbosity=0 -artifact_prefix="$work/" "$work" "tests/fuzz/corpus/$name"
  rm -rf "$work"
done
