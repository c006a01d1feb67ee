#!/usr/bin/env python3
"""How true emulation is where computing matters: predicted over measured, configuration by configuration.

    emulation_fidelity.py --tandem build/release/bin/tandem --folder out/fidelity --rounds 3
    emulation_fidelity.py --tandem build/release/bin/tandem --folder out/fidelity --profile middle
    emulation_fidelity.py --tandem build/release/bin/tandem --folder out/fidelity pair-16 pipeline3-200

Plans, simulates and runs configurations by name (no name: all), at measured pace, nominal pace or both, on a quiet machine. With
--profile it only measures this machine with a model's matrices; with --rounds it does that before each round, as machines that are
shared drift within minutes, and reports medians over the rounds. Models have random weights. A line
says predicted / measured for time to first token and for the median token latency, and what the run says of itself. At nominal pace a
run follows the prediction's formulas: its times are called replayed, and its line tests the program and not the prediction.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="home" routing="Dijkstra">
{devices}    <router id="switch"/>
{links}{routes}  </zone>
</platform>
"""
DEVICE = """    <host id="{name}" speed="20Gf" core="1">
      <prop id="tandem:memory" value="{memory}"/>
      <prop id="tandem:memory_bandwidth" value="10GBps"/>
      <prop id="tandem:disk_bandwidth" value="{disk}"/>
      <prop id="tandem:slowdown" value="{slowdown}"/>
    </host>
"""
# Each device's way to the switch: bandwidth, latency, sharing.
NETWORKS = {
    "lan": ("10Gbps", "0.05ms", "SPLITDUPLEX"),
    "home": ("1Gbps", "0.5ms", "SPLITDUPLEX"),
    "wifi": ("400Mbps", "2ms", "SHARED"),
}
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "max_position_embeddings": 1024, "tie_word_embeddings": False,
}


