#!/usr/bin/env bash
# Runs every benchmark; JSON results in out/bench/. --smoke: each case once, briefly, to see that it runs.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=(--benchmark_repetitions=5 --benchmark_report_aggregates_only=true)
if [ "${1:-}" = --smoke ]; then
  flags=(--benchmark_min_time=0.01)
  export TANDEM_BENCH_SMOKE=1
fi
mkdir -p out/bench
for program in build/release/bin/*_bench; do
  name=$(basename "$program")
  echo "== $name"
  cases=.
  # The others take minutes, of devices by the thousand.
  [ "$name${1:-}" != sim_scale_bench--smoke ] || cases='devices:16/|^plan/devices:64/'
  "$program" "${flags[@]}" --benchmark_filter="$cases" --benchmark_out="out/bench/$name.json" --benchmark_out_format=json
done
if [ "$(id -u)" = 0 ]; then
  echo "== testbed"
  build/release/bin/testbed "$@"
fi
echo "== streaming_regimes.py"
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/streaming_regimes.py "$@"
echo "== measure_galaxy.py"
measures=()
[ "${1:-}" != --smoke ] || measures=(--seconds 2 --minutes 0)
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/measure_galaxy.py --tandem build/release/bin/tandem --folder out/galaxy "${measures[@]}" environments
