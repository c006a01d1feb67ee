#!/usr/bin/env python3
"""Samples that go round a pipeline: rate, latency and memory over their number, and where tensor parallelism is faster.

    measure_recurrent.py --tandem build/release/bin/tandem --folder out/recurrent curve [--rounds 3]
    measure_recurrent.py --tandem build/release/bin/tandem --folder out/recurrent map [--points]
    measure_recurrent.py --tandem build/release/bin/tandem --folder out/recurrent thesis
    measure_recurrent.py --tandem build/release/bin/tandem --folder out/recurrent rounds [--points]

curve: 1 to 12 samples on three emulated devices of two networks, predicted and measured. map: four devices, pipelines, with a step for
each sample or with shared ones, against tensor over latency and samples, predicted, with --points also measured at some. thesis: GPT-2
and NanoLlama split as MDI-LLM did, with caches, on one to three devices, beside one device that serves one sample after another, as the
thesis's did, and one that batches. rounds: a 70B on four devices that hold two thirds of it, going round several times against tensor
with a window, over latency and disks, predicted; with --points GPT-2 so, measured too. Each writes FOLDER/NAME.csv; plots/recurrent.py
draws all but thesis. Measured runs want a quiet machine. Models have random weights of a geometry in scenarios/models.
"""

import argparse
import json
import statistics

from emulated import SCENARIOS, Case, Repeated
from emulation_fidelity import NETWORKS, platform

# Every device's share is beyond what caches of the machine that emulates them hold from step to step: what they do hold is read
# faster than a profile of the whole model says.
MODEL = "gpt2"
PROMPT, NEW = 8, 12
SAMPLES = [1, 2, 3, 4, 6, 8, 12]
LATENCIES_MS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5]
MAP_SAMPLES = [1, 2, 4, 8, 16]
POINTS = [(0.05, 1), (0.05, 8), (0.5, 1), (0.5, 4), (2, 1), (2, 8)]
# A step for each sample; samples that share steps, as many steps as stages; all samples in one step of all devices.
WAYS = {"recurrent": ("pipeline", []), "batched": ("pipeline", ["--policy", "continuous"]),
        "tensor": ("tensor", ["--policy", "continuous", "--allreduce", "auto"])}
# Messages of 0.1 to 20 ms, disks of 0.1 to 5 GB/s; four devices alike, as laptops are.
ROUNDS_LATENCIES_MS = [0.1, 0.3, 1, 3, 10, 20]
ROUNDS_DISKS_MBPS = [100, 300, 1000, 2000, 5000]
ROUNDS_MODEL, ROUNDS_PROMPT, ROUNDS_NEW = "llama-2-70b", 16, 5
ROUNDS_DEVICE = '''    <host id="device-{i}" speed="{speed}" core="4">
      <prop id="tandem:memory" value="{memory}"/>
      <prop id="tandem:memory_bandwidth" value="{memory_bandwidth}"/>
      <prop id="tandem:disk_bandwidth" value="{disk:g}MBps"/>
      <prop id="tandem:slowdown" value="{slowdown}"/>
    </host>
'''
ROUNDS_LINK = '    <link id="to-{i}" bandwidth="1Gbps" latency="{latency:g}ms" sharing_policy="SPLITDUPLEX"/>\n'
ROUNDS_ROUTE = '    <route src="device-{i}" dst="switch"><link_ctn id="to-{i}" direction="UP"/></route>\n'
ROUNDS_NOMINAL = {"speed": "20Gf", "memory_bandwidth": "10GBps", "slowdown": 1}
ROUNDS_EMULATED = {"speed": "12Gf", "memory_bandwidth": "3.75GBps", "slowdown": 4}
ROUNDS_MEMORY = ["270MiB", "85MiB", "85MiB", "85MiB"]  # embedding and head are at the first
ROUNDS_POINTS = [(0.1, 400), (10, 400)]
ROUNDS_WAYS = {"once": ["pipeline", "--rounds", 1, "--groups", "none"], "rounds": ["pipeline", "--rounds", "auto", "--groups", "none"],
               "tensor": ["tensor", "--allreduce", "star"]}
THESIS = ["gpt2", "nanollama-304m"]
THESIS_BLOCKS = ["5:7", "2:5:5"]  # by device, of two and three


class Recurrent(Repeated):
    def predict_samples(self, name, xml, model, samples, *more):
        """The prediction of a plan that is made here, and the plan."""
        plan, out = self.folder / f"{name}.plan.json", self.folder / f"{name}.predicted.json"
        (self.folder / f"{name}.xml").write_text(xml)
        lengths = ["--samples", samples, "--prompt-tokens", PROMPT, "--new-tokens", NEW]
        self.call("plan", "--platform", self.folder / f"{name}.xml", "--model", model, *lengths, *more, "--chunk",
                  "whole", "--out", plan, "--quiet")
        self.call("simulate", plan, "--samples", samples, *self.policy(more), "--out", out, "--quiet")
        return json.loads(out.read_text()), plan

    @staticmethod
    def policy(more):
        return list(more[more.index("--policy"):][:2]) if "--policy" in more else []

    def measure_samples(self, plan, model, samples, rounds, *more):
        """The median of each figure over `rounds` runs."""
        out, measured = plan.with_suffix(".measured.json"), []
        for _ in range(rounds):
            self.call("run", plan, "--weights", self.weights(model), "--emulate", "--allow-drift", "--ignore-eos", "--cache",
                      self.folder / "cache", "--samples", samples, "--prompt-ids", self.prompt(), "--new-tokens", NEW,
                      *self.policy(more), "--out", out, "--quiet")
            measured.append(figures(json.loads(out.read_text())))
        return {key: statistics.median(one[key] for one in measured) for key in measured[0]}

    def prompt(self):
        return self.prompt_ids(PROMPT)


