#!/usr/bin/env bash
# The project's main job, end to end: plan, simulate, really run, compare. Everything it makes is in
# out/demo/. NEW_TOKENS, PROFILE_SECONDS and PLATFORM can be set in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
tandem=build/release/bin/tandem
out=out/demo
platform=${PLATFORM:-scenarios/platforms/home4.xml}
new_tokens=${NEW_TOKENS:-32}
seconds=${PROFILE_SECONDS:-20}
model=scenarios/models/tandem-tiny
prompt='Ida lives in Oslo. The red lamp is in the attic. Hugo works as a baker. The best friend of Ida is Hugo. '\
'The number of the green box is seven. A dog slept near the river. Question: Where is the red lamp? Answer:'
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
mkdir -p "$out"

say "1. The devices and the network between them"
"$tandem" platform "$platform"

say "2. The model: 3 million parameters, trained to remember what it was told"
"$tandem" model inspect "$model"
"$tandem" eval --weights "$model" --limit 16

say "3. How fast is this machine? (task by task, about $seconds s)"
"$tandem" profile --model "$model" --seconds "$seconds" --out "$out/profile.json"

say "4. The plan: who computes which heads and columns"
"$tandem" plan --platform "$platform" --model "$model" --profile "$out/profile.json" --partition galaxy \
  --prompt "$prompt" --new-tokens "$new_tokens" --out "$out/plan.json"

say "5. The prediction: the plan on SimGrid"
"$tandem" simulate "$out/plan.json" --out "$out/predicted.json" --trace "$out/predicted.trace.json"

say "6. The real run: one process a device, TCP between them, emulated links and speeds"
"$tandem" run "$out/plan.json" --weights "$model" --emulate --allow-drift --prompt "$prompt" \
  --ignore-eos \
  --out "$out/measured.json" --trace "$out/measured.trace.json"

say "7. Predicted against measured"
"$tandem" compare "$out/predicted.json" "$out/measured.json" --out "$out"
cat <<TEXT

Figure:    $out/compare.png, $out/compare.svg
Table:     $out/compare.csv
Timeline:  $out/trace.json (open it at https://ui.perfetto.dev)
TEXT
