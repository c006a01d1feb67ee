#!/usr/bin/env python3
"""Predicted beside measured on this machine as it is: the default profile, then a run, for pairs of model and format.

    bench/one_machine.py --tandem build/release/bin/tandem --folder out/one-machine \\
        --model tinyllama-1.1b --dtype f32 --dtype q8_0

For each pair: `tandem profile` with its defaults, a plan for one device, its prediction, and runs of random weights, with
as many threads as the plan's profile. Nothing is emulated. Prints one line a pair: medians and the range of the runs.
"""

import argparse
import json
import statistics

import emulated


class OneMachine(emulated.Geometries):
    def compared(self, model, dtype, prompt, tokens, runs):
        name = f"{model}-{dtype}"
        files = {key: self.folder / f"{name}.{key}.json" for key in ("profile", "plan", "predicted", "measured")}
        formats = [] if dtype == "f32" else ["--dtype", dtype]
        self.call("profile", "--model", model, *formats, "--out", files["profile"], "--quiet")
        self.call("plan", "--platform", "single", "--model", self.weights(model), "--dtype", dtype, "--strategy", "local",
                  "--cache-type", "f32", "--profile", files["profile"], "--prompt-tokens", prompt, "--new-tokens", tokens, "--out", files["plan"],
                  "--quiet")
        self.call("simulate", files["plan"], "--out", files["predicted"], "--quiet")
        measured = []
        for _ in range(runs):
            self.call("run", files["plan"], "--weights", self.weights(model), "--prompt-ids", self.prompt_ids(prompt), "--ignore-eos", "--quiet",
                      "--out", files["measured"])
            measured.append(json.loads(files["measured"].read_text()))
        predicted = json.loads(files["predicted"].read_text())
        print(f"| {model} | {dtype} | {measured[0]['environment']['threads']} "
              + "".join(line(predicted, measured, of) for of in (ttft_s, token_s)) + "|", flush=True)


def ttft_s(result):
    return result["metrics"]["ttft_s"]


def token_s(result):
    return result["metrics"]["token_latency_s"]["mean"]


def line(predicted, measured, of):
    times = sorted(of(result) for result in measured)
    median = statistics.median(times)
    off = of(predicted) / median - 1.0
    return f"| {1e3 * of(predicted):.1f} | {1e3 * median:.1f} ({1e3 * times[0]:.1f} to {1e3 * times[-1]:.1f}) | {100 * off:+.1f}% "


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/release/bin/tandem")
    parser.add_argument("--folder", default="out/one-machine")
    parser.add_argument("--model", action="append", required=True, help="a name of scenarios/models")
    parser.add_argument("--dtype", action="append", required=True)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    machine = OneMachine(given.tandem, given.folder, None)
    print("| model | format | threads | TTFT predicted, ms | measured | off | token predicted, ms | measured | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in given.model:
        for dtype in given.dtype:
            machine.compared(model, dtype, given.prompt_tokens, given.new_tokens, given.runs)


if __name__ == "__main__":
    main()
