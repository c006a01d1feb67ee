#!/usr/bin/env python3
"""Measured points for the boundary of `tandem propositions`: 24 runs of the real executor across it.

Two emulated devices at nominal pace; the disks of both are given the bandwidth at which loading a token's
blocks takes C / (1 + slack), for slack from -50% to +50% and several windows and release rules; C is what
a token takes with a disk that costs nothing. Writes CSV with the columns that `--points` reads.

  bench/boundary_points.py --tandem build/release/bin/tandem --out out/boundary_points.csv
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="pair" routing="DijkstraCache">
{hosts}
    <router id="switch"/>
{links}
{routes}
  </zone>
</platform>
"""
HOST = """    <host id="{name}" speed="2Gf" core="1">
      <prop id="tandem:memory" value="1GiB"/>
      <prop id="tandem:memory_bandwidth" value="200MBps"/>
      <prop id="tandem:slowdown" value="4"/>
      <prop id="tandem:disk_bandwidth" value="{disk:.0f}Bps"/>
    </host>"""
LINK = """    <link id="port-{name}" bandwidth="1Gbps" latency="1ms" sharing_policy="SPLITDUPLEX"/>"""
ROUTE = """    <route src="{name}" dst="switch"><link_ctn id="port-{name}" direction="UP"/></route>"""
NAMES = ("left", "right")
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
    "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
}
SCHEDULERS = ((2, "late"), (2, "early"), (3, "early"), (4, "early"))
SLACKS = (-0.5, -0.3, -0.1, 0.1, 0.3, 0.5)
FREE_DISK = 1e12  # bytes a second


class Bench:
    def __init__(self, tandem, folder, tokens):
        self.tandem, self.folder, self.tokens = tandem, folder, tokens
        (folder / "config.json").write_text(json.dumps(CONFIG))
        self.weights = folder / "weights"
        self.call("model", "random", "--config", folder / "config.json", "--out", self.weights)

    def call(self, *words):
        done = subprocess.run([self.tandem, *map(str, words), "--quiet"], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"tandem {words[0]}: exit code {done.returncode}: {done.stderr.strip()}")

    def plan(self, window, release, disk):
        hosts = "\n".join(HOST.format(name=name, disk=disk) for name in NAMES)
        links = "\n".join(LINK.format(name=name) for name in NAMES)
        routes = "\n".join(ROUTE.format(name=name) for name in NAMES)
        platform, plan = self.folder / "pair.xml", self.folder / "plan.json"
        platform.write_text(PLATFORM.format(hosts=hosts, links=links, routes=routes))
        self.call("plan", "--platform", platform, "--model", self.weights, "--partition", "equal",
                  "--prompt-tokens", 8, "--new-tokens", self.tokens, "--window", window,
                  "--retain", "none", "--release", release, "--out", plan)
        return plan

    def result(self, *words):
        out = self.folder / "result.json"
        self.call(*words, "--out", out)
        return json.loads(out.read_text())

    def predict(self, plan):
        return self.result("simulate", plan)

    def measure(self, plan):
        return self.result("run", plan, "--weights", self.weights, "--cache", self.folder / "cache",
                           "--emulate", "--pace", "nominal", "--ignore-eos")


def token_time(result):
    """Mean of the second half of the gaps between tokens: the start-up is over."""
    times = result["metrics"]["token_times_s"]
    half = len(times) // 2
    return (times[-1] - times[half]) / (len(times) - 1 - half)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tandem", default="build/release/bin/tandem")
    arguments.add_argument("--out", default="out/boundary_points.csv", type=pathlib.Path)
    arguments.add_argument("--tokens", default=20, type=int)
    options = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.tandem, pathlib.Path(folder), options.tokens)
        for window, release in SCHEDULERS:
            free = bench.predict(bench.plan(window, release, FREE_DISK))
            computing = token_time(free)
            loaded = max(device["bytes_loaded"] for device in free["devices"]) / options.tokens
            for slack in SLACKS:
                plan = bench.plan(window, release, loaded * (1.0 + slack) / computing)
                predicted, measured = bench.predict(plan), bench.measure(plan)
                row = {
                    "window": window,
                    "release": release,
                    "slack": slack,
                    "predicted_stall_fraction": predicted["steady"]["stall_fraction"],
                    "measured_stall_fraction": measured["steady"]["stall_fraction"],
                    "predicted_token_s": token_time(predicted),
                    "measured_token_s": token_time(measured),
                    "predicted_verdict": predicted["steady"]["verdict"],
                    "measured_verdict": measured["steady"]["verdict"],
                    "late_mean_s": measured["environment"]["pacing_late_mean_s"],
                }
                rows.append(row)
                print(*row.values(), sep="\t", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