def figures(result):
    latencies = [request["token_latency_s"]["mean"] for request in result["requests"]]
    return {
        "tokens_per_s": result["metrics"]["throughput_tokens_per_s"],
        "latency_s": statistics.mean(latencies),
        "cache_bytes": sum(device["peak_memory_bytes"]["kv_cache"] for device in result["devices"]),
    }


def both(predicted, measured):
    row = {f"predicted_{key}": f"{value:.6g}" for key, value in predicted.items()}
    return row | {f"measured_{key}": "" if measured is None else f"{measured[key]:.6g}" for key in predicted}


def error(predicted, measured):
    return f"{predicted['tokens_per_s']:7.1f} {measured['tokens_per_s']:7.1f} tokens/s  " \
           f"{100 * (predicted['tokens_per_s'] / measured['tokens_per_s'] - 1):+5.1f}%"


def curve(bench, arguments):
    model, rows = MODEL, []
    for network in arguments.networks:
        for samples in arguments.samples or SAMPLES:
            predicted, plan = bench.predict_samples(f"curve-{network}-{samples}", platform(network, [4, 4, 4]), bench.weights(model),
                                                    samples, "--strategy", "pipeline", "--profile", bench.profile(model))
            measured = bench.measure_samples(plan, model, samples, arguments.rounds)
            print(f"{network:5s} {samples:3d} samples {error(figures(predicted), measured)}", flush=True)
            rows.append({"network": network, "samples": samples} | both(figures(predicted), measured))
    bench.write("curve-" + "-".join(arguments.networks), rows)


def of_strategies(bench, model, latency, samples, weights, more):
    NETWORKS["map"] = ("1Gbps", f"{latency / 2}ms", "SPLITDUPLEX")  # a message passes two links
    made = {}
    for name, (strategy, choices) in WAYS.items():
        file = f"map-{model}-{name}-{latency}-{samples}"
        made[name] = bench.predict_samples(file, platform("map", [4] * 4), weights, samples, "--strategy", strategy, *more, *choices)
    return made


def strategy_map(bench, arguments):
    rows = []
    for model, more in ((MODEL, ["--profile", bench.profile(MODEL)]), ("tinyllama-1.1b", [])):
        weights = bench.weights(model) if more else SCENARIOS / f"{model}.json"
        for latency in LATENCIES_MS:
            for samples in arguments.samples or MAP_SAMPLES:
                measures = arguments.points and more and (latency, samples) in POINTS
                made = of_strategies(bench, model, latency, samples, weights, more)
                row = {"model": model, "latency_ms": latency, "samples": samples}
                for name, (predicted, plan) in made.items():
                    row[f"{name}_tokens_per_s"] = f"{figures(predicted)['tokens_per_s']:.6g}"
                    row[f"measured_{name}_tokens_per_s"] = ""
                    if not measures:
                        continue
                    measured = bench.measure_samples(plan, model, samples, arguments.rounds, *WAYS[name][1])
                    row[f"measured_{name}_tokens_per_s"] = f"{measured['tokens_per_s']:.6g}"
                    print(f"{name:9s} {latency:5.2f} ms {samples:3d} samples {error(figures(predicted), measured)}",
                          flush=True)
                rows.append(row)
    bench.write("map", rows)


def thesis_cases(model):
    """Devices, samples and policy: the thesis's baseline, its pipelines, and what steps shared by samples make of both."""
    local, few, many = ("--strategy", "local"), 3, 9
    pipelines = [(devices, ("--strategy", "pipeline", "--partition", blocks)) for devices, blocks in enumerate(THESIS_BLOCKS, 2)]
    made = [(1, few, "sequential", local), (1, few, "continuous", local)]
    made += [(devices, few, "recurrent", pipeline) for devices, pipeline in pipelines]
    devices, pipeline = pipelines[-1]
    made += [(1, many, "continuous", local), (devices, many, "continuous", pipeline)]
    return [Case(f"thesis-{model}-{devices}-{samples}-{policy}", platform("home", [4] * devices), model, PROMPT, NEW,
                 (*how, "--chunk", "whole"), ("--samples", samples, "--policy", policy)) for devices, samples, policy, how in made]


def thesis(bench, arguments):
    chosen = [case for model in arguments.models for case in thesis_cases(model)]
    bench.measure(chosen)
    bench.report("thesis", [bench.compared(case, figures) for case in chosen])


