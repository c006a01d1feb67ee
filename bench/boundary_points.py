#!/usr/bin/env python3
"""Points of replayed runs for the figure of `tandem-study propositions`: 24 runs of the real executor across the boundary.

Two emulated devices that are alike, at nominal pace: attention 5.25, FFN 8.75, all-reduce 7 ms, twelve layers, which is
half of what the figure's curves have. Their disks get the rates at which a token's blocks take D = C / (1 + slack), for
six slacks and four schedulers. Replayed: T, a token's time, and C, the same without the memory scheduler (all weights
resident), each from a run of its own; the stall fraction is (T - C) / T, and slack (C - D) / D with the replayed C.
Medians of the repetitions, between lowest and highest. Writes CSV with the columns that `--points` reads.

  bench/boundary_points.py --tandem build/release/bin/tandem --out bench/boundary_points.csv
"""

import argparse
import csv
import pathlib
import statistics
import tempfile

import emulated

# Weights of attention and FFN are 3 : 5, and so are their times, computing and loading.
CONFIG = emulated.llama(hidden=384, intermediate=640, layers=12)
LAYER_BYTES = 4 * (3 * 384 * 384 + 3 * 384 * 640) // 2  # of one of two devices
COMPUTE_S, REDUCE_S = 14e-3, 7e-3
SLACKS = (-0.5, -0.3, -0.1, 0.1, 0.3, 0.5)
BETWEEN = (-0.4, -0.2, -0.05, 0.05, 0.2, 0.4)
SCHEDULERS = ((1, "early", SLACKS), (2, "late", SLACKS), (3, "early", SLACKS), (4, "early", BETWEEN))
FREE_DISK = 1e12  # bytes a second


def platform(disk_Bps):
    return emulated.pair(LAYER_BYTES / COMPUTE_S, disk_Bps, REDUCE_S)


def median(values):
    return statistics.median(values)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tandem", default="build/release/bin/tandem")
    arguments.add_argument("--out", default="out/boundary_points.csv", type=pathlib.Path)
    arguments.add_argument("--tokens", default=10, type=int)
    arguments.add_argument("--repetitions", default=3, type=int)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = emulated.Bench(options.tandem, folder, CONFIG, options.tokens)
        pace = ("--emulate", "--pace", "nominal")
        without = emulated.token_time(bench.predict(bench.plan(platform(FREE_DISK), "all")))
        loaded = emulated.bytes_a_token(bench.predict(bench.plan(platform(FREE_DISK), 3)), options.tokens)
        points = [(window, release, slack) for window, release, slacks in SCHEDULERS for slack in slacks]
        predicted, token_s, replayed_without = {}, {}, []
        late_s, verdicts = {}, {}
        for repetition in range(options.repetitions):
            result = bench.run(bench.plan(platform(FREE_DISK), "all"), *pace)
            replayed_without.append(emulated.token_time(result))
            for point in points:
                window, release, slack = point
                plan = bench.plan(platform(loaded * (1.0 + slack) / without), window, release)
                if repetition == 0:
                    result = bench.predict(plan)
                    predicted[point] = emulated.token_time(result)
                    verdicts[point] = [result["steady"]["verdict"]]
                result = bench.run(plan, *pace)
                token_s.setdefault(point, []).append(emulated.token_time(result))
                late_s.setdefault(point, []).append(result["environment"]["pacing_late_mean_s"])
                verdicts[point].append(result["steady"]["verdict"])
                print(repetition, *point, f"{token_s[point][-1]:.6f}", sep="\t", flush=True)
    rows = []
    for point in points:
        window, release, slack = point
        stalls = [(t - c) / t for t, c in zip(token_s[point], replayed_without)]
        computing, loading = median(replayed_without), without / (1.0 + slack)
        rows.append({
            "window": window,
            "release": release,
            "slack": (computing - loading) / loading,
            "predicted_stall_fraction": abs(round((predicted[point] - without) / predicted[point], 9)),
            "replayed_stall_fraction": median(stalls),
            "replayed_low": min(stalls),
            "replayed_high": max(stalls),
            "repetitions": len(stalls),
            "asked_slack": slack,
            "predicted_token_s": predicted[point],
            "replayed_token_s": median(token_s[point]),
            "predicted_without_s": without,
            "replayed_without_s": computing,
            "predicted_verdict": verdicts[point][0],
            "replayed_verdicts": " ".join(verdicts[point][1:]),
            "late_mean_s": median(late_s[point]),
        })
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
