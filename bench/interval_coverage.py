#!/usr/bin/env python3
"""How often a predicted interval of 90% has the time that a run on the same machine then takes, and how wide it is.

    bench/interval_coverage.py --tandem build/release/bin/tandem --folder out/coverage --pairs 20

For each pair: `tandem profile`, a plan for one device, its prediction, and runs of random weights, with as many threads as the
plan's profile; nothing is emulated. Models of a few layers, formats and numbers of threads take turns. Prints a line a pair, and
in the end, for the time to first token, the mean token latency and the whole request:

    coverage    runs within the interval, with the 95% interval of the proportion (Clopper and Pearson, 1934). Runs of one pair
                share a profile, so it is also given by pairs: of each the run in the middle.
    half-width  half of the interval's width by the predicted time, median and 90th percentile over the pairs
    calibration ln(measured / predicted): mean and standard deviation over the pairs' medians, from which the constants of
                model/predict/deviation.cpp come
"""

import argparse
import json
import math
import statistics

import emulated

MODELS = {  # hidden, intermediate, layers: 60 to 800 MB in f32
    "narrow": (1024, 2816, 4),
    "wide": (2048, 5632, 4),
    "deep": (1024, 4096, 12),
}
FORMATS = ["f32", "q8_0", "q4_0", "q4_k"]


def at_most(successes, trials, p):
    """The probability of at most so many successes."""
    return sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes + 1))


def solve(falls_below, low=0.0, high=1.0):
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if falls_below(middle) else (middle, high)
    return (low + high) / 2


def clopper_pearson(successes, trials, alpha=0.05):
    low = 0.0 if successes == 0 else solve(lambda p: 1 - at_most(successes - 1, trials, p) > alpha / 2)
    high = 1.0 if successes == trials else solve(lambda p: at_most(successes, trials, p) < alpha / 2)
    return low, high


def percentile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def times(result):
    metrics, request = result["metrics"], result["requests"][0]
    return {"first token": metrics["ttft_s"], "token": metrics["token_latency_s"]["mean"], "request": request["end_s"]}


def intervals(result):
    of_metrics, of_request = result["metrics"]["interval_90"], result["requests"][0]["interval_90"]
    return {"first token": of_metrics["ttft_s"], "token": of_metrics["token_latency_s"]["mean"], "request": of_request["end_s"]}


class Coverage(emulated.Geometries):
    def __init__(self, given):
        super().__init__(given.tandem, given.folder, None)
        self.given, self.pairs = given, []

    def model(self, name):
        folder = self.folder / name
        if not (folder / "config.json").exists():
            config = self.folder / f"{name}.json"
            config.write_text(json.dumps(emulated.llama(*MODELS[name])))
            self.call("model", "random", "--config", config, "--out", folder, "--quiet")
        return folder

    def pair(self, name, dtype, threads):
        given, weights = self.given, self.model(name)
        files = {key: self.folder / f"{key}.json" for key in ("profile", "plan", "predicted", "measured")}
        formats = [] if dtype == "f32" else ["--dtype", dtype]
        self.call("profile", "--model", weights, *formats, "--threads", threads, "--seconds", given.seconds, "--disk", "none",
                  "--out", files["profile"], "--quiet")
        self.call("plan", "--platform", "single", "--model", weights, "--dtype", dtype, "--strategy", "local", "--cache-type", "f32", "--profile",
                  files["profile"], "--prompt-tokens", given.prompt_tokens, "--new-tokens", given.new_tokens, "--out", files["plan"],
                  "--quiet")
        self.call("simulate", files["plan"], "--out", files["predicted"], "--quiet")
        predicted = json.loads(files["predicted"].read_text())
        runs = []
        for _ in range(given.runs):
            self.call("run", files["plan"], "--weights", weights, "--prompt-ids", self.ids(), "--ignore-eos", "--quiet", "--out",
                      files["measured"])
            runs.append(times(json.loads(files["measured"].read_text())))
        self.pairs.append((times(predicted), intervals(predicted), runs))
        self.print_pair(name, dtype, threads)

    def ids(self):
        path = self.folder / "prompt.txt"
        path.write_text(" ".join(str(token % 30 + 1) for token in range(self.given.prompt_tokens)) + "\n")
        return path

    def print_pair(self, name, dtype, threads):
        predicted, interval, runs = self.pairs[-1]
        cells = []
        for key in predicted:
            low, high = interval[key]
            measured = sorted(run[key] for run in runs)
            within = sum(low <= time <= high for time in measured)
            cells.append(f"{1e3 * predicted[key]:.1f} ({1e3 * low:.1f} to {1e3 * high:.1f}) | "
                         f"{1e3 * statistics.median(measured):.1f} | {within} of {len(measured)}")
        print(f"| {name} | {dtype} | {threads} | " + " | ".join(cells) + " |", flush=True)

    def summary(self):
        print("\n| time | runs within | pairs within | half-width, median | p90 | ln(measured / predicted) |")
        print("|---|---|---|---|---|---|")
        for key in self.pairs[0][0]:
            runs = [interval[key][0] <= run[key] <= interval[key][1] for _, interval, all_runs in self.pairs for run in all_runs]
            middles, off = [], []
            for predicted, interval, all_runs in self.pairs:
                middle = statistics.median_low([run[key] for run in all_runs])
                middles.append(interval[key][0] <= middle <= interval[key][1])
                off.append(math.log(middle / predicted[key]))
            widths = [(interval[key][1] - interval[key][0]) / 2 / predicted[key] for predicted, interval, _ in self.pairs]
            spread = f"{statistics.mean(off):+.3f}, sd {statistics.pstdev(off):.3f}"
            print(f"| {key} | {proportion(runs)} | {proportion(middles)} | {100 * percentile(widths, 0.5):.1f}% | "
                  f"{100 * percentile(widths, 0.9):.1f}% | {spread} |")


def proportion(within):
    low, high = clopper_pearson(sum(within), len(within))
    return f"{100 * sum(within) / len(within):.0f}% ({100 * low:.0f} to {100 * high:.0f}) of {len(within)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/release/bin/tandem")
    parser.add_argument("--folder", default="out/coverage")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--runs", type=int, default=3, help="of each plan")
    parser.add_argument("--seconds", type=float, default=25.0, help="of a profile")
    parser.add_argument("--threads", type=int, action="append", help="one or several numbers [1]")
    parser.add_argument("--prompt-tokens", type=int, default=96)
    parser.add_argument("--new-tokens", type=int, default=32)
    given = parser.parse_args()
    coverage = Coverage(given)
    print("| model | format | threads | first token, ms | measured | within | token | measured | within | request | measured | within |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    threads = given.threads or [1]
    for i in range(given.pairs):
        names = list(MODELS)
        coverage.pair(names[i % len(names)], FORMATS[i % len(FORMATS)], threads[i % len(threads)])
    coverage.summary()


if __name__ == "__main__":
    main()
