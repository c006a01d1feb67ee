#!/usr/bin/env python3
"""tandem beside llama.cpp, of the same GGUF files, in turns: tokens a second, prompts, first token, memory.

    llama_peer.py --tandem build/release/bin/tandem --libraries LIBRARIES --folder out/llama [--config tinyllama-1.1b]
                  [--forms f32,f16,bf16,q8_0,q4_0,q4_k] [--prompts 128,512] [--new-tokens 128] [--rounds 5] [--threads 2]

LIBRARIES is a folder with llama.cpp's shared libraries, as of tests/llama/check_llama.py. Makes models of random weights in
FOLDER, once; ids are the same for both. llama.cpp runs with its own defaults (cache in F16, flash attention, files mapped,
weights repacked where it does that) and greedy tokens, each run a process of its own, as tandem's. Its clock begins behind Python's start and
imports, tandem's with the command. The median of few new tokens may be that of steps in which weights move (decision 0042). Prints medians, the spread of the ratio over rounds, and ratios above 1 where tandem is better.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "llama"))

# What is told of a run: its name, whether more is better.
FIGURES = {"first token, s": False, "prompt, tokens/s": True, "new tokens/s": True, "peak memory, GB": False}


def ids_of(count):
    return [7 + i for i in range(count)]


def theirs(arguments):
    """One run of llama.cpp in this process; prints its figures as JSON."""
    from check_llama import Llama
    begin = time.monotonic()
    llama = Llama(arguments.libraries)
    model = llama.model(arguments.file)
    prompt = arguments.prompt
    context = llama.lib.llama_init_from_model(model, llama.context_parameters(
        prompt + arguments.new_tokens, arguments.threads, exact=False))
    vocabulary = arguments.vocabulary

    def best(row):
        values = row[:vocabulary]
        return values.index(max(values))

    passed = time.monotonic()
    token = best(llama.decode(context, ids_of(prompt)))
    first = time.monotonic()
    latencies = []
    for _ in range(arguments.new_tokens - 1):
        start = time.monotonic()
        row = llama.decode(context, [token])
        latencies.append(time.monotonic() - start)  # Python's search for the best is not llama.cpp's
        token = best(row)
    print(json.dumps({"first token, s": first - begin, "prompt, tokens/s": prompt / (first - passed),
                      "new tokens/s": 1 / statistics.median(latencies),
                      "peak memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", type=pathlib.Path)
    parser.add_argument("--libraries", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--config", default="tinyllama-1.1b")
    parser.add_argument("--forms", default="f32,f16,bf16,q8_0,q4_0,q4_k")
    parser.add_argument("--prompts", default="128,512")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--map", action="store_true", help="tandem maps its file, too")
    parser.add_argument("--file", type=pathlib.Path, help=argparse.SUPPRESS)  # one run of llama.cpp
    parser.add_argument("--prompt", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--vocabulary", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file:
        theirs(arguments)
        return
    if not arguments.tandem or not arguments.folder:
        parser.error("--tandem and --folder are needed")
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)

    def call(*words):
        subprocess.run([str(arguments.tandem), *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    vocabulary = json.loads((ROOT / "scenarios" / "models" / f"{arguments.config}.json").read_text())["vocab_size"]

    def made(form):
        file = folder / f"{arguments.config}-{form}.gguf"
        if not file.exists():
            weights = folder / f"{arguments.config}-f32"
            if not weights.exists():
                call("model", "random", "--config", arguments.config, "--out", weights, "--quiet")
            call("model", "convert", "--weights", weights, "--out", file, "--dtype", form, "--quiet")
        return file

    def ours(file, prompt):
        ids, out = folder / "prompt.txt", folder / "result.json"
        ids.write_text(" ".join(map(str, ids_of(prompt))) + "\n")
        call("run", "--weights", file, "--prompt-ids", ids, "--new-tokens", arguments.new_tokens, "--ignore-eos", "--threads",
             arguments.threads, "--cache", folder / "cache", "--out", out, "--quiet", *(["--map"] if arguments.map else []))
        result = json.loads(out.read_text())
        metrics = result["metrics"]
        return {"first token, s": metrics["ready_s"] + metrics["ttft_s"], "prompt, tokens/s": prompt / metrics["ttft_s"],
                "new tokens/s": 1 / metrics["token_latency_s"]["p50"],
                "peak memory, GB": sum(d["peak_memory_bytes"]["total"] for d in result["devices"]) / 1e9}

    def peer(file, prompt):
        words = [sys.executable, __file__, "--libraries", arguments.libraries, "--file", file, "--prompt", prompt, "--vocabulary",
                 vocabulary, "--new-tokens", arguments.new_tokens, "--threads", arguments.threads]
        return json.loads(subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout)

    print("| weights, prompt | | tandem | llama.cpp | ratio | of rounds |\n|---|---|---|---|---|---|")
    for form in arguments.forms.split(","):
        file = made(form)
        for prompt in map(int, arguments.prompts.split(",")):
            rounds = []
            for i in range(arguments.rounds + 1):
                pair = (ours(file, prompt), peer(file, prompt)) if i % 2 else (peer(file, prompt), ours(file, prompt))[::-1]
                if i > 0:  # the first brings files into the page cache
                    rounds.append(pair)
            for figure, more in FIGURES.items():
                mine, other = ([pair[k][figure] for pair in rounds] for k in (0, 1))
                ratios = [a / b if more else b / a for a, b in zip(mine, other)]
                print(f"| {form}, {prompt} | {figure} | {statistics.median(mine):.3g} | {statistics.median(other):.3g} | "
                      f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
