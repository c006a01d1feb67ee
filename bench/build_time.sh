#!/usr/bin/env bash
# bench/build_time.sh [PRESET [CMAKE TARGET...]]: compiles from nothing, without ccache, in a folder of its own, and prints the elapsed
# seconds, the processor seconds of each target's objects, and the ten heaviest objects. Default: release tandem, as `make demo` builds it.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
targets=("${@:2}")
((${#targets[@]})) || targets=(tandem)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A compiler launcher that adds a line to the log: processor seconds of user and system, output file.
cat >"$folder/timed" <<'LAUNCHER'
#!/usr/bin/env bash
TIMEFORMAT='%U %S'
for ((i = 1; i < $#; ++i)); do [[ ${!i} == -o ]] && next=$((i + 1)) && object=${!next}; done
exec 3>&2
spent=$({ time "$@" 2>&3; } 2>&1) || code=$?
echo "$spent ${object:-link}" >>"$TANDEM_BUILD_LOG"
exit "${code:-0}"
LAUNCHER
chmod +x "$folder/timed"
export TANDEM_BUILD_LOG=$folder/log

cmake --preset "$preset" -B "$folder/build" -DCMAKE_CXX_COMPILER_LAUNCHER="$folder/timed" --log-level=WARNING >/dev/null
begin=$(date +%s.%N)
cmake --build "$folder/build" --target "${targets[@]}" -j "$(nproc)" >/dev/null
end=$(date +%s.%N)

/usr/bin/python3 - "$folder/log" "$begin" "$end" "preset $preset: ${targets[*]}" <<'PYTHON'
import collections
import re
import subprocess
import sys

log, begin, end, what = sys.argv[1:]
objects = []
for line in open(log):
    user, system, name = line.split(maxsplit=2)
    objects.append((float(user) + float(system), name.strip()))
by_target = collections.defaultdict(lambda: [0, 0.0])
for seconds, name in objects:
    target = re.search(r"CMakeFiles/([^/]+)\.dir/", name)
    entry = by_target[target.group(1) if target else name]
    entry[0] += 1
    entry[1] += seconds
processor = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
cores = subprocess.run(["nproc"], capture_output=True, text=True).stdout.strip()
print(f"{what} on {processor}, {cores} cores, without ccache")
print(f"elapsed {float(end) - float(begin):.0f} s, processor {sum(s for s, _ in objects):.0f} s, {len(objects)} objects\n")
print(f"{'target':32} {'objects':>8} {'processor s':>12}")
for target, (count, seconds) in sorted(by_target.items(), key=lambda item: -item[1][1]):
    print(f"{target:32} {count:8} {seconds:12.1f}")
print(f"\n{'heaviest objects':76} {'processor s':>12}")
for seconds, name in sorted(objects, reverse=True)[:10]:
    print(f"{re.sub('CMakeFiles/|[.]dir', '', name):76} {seconds:12.1f}")
PYTHON