def rounds_platform(latency, disk, memory, of):
    devices, links, routes = ("".join(text.format(i=i + 1, latency=latency / 2, disk=disk, memory=memory[i], **of) for i in range(4))
                              for text in (ROUNDS_DEVICE, ROUNDS_LINK, ROUNDS_ROUTE))
    return ("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            f'<platform version="4.1">\n  <zone id="rounds" routing="DijkstraCache">\n{devices}    <router id="switch"/>\n'
            f"{links}{routes}  </zone>\n</platform>\n")


def a_token(result):
    times = result["metrics"]["token_times_s"]
    return (times[-1] - times[0]) / (len(times) - 1)


def round_count(plan):
    runs = [device["layers"] for device in json.loads(plan.read_text())["devices"]]
    return max(len(run) if isinstance(run[0], list) else 1 for run in runs)


def rounds_plan(bench, name, xml, model, words, lengths):
    """A plan of one request, as its prediction says: seconds a token, and how often a step goes round."""
    plan, out = bench.folder / f"{name}.plan.json", bench.folder / f"{name}.predicted.json"
    (bench.folder / f"{name}.xml").write_text(xml)
    bench.call("plan", "--platform", bench.folder / f"{name}.xml", "--model", model, "--strategy", *words, *lengths,
               "--out", plan, "--quiet")
    bench.call("simulate", plan, "--out", out, "--quiet", "--evaluator", "analytic")
    return plan, a_token(json.loads(out.read_text()))


def rounds_map(bench, _):
    rows = []
    for disk in ROUNDS_DISKS_MBPS:
        for latency in ROUNDS_LATENCIES_MS:
            row = {"model": ROUNDS_MODEL, "latency_ms": latency, "disk_MBps": disk}
            for way, words in ROUNDS_WAYS.items():
                # All devices are alike: equal heads are the best shares of tensor, which are long to search for.
                more = ["--partition", "equal"] if way == "tensor" else []
                plan, seconds = rounds_plan(
                    bench, f"rounds-{way}-{latency}-{disk}", rounds_platform(latency, disk, 4 * ["6GiB"], ROUNDS_NOMINAL),
                    SCENARIOS / f"{ROUNDS_MODEL}.json", [*words, *more],
                    ["--dtype", "q4_0", "--wire-type", "f32", "--cache-type", "f32", "--prompt-tokens", ROUNDS_PROMPT, "--new-tokens", ROUNDS_NEW])
                row[f"{way}_token_s"] = f"{seconds:.6g}"
                if way == "rounds":
                    row["rounds"] = round_count(plan)
            print(row, flush=True)
            rows.append(row)
    bench.write("rounds", rows)


def rounds_points(bench, arguments):
    """GPT-2 in memory that holds a part of it, as streamed by emulated devices."""
    rows = []
    for latency, disk in ROUNDS_POINTS:
        for way, words in ROUNDS_WAYS.items():
            plan, seconds = rounds_plan(
                bench, f"point-{way}-{latency}-{disk}", rounds_platform(latency, disk, ROUNDS_MEMORY, ROUNDS_EMULATED), bench.weights(MODEL),
                words, ["--profile", bench.profile(MODEL), "--prompt-tokens", PROMPT, "--new-tokens", NEW])
            out, measured = plan.with_suffix(".measured.json"), []
            for _ in range(arguments.rounds):
                bench.call("run", plan, "--weights", bench.weights(MODEL), "--emulate", "--allow-drift", "--ignore-eos",
                           "--cache", bench.folder / "cache", "--prompt-ids", bench.prompt(), "--new-tokens", NEW,
                           "--out", out, "--quiet")
                measured.append(a_token(json.loads(out.read_text())))
            real = statistics.median(measured)
            print(f"{way:6s} {latency:g} ms {disk:g} MB/s  {1e3 * seconds:.1f} {1e3 * real:.1f} ms a token  "
                  f"{100 * (seconds / real - 1):+.1f}%  rounds {round_count(plan)}", flush=True)
            rows.append({"latency_ms": latency, "disk_MBps": disk, "way": way, "rounds": round_count(plan),
                         "predicted_s": f"{seconds:.6g}", "measured_s": f"{real:.6g}"})
    bench.write("rounds-points", rows)


def rounds_command(bench, arguments):
    if arguments.points:
        rounds_points(bench, arguments)
    else:
        rounds_map(bench, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=20, help="of a profile that is not in the folder yet")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--networks", nargs="*", default=["home", "wifi"], choices=sorted(NETWORKS))
    parser.add_argument("--samples", type=int, nargs="*")
    parser.add_argument("--models", nargs="*", default=THESIS, choices=THESIS, help="of thesis")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("what", choices=("curve", "map", "thesis", "rounds"))
    arguments = parser.parse_args()
    bench = Recurrent(arguments.tandem, arguments.folder, arguments.seconds, arguments.rounds, arguments.what)
    {"curve": curve, "map": strategy_map, "thesis": thesis, "rounds": rounds_command}[arguments.what](bench, arguments)


if __name__ == "__main__":
    main()
