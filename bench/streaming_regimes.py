#!/usr/bin/env python3
"""What the memory scheduler costs a token where theory says: all of the disk, or nothing.

Each line is a ratio of two times of the same repetition, so that a machine whose speed drifts changes neither; medians
of the repetitions, between lowest and highest. Nothing here passes or fails.

  disk-bound, real disk   one device, not emulated: token time / (bytes read a token / disk rate), the rate of the same
                          run's reads: bytes loaded / time that the disk was busy.
  disk-bound, emulated    replayed: two devices, disks half as fast as the steady state needs: the same, rate as emulated.
  steady, nominal pace    replayed: two devices, disks half as fast again as needed: token time / that without the scheduler.
  steady, measured pace   one device, its real computing slowed 8 times: the same.

  bench/streaming_regimes.py --tandem build/release/bin/tandem --out out/bench/streaming_regimes.json
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import emulated

WINDOW = 4
FREE_DISK = 1e12
SLACK = 0.5  # of the disks, beyond or below what the steady state needs
SLOWDOWN = 8.0
REDUCE_S = 7e-3


class Regimes:
    def __init__(self, tandem, folder, smoke):
        self.smoke = smoke
        tokens = 6 if smoke else 12
        layers = 2 if smoke else 12
        small = emulated.llama(hidden=384, intermediate=640, layers=layers)
        self.two = emulated.Bench(tandem, folder / "two", small, tokens)
        large = small if smoke else emulated.llama(hidden=1024, intermediate=2816, layers=layers)
        self.one = emulated.Bench(tandem, folder / "one", large, tokens)
        self.memory_Bps = 4 * 3 * 384 * (384 + 640) / 2 / 14e-3  # a layer of one of two takes 14 ms
        plan = self.two.plan(self.pair(FREE_DISK), WINDOW)
        predicted = self.two.predict(plan)
        # Bytes a second at which loading a token takes as long as the rest of it.
        self.needed_Bps = emulated.bytes_a_token(predicted, tokens) / emulated.token_time(predicted)

    def pair(self, disk_Bps):
        return emulated.pair(self.memory_Bps, disk_Bps, REDUCE_S)

    def disk_bound_real(self):
        plan = self.one.plan(emulated.alone(FREE_DISK, 1.0), WINDOW)
        result = self.one.run(plan)
        device = result["devices"][0]
        rate = device["bytes_loaded"] / device["busy_s"]["disk"]
        return emulated.token_time(result) * rate / emulated.bytes_a_token(result, self.one.tokens)

    def disk_bound_emulated(self):
        rate = self.needed_Bps * (1.0 - SLACK)
        result = self.two.run(self.two.plan(self.pair(rate), WINDOW), "--emulate", "--pace", "nominal")
        return emulated.token_time(result) * rate / emulated.bytes_a_token(result, self.two.tokens)

    def steady_nominal(self):
        pace = ("--emulate", "--pace", "nominal")
        platform = self.pair(self.needed_Bps * (1.0 + SLACK))
        without = emulated.token_time(self.two.run(self.two.plan(platform, "all"), *pace))
        return emulated.token_time(self.two.run(self.two.plan(platform, WINDOW), *pace)) / without

    def steady_measured(self):
        pace = ("--emulate", "--allow-drift")
        without = emulated.token_time(
            self.one.run(self.one.plan(emulated.alone(FREE_DISK, SLOWDOWN), "all"), *pace))
        plan = self.one.plan(emulated.alone(FREE_DISK, SLOWDOWN), WINDOW)
        loaded = emulated.bytes_a_token(self.one.predict(plan), self.one.tokens)
        plan = self.one.plan(emulated.alone(loaded / without * (1.0 + SLACK), SLOWDOWN), WINDOW)
        return emulated.token_time(self.one.run(plan, *pace)) / without

    def cases(self):
        return {
            "disk-bound, real disk": self.disk_bound_real,
            "disk-bound, emulated": self.disk_bound_emulated,
            "steady, nominal pace": self.steady_nominal,
            "steady, measured pace": self.steady_measured,
        }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tandem", default="build/release/bin/tandem", type=pathlib.Path)
    arguments.add_argument("--out", default="out/bench/streaming_regimes.json", type=pathlib.Path)
    arguments.add_argument("--repetitions", default=5, type=int)
    arguments.add_argument("--smoke", action="store_true", help="each case once, briefly, to see that it runs")
    options = arguments.parse_args()
    ratios = {}
    # Not in /tmp, which may be memory: the disk is what is measured.
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out.parent) as folder:
        regimes = Regimes(options.tandem.resolve(), pathlib.Path(folder).resolve(), options.smoke)
        for _ in range(1 if options.smoke else options.repetitions):
            for name, case in regimes.cases().items():
                ratios.setdefault(name, []).append(case())
                print(f"{name}: {ratios[name][-1]:.3f}", file=sys.stderr, flush=True)
    print(f"{'regime':<24}{'median':>8}{'lowest':>8}{'highest':>8}{'repetitions':>13}")
    for name, values in ratios.items():
        print(f"{name:<24}{statistics.median(values):>8.3f}{min(values):>8.3f}{max(values):>8.3f}{len(values):>13}")
    options.out.write_text(json.dumps(ratios, indent=2) + "\n")


if __name__ == "__main__":
    main()
