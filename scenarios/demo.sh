#!/usr/bin/env bash
# The project's main job, end to end: plan, simulate, really run, compare. Everything it makes is in
# out/demo/. NEW_TOKENS, PROFILE_SECONDS and PLATFORM (of the first part) can be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
tandem=build/release/bin/tandem
out=out/demo
platform=${PLATFORM:-scenarios/platforms/home4.xml}
new_tokens=${NEW_TOKENS:-32}
seconds=${PROFILE_SECONDS:-12}
model=scenarios/models/tandem-tiny
prompt='Ida lives in Oslo. The red lamp is in the attic. Hugo works as a baker. The best friend of Ida is Hugo. '\
'The number of the green box is seven. A dog slept near the river. Question: Where is the red lamp? Answer:'
bold=; plain=
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
mkdir -p "$out"

say "1. The devices and the network between them"
"$tandem" platform "$platform"

say "2. The model: 3 million parameters, trained to remember what it was told"
"$tandem" model inspect "$model"
"$tandem" eval --weights "$model" --limit 16

say "3. How fast is this machine? (task by task, about $seconds s)"
"$tandem" profile --model "$model" --seconds "$seconds" --out "$out/profile.json"

say "4. The plan: who computes which heads and columns"
"$tandem" plan --platform "$platform" --model "$model" --strategy tensor --profile "$out/profile.json" --partition galaxy \
  --prompt "$prompt" --new-tokens "$new_tokens" --out "$out/plan.json"

say "5. The prediction: the plan on SimGrid"
"$tandem" simulate "$out/plan.json" --out "$out/predicted.json" --trace "$out/predicted.trace.json"

say "6. The real run: one process a device, TCP between them, emulated links and speeds"
"$tandem" run "$out/plan.json" --weights "$model" --emulate --allow-drift --prompt "$prompt" \
  --ignore-eos \
  --out "$out/measured.json" --trace "$out/measured.trace.json"

say "7. Predicted against measured"
"$tandem" compare "$out/predicted.json" "$out/measured.json" --out "$out"

say "8. A witness for computing and disks: 76 million parameters, random, on three devices with little memory"
flat=scenarios/platforms/flat3.xml
big=$out/tandem-demo
[ -f "$big/config.json" ] || "$tandem" model random --config scenarios/models/tandem-demo.json --out "$big" --quiet
"$tandem" profile --model "$big" --seconds "$seconds" --disk none --out "$out/big.profile.json" --quiet
"$tandem" plan --platform "$flat" --model "$big" --profile "$out/big.profile.json" --strategy pipeline --prompt-tokens 64 \
  --new-tokens "$new_tokens" --out "$out/big.plan.json"
"$tandem" simulate "$out/big.plan.json" --out "$out/big.predicted.json" --trace "$out/big.predicted.trace.json"

say "9. Its real run (what random weights say is noise, not shown), and both side by side"
seq 1 64 > "$out/big.ids"
"$tandem" run "$out/big.plan.json" --weights "$big" --emulate --allow-drift --prompt-ids "$out/big.ids" --ignore-eos \
  --out "$out/big.measured.json" --trace "$out/big.measured.trace.json" > /dev/null
"$tandem" compare "$out/big.predicted.json" "$out/big.measured.json" --out "$out/big"
cat <<TEXT

Figures:   $out/compare.png, $out/big/compare.png (and .svg)
Tables:    $out/compare.csv, $out/big/compare.csv
Timelines: $out/trace.json, $out/big/trace.json (open them at https://ui.perfetto.dev)
TEXT
