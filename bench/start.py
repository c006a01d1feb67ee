#!/usr/bin/env python3
"""Time from the command to the first token, files in the page cache: weights mapped and copied, in turns.

    start.py --tandem build/release/bin/tandem --folder out/start [--config tinyllama-1.1b] [--form f32|f16|bf16|q8_0|...]
             [--rounds 5] [--threads N] [--prompt 8]

Makes a model of random weights in FOLDER, once: a folder for F32, F16 and BF16, else a GGUF file. Prints medians and their ratio of:
the first token (`ready_s` + `ttft_s` of the result, which begin with the command), the whole process, new tokens a second.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--config", default="tinyllama-1.1b")
    parser.add_argument("--form", default="q8_0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=8, help="tokens")
    parser.add_argument("--new-tokens", type=int, default=8)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)

    def call(*words):
        subprocess.run([str(arguments.tandem), *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    plain = arguments.form in ("f32", "f16", "bf16")
    stored = arguments.form if plain else "f16"
    weights = folder / f"{arguments.config}-{stored}"
    file = folder / f"{arguments.config}-{arguments.form}.gguf"
    if not weights.exists() and (plain or not file.exists()):
        call("model", "random", "--config", arguments.config, "--out", weights, "--dtype", stored.upper(), "--quiet")
    if not plain:
        if not file.exists():
            call("model", "convert", "--weights", weights, "--out", file, "--dtype", arguments.form, "--quiet")
        weights = file
    files = [weights] if weights.is_file() else sorted(weights.glob("*.safetensors"))
    gigabytes = sum(file.stat().st_size for file in files) / 1e9
    ids = folder / "prompt.txt"
    ids.write_text(" ".join(str(7 + i) for i in range(arguments.prompt)) + "\n")

    def first_token(*more):
        out = folder / "result.json"
        begin = time.monotonic()
        call("run", "--weights", weights, "--prompt-ids", ids, "--new-tokens", arguments.new_tokens, "--ignore-eos", "--threads",
             arguments.threads, "--cache", folder / "cache", "--out", out, "--quiet", *more)
        process = time.monotonic() - begin
        metrics = json.loads(out.read_text())["metrics"]
        return {"first token, s": metrics["ready_s"] + metrics["ttft_s"], "of that the pass, s": metrics["ttft_s"],
                "process, s": process, "a new token, ms": 1e3 * metrics["token_latency_s"]["p50"]}

    kinds = {"copied": [], "mapped": ["--map"], "mapped, every number looked at": ["--map", "--verify"]}
    times = {name: [] for name in kinds}
    for file in files:  # into the page cache
        subprocess.run(["cat", str(file)], check=True, stdout=subprocess.DEVNULL)
    for name, flags in kinds.items():
        first_token(*flags)
    for _ in range(arguments.rounds):
        for name, flags in kinds.items():
            times[name].append(first_token(*flags))
    print(f"{arguments.config} {arguments.form}, {gigabytes:.2f} GB, {arguments.threads} threads, prompt of {arguments.prompt}; "
          f"medians of {arguments.rounds} (least to most); ratio to copied")
    for what in times["copied"][0]:
        base = statistics.median(one[what] for one in times["copied"])
        for name in kinds:
            all_of = [one[what] for one in times[name]]
            middle = statistics.median(all_of)
            print(f"{what:24} {name:32} {middle:9.3f} ({min(all_of):.3f} to {max(all_of):.3f})  {middle / base:.2f}")


if __name__ == "__main__":
    main()
