"""Requests at rates of arrival, predicted and measured: writes FOLDER/rates.csv, .png and .svg.

    service_rates.py TANDEM FOLDER [--goal GOAL] [--requests N] [--profile FILE]

A trace for tandem-tiny on two emulated devices of home4 at measured pace. Each policy is predicted by `tandem simulate
--goal`; the trace, stretched to 30, 50 and 80% of its highest rate, is then run with real arrivals. `static` is left out,
as a run of a trace knows what will arrive and waits for it. Run it on an idle machine: the load is printed.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import subprocess

FRACTIONS = (0.3, 0.5, 0.8)
POLICIES = ("sequential", "continuous")


def quantile(values, q):
    values = sorted(v for v in values if v is not None and math.isfinite(v))
    if not values:
        return math.nan
    place = q * (len(values) - 1)
    low = math.floor(place)
    return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def point(result, goal):
    """What `tandem simulate --goal` has of a rate, from the result of a run."""
    requests = result["requests"]
    ttft = [r["ttft_s"] for r in requests]
    latency = [r["token_latency_s"]["mean"] for r in requests]
    within = sum(
        (goal["ttft_s"] is None or t <= goal["ttft_s"])
        and (goal["token_latency_s"] is None or g is None or g <= goal["token_latency_s"])
        for t, g in zip(ttft, latency))
    first = min(r["arrival_s"] for r in requests)
    end = max(r["end_s"] for r in requests)
    queueing = [r["queueing_s"] for r in requests]
    row = {"within_goal": within / len(requests), "goodput_per_s": within / (end - first),
           "throughput_tokens_per_s": result["metrics"]["throughput_tokens_per_s"]}
    for name, values in (("ttft", ttft), ("token_latency", latency), ("queueing", queueing)):
        row[f"{name}_p50_s"], row[f"{name}_p90_s"] = quantile(values, 0.5), quantile(values, 0.9)
    return row


class Bench:
    def __init__(self, tandem, folder):
        self.tandem, self.folder = tandem, folder

    def do(self, *words):
        done = subprocess.run([self.tandem, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")

    def read(self, name):
        return json.loads((self.folder / name).read_text())

    def stretched(self, rate):
        requests = [json.loads(line) for line in (self.folder / "trace.jsonl").read_text().splitlines()]
        first = requests[0]["arrival_s"]
        own = (len(requests) - 1) / (requests[-1]["arrival_s"] - first)
        for request in requests:
            request["arrival_s"] = (request["arrival_s"] - first) * own / rate
        (self.folder / "stretched.jsonl").write_text("".join(json.dumps(r) + "\n" for r in requests))

    def times(self, command, policy, more):
        self.do(command, "plan.json", "--workload", "stretched.jsonl", "--policy", policy, "--quiet", "--out",
                f"{command}.json", *more)
        return self.read(f"{command}.json")


def deviations(predicted, measured):
    for key in ("ttft_s", "end_s"):
        pairs = [(p[key] - (p["arrival_s"] if key == "end_s" else 0), m[key] - (m["arrival_s"] if key == "end_s" else 0))
                 for p, m in zip(predicted["requests"], measured["requests"])]
        yield quantile([abs(p / m - 1) for p, m in pairs], 0.5), quantile([abs(p / m - 1) for p, m in pairs], 0.95)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tandem", type=lambda name: str(pathlib.Path(name).resolve()))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--goal", default="ttft=1s,latency=80ms")
    parser.add_argument("--requests", default="40")
    parser.add_argument("--profile", help="of this machine [measured now]", type=lambda name: str(pathlib.Path(name).resolve()))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.tandem, options.folder)
    profile = options.profile or "here.profile.json"
    if not options.profile:
        bench.do("profile", "--model", "tandem-tiny", "--disk", "none", "--out", profile, "--quiet")
    bench.do("workload", "--requests", options.requests, "--rate", "2", "--prompt-tokens", "100:300", "--new-tokens", "30:80",
             "--model", "tandem-tiny", "--ids", "--out", "trace.jsonl")
    bench.do("plan", "--platform", "home4", "--devices", "desktop,laptop", "--model", "tandem-tiny", "--strategy", "tensor",
             "--partition", "equal", "--profile", profile, "--workload", "trace.jsonl", "--chunk", "64", "--out", "plan.json",
             "--quiet")
    print(f"load at the beginning: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    bench.do("simulate", "plan.json", "--goal", options.goal, "--policy", "all", "--out", "rates.json", "--figure", "rates", "--quiet")
    rates = bench.read("rates.json")
    with (options.folder / "rates.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for policy in rates["policies"]:
        highest = policy["highest_rate_per_s"]
        print(f"{policy['policy']}: highest rate {highest}", flush=True)
        if policy["policy"] not in POLICIES or highest is None or policy["fails_at_per_s"] is None:
            continue
        for fraction in FRACTIONS:
            bench.stretched(fraction * highest)
            predicted = bench.times("simulate", policy["policy"], [])
            try:
                measured = bench.times("run", policy["policy"], ["--weights", "tandem-tiny", "--emulate", "--allow-drift"])
            except RuntimeError as error:  # a device that a busy machine left silent
                print(f"  {100 * fraction:.0f}%: left out: {error}", flush=True)
                continue
            row = {"kind": "measured", "policy": policy["policy"], "rate_per_s": fraction * highest,
                   **point(measured, rates["goal"]), "goal_ttft_s": rates["goal"]["ttft_s"],
                   "goal_token_latency_s": rates["goal"]["token_latency_s"], "goal_share": rates["goal"]["share"]}
            rows.append({key: "" if value is None else value for key, value in row.items()})
            ours = point(predicted, rates["goal"])
            (ttft, ttft95), (request, request95) = deviations(predicted, measured)
            print(f"  {100 * fraction:.0f}%: {fraction * highest:.3f}/s, within {ours['within_goal']:.2f} predicted, "
                  f"{row['within_goal']:.2f} measured; first token p90 {ours['ttft_p90_s']:.3f} s, {row['ttft_p90_s']:.3f} s; "
                  f"deviation of first tokens {100 * ttft:.1f}% (p95 {100 * ttft95:.1f}%), of requests {100 * request:.1f}% "
                  f"(p95 {100 * request95:.1f}%); load {os.getloadavg()[0]:.1f}", flush=True)
    with (options.folder / "rates.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    plot = pathlib.Path(__file__).resolve().parent.parent / "plots" / "rates.py"
    subprocess.run(["/usr/bin/python3", "-B", str(plot), str(options.folder / "rates.csv"), str(options.folder / "rates")], check=True)


if __name__ == "__main__":
    main()
