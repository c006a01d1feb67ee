#!/usr/bin/env python3
"""How good the answer of `tandem plan --strategy auto` is after 2 s, 10 s and to the end, and how long that takes.

    search.py --tandem build/release/bin/tandem [--limits 2,10,0] [--case NAME] [--timeout 900]

Prints one row a case and limit: wall and processor time, evaluations, the predicted objective, how much longer that is
than the best of the case's rows, and how much could be gained by the bound (docs/explanation/search.md).
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time

CASES = {
    "klonet8-70b": "--platform klonet8 --model llama-3.1-70b --dtype q4_k_m --prompt-tokens 256 --new-tokens 128",
    "shelf4-gemma": "--platform shelf4 --model gemma-3-1b --dtype f16 --prompt-tokens 200 --new-tokens 32 --objective ttft",
    "a100-8x8-70b": "--platform a100-8x8 --model llama-3.1-70b --dtype f16",
    "home4-tinyllama": "--platform home4 --model tinyllama-1.1b --dtype q4_0 --prompt-tokens 512 --new-tokens 128",
}


def measured(tandem, words, seconds, timeout):
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/plan.json"
        command = [tandem, "plan", *words.split(), "--seconds", seconds, "--json", "--out", plan]
        return timed(command, timeout)


def timed(command, timeout):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, processor, json.loads(done.stdout)["choice"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--limits", default="2,10,0", help="seconds; 0: to the end")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds of a search to the end")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"{'case':16} {'limit':>5} {'wall_s':>7} {'cpu_s':>7} {'evaluations':>11} {'strategy':9} {'best_s':>9} {'behind':>7} {'gain':>5}")
    for name in arguments.case or CASES:
        rows = []
        for limit in arguments.limits.split(","):
            found = measured(arguments.tandem, CASES[name], limit, arguments.timeout)
            rows.append((limit, found))
        objective = {"request": "request_s", "ttft": "ttft_s"}
        bests = [found[2]["contenders"][0][objective[found[2]["objective"]]] for _, found in rows if found]
        for limit, found in rows:
            if not found:
                print(f"{name:16} {limit:>5} more than {arguments.timeout:.0f} s")
                continue
            wall, processor, choice = found
            best = choice["contenders"][0]
            seconds = best[objective[choice["objective"]]]
            bound = choice["lower_bound_s"]
            gain = f"{100 * (1 - bound / seconds):.0f}%" if bound else "-"
            print(f"{name:16} {limit:>5} {wall:7.1f} {processor:7.1f} {choice['evaluations']:11} {best['strategy']:9} "
                  f"{seconds:9.4g} {100 * (seconds / min(bests) - 1):6.1f}% {gain:>5}", flush=True)


if __name__ == "__main__":
    main()