def llama(hidden, intermediate, layers, heads, key_value_heads, vocab):
    return {**LLAMA, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": key_value_heads, "vocab_size": vocab}


MODELS = {  # 3 million parameters; 77 million; 300 million
    "small": llama(256, 640, 4, 8, 4, 1536),
    "middle": llama(768, 2048, 12, 12, 4, 320),
    "large": llama(1280, 4096, 13, 20, 10, 4096),
}
CONFIGURATIONS = {  # model, network, slowdowns, strategy, prompt, new tokens
    "alone-1": ("middle", "lan", [1], "local", 16, 24, []),
    "alone-4": ("middle", "lan", [4], "local", 200, 8, []),
    "pair-16": ("middle", "lan", [2, 2], "tensor", 16, 16, []),
    "pair-200": ("middle", "lan", [2, 2], "tensor", 200, 8, []),
    "pair-fast": ("middle", "lan", [1, 1], "tensor", 16, 16, []),
    "pair-uneven": ("middle", "lan", [1, 4], "tensor", 64, 12, []),
    "pipeline3-16": ("middle", "lan", [2, 2, 2], "pipeline", 16, 12, []),
    "pipeline3-200": ("middle", "home", [1, 2, 4], "pipeline", 200, 8, []),
    "star4-16": ("middle", "lan", [4, 4, 4, 4], "tensor", 16, 12, ["--allreduce", "star"]),
    "star4-200": ("middle", "home", [2, 3, 5, 8], "tensor", 200, 6, ["--allreduce", "star"]),
    "ring4-200": ("middle", "home", [4, 4, 4, 4], "tensor", 200, 6, ["--allreduce", "ring"]),
    "wifi-16": ("middle", "wifi", [2, 3], "tensor", 16, 12, []),
    "wifi-200": ("middle", "wifi", [2, 8], "tensor", 200, 6, []),
    "small-pair": ("small", "lan", [2, 4], "tensor", 64, 32, []),
    "small-star4": ("small", "home", [2, 3, 5, 8], "tensor", 64, 24, ["--allreduce", "star"]),
    "large-pair": ("large", "lan", [2, 2], "tensor", 64, 6, []),
}


def platform(network, slowdowns, memories=None, disk="2GBps"):
    """Devices on a switch; `memories`: of each, where they differ."""
    bandwidth, latency, sharing = NETWORKS[network]
    memories = memories or ["8GiB"] * len(slowdowns)
    names = [f"device-{i + 1}" for i in range(len(slowdowns))]
    direction = "" if sharing == "SHARED" else ' direction="UP"'
    return PLATFORM.format(
        devices="".join(DEVICE.format(name=n, slowdown=s, memory=m, disk=disk)
                        for n, s, m in zip(names, slowdowns, memories)),
        links="".join(f'    <link id="to-{n}" bandwidth="{bandwidth}" latency="{latency}" sharing_policy="{sharing}"/>\n'
                      for n in names),
        routes="".join(f'    <route src="{n}" dst="switch">\n      <link_ctn id="to-{n}"{direction}/>\n    </route>\n'
                       for n in names))


class Fidelity:
    def __init__(self, tandem, folder):
        self.tandem, self.folder = str(pathlib.Path(tandem).resolve()), pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def call(self, *words):
        done = subprocess.run([self.tandem, *map(str, words)], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"tandem {words[0]}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stderr

    def model(self, name):
        """The folder of the model's random weights, made once."""
        weights = self.folder / name
        if not (weights / "config.json").exists():
            config = self.folder / f"{name}.json"
            config.write_text(json.dumps(MODELS[name]))
            self.call("model", "random", "--config", config, "--out", weights, "--quiet")
        return weights

    def profile(self, name, seconds):
        self.call("profile", "--model", self.model(name), "--seconds", seconds, "--threads", 1, "--disk", "none", "--out",
                  self.folder / f"{name}.profile.json", "--quiet")

    def predict(self, name):
        """The plan of configuration `name` and its prediction."""
        model, network, slowdowns, strategy, prompt, new, more = CONFIGURATIONS[name]
        profile = self.folder / f"{model}.profile.json"
        if not profile.exists():
            sys.exit(f"{profile} is missing: measure it with --profile {model} first")
        xml, plan, out = (self.folder / f"{name}.{end}" for end in ("xml", "plan.json", "predicted.json"))
        xml.write_text(platform(network, slowdowns))
        self.call("plan", "--platform", xml, "--model", self.model(model), "--profile", profile, "--strategy", strategy,
                  "--prompt-tokens", prompt, "--new-tokens", new, *more, "--out", plan, "--quiet")
        self.call("simulate", plan, "--out", out, "--quiet")
        predicted = json.loads(out.read_text())
        for fault in ("extrapolated", "outdated_profiles"):
            if fault in predicted["environment"]:
                sys.exit(f"{name}: {predicted['environment'][fault]}")
        return predicted

    def run(self, name, pace, more):
        model, _, _, _, prompt, _, _ = CONFIGURATIONS[name]
        ids, out = self.folder / f"{name}.ids", self.folder / f"{name}.{pace}.json"
        ids.write_text(" ".join(str(1 + i % 300) for i in range(prompt)))
        began = time.monotonic()
        self.call("run", self.folder / f"{name}.plan.json", "--weights", self.model(model), "--emulate", "--pace", pace,
                  "--allow-drift", "--prompt-ids", ids, "--ignore-eos", "--cache", self.folder / "cache", "--quiet",
                  "--out", out, *more)
        return json.loads(out.read_text()), time.monotonic() - began

    def deviations(self, name, pace, more):
        """Of one run's TTFT and median latency, in percent of the run's; the run's result; its seconds."""
        predicted = self.predict(name)
        result, seconds = self.run(name, pace, more)
        return [100.0 * (p / m - 1.0) for p, m in zip(times(predicted), times(result))], result, seconds

    def report(self, name, runs):
        """A line on the deviations of `runs`; their medians."""
        predicted = json.loads((self.folder / f"{name}.predicted.json").read_text())
        first, then = (statistics.median(d) for d in zip(*(run[0] for run in runs)))
        kind, said, took = runs[-1][1]["kind"], runs[-1][1]["environment"], sum(run[2] for run in runs)
        p = times(predicted)
        print(f"{name:15} {kind:9} {p[0] * 1e3:8.1f} {first:+7.1f}% {p[1] * 1e3:8.1f} {then:+7.1f}%"
              f"   late {float(said['pacing_late_mean_s']) * 1e3:.1f}/{float(said['pacing_late_max_s']) * 1e3:.1f} ms,"
              f" drift {said.get('drift', '-')}, dilation {said.get('dilation', '1')}, {took:.0f} s", flush=True)
        return first, then


def times(result):
    metrics = result["metrics"]
    return metrics["ttft_s"], metrics["token_latency_s"]["p50"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--tandem", default="build/release/bin/tandem")
    parser.add_argument("--folder", default="out/fidelity")
    parser.add_argument("--profile", choices=sorted(MODELS), action="append", default=[])
    parser.add_argument("--seconds", type=float, default=20.0, help="of a profile [20]")
    parser.add_argument("--pace", choices=["measured", "nominal", "both"], default="measured")
    parser.add_argument("--rounds", type=int, default=0, help="measure the machine and run everything so often")
    parser.add_argument("--prepare", action="store_true", help="make models, plans and shards, report nothing")
    parser.add_argument("--dilate", help="passed to tandem run")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in CONFIGURATIONS:
            parser.error(f"no configuration '{name}', expected one of: {', '.join(CONFIGURATIONS)}")
    fidelity = Fidelity(arguments.tandem, arguments.folder)
    for name in arguments.profile:
        fidelity.profile(name, arguments.seconds)
    if arguments.profile and not arguments.names:
        return
    names = arguments.names or list(CONFIGURATIONS)
    more = ["--dilate", arguments.dilate] if arguments.dilate else []
    if arguments.prepare:
        for name in names:
            fidelity.predict(name)
            fidelity.run(name, "nominal", more)
        return
    for pace in ["measured", "nominal"] if arguments.pace == "both" else [arguments.pace]:
        print(f"{'':15} {'kind':9} {'ttft ms':>8} {'p/r-1':>8} {'token ms':>8} {'p/r-1':>8}")
        runs = {name: [] for name in names}
        for _ in range(max(1, arguments.rounds)):
            for model in MODELS:
                chosen = [name for name in names if CONFIGURATIONS[name][0] == model]
                if chosen and arguments.rounds:
                    fidelity.profile(model, arguments.seconds)
                for name in chosen:
                    runs[name].append(fidelity.deviations(name, pace, more))
        pairs = [fidelity.report(name, runs[name]) for name in names]
        sizes = [abs(d) for pair in pairs for d in pair]
        print(f"{runs[names[0]][0][1]['kind']}, {len(pairs)} configurations, TTFT and token latency: "
              f"median {statistics.median(sizes):.1f}%, worst {max(sizes):.1f}%\n", flush=True)


if __name__ == "__main__":
    main()
