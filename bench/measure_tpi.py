#!/usr/bin/env python3
"""TPI-LLM's tensor parallelism and memory scheduler on four equal devices: predicted beside measured.

    measure_tpi.py --tandem build/release/bin/tandem --folder out/tpi emulated [--rounds 5]
    sudo measure_tpi.py --tandem build/release/bin/tandem --folder out/tpi testbed [--rounds 3]

Star, tree and ring all-reduce, without the memory scheduler and with it, windows of two and four blocks as the paper and as tandem
count them, and beside them a pipeline (the paper's model parallelism) and Galaxy. A Llama of 77 million parameters with random weights,
f32, prompts of 6 and of 64 tokens, four devices sixteen times slower than this machine, 300 Mbps and 4 ms a message as in
scenarios/platforms/klonet8.xml, disks of 150 MB/s. emulated: devices are processes, links and disks are replayed. testbed: TCP between
network namespaces of this machine. Each round measures the machine, predicts, and runs all in turn. Each writes FOLDER/NAME.csv.
"""

import argparse
import json

from emulated import Case, Repeated
from emulation_fidelity import MODELS, NETWORKS, platform

MODEL = "middle"
DEVICES, SLOWDOWN, DISK = 4, 16, "150MBps"
NETWORKS["klonet"] = ("300Mbps", "2ms", "SPLITDUPLEX")  # a message passes two links
SHORT, LONG, NEW = 6, 64, 6
OFF = ("--window", "all")


def windowed(blocks, release="early"):
    return ("--window", blocks, "--retain", "none", "--release", release)


def tensor(collective, *more):
    return ("--strategy", "tensor", "--partition", "equal", "--allreduce", collective, *more)


SYSTEMS = {  # how each is planned; the paper's window of w blocks is tandem's of w - 1, released early (docs/results/paper-tpi-llm.md)
    "star": tensor("star", *OFF),
    "tree": tensor("tree", *OFF),
    "ring": tensor("ring", *OFF),
    "star-window-1": tensor("star", *windowed(1)),
    "tree-window-1": tensor("tree", *windowed(1)),
    "ring-window-1": tensor("ring", *windowed(1)),
    "star-window-2": tensor("star", *windowed(2)),
    "star-window-3": tensor("star", *windowed(3)),
    "star-window-4": tensor("star", *windowed(4)),
    "model-parallelism": ("--strategy", "pipeline", "--partition", "equal", "--rounds", 1, "--groups", "none", *OFF),
    "galaxy": ("--strategy", "galaxy", "--partition", "equal", "--allreduce", "ring", "--tiles", 1, *OFF),
}
LONG_SYSTEMS = ["star", "tree", "ring"]  # whose first token of a longer prompt is measured, too


def cases():
    xml = platform("klonet", [SLOWDOWN] * DEVICES, disk=DISK)
    made = [Case(name, xml, MODEL, SHORT, NEW, how) for name, how in SYSTEMS.items()]
    return made + [Case(f"{name}-prompt-{LONG}", xml, MODEL, LONG, 1, SYSTEMS[name]) for name in LONG_SYSTEMS]


def figures(result):
    """Milliseconds to the first token, for a later one, and of the busiest device's computing in all; MB of the fullest device beside
    its program."""
    times = result["metrics"]["token_times_s"]
    row = {"ttft_ms": 1e3 * result["metrics"]["ttft_s"]}
    if len(times) > 1:
        row["token_ms"] = 1e3 * (times[-1] - times[0]) / (len(times) - 1)
    row["computing_ms"] = 1e3 * max(device["busy_s"]["cpu"] for device in result["devices"])
    memory = [device["peak_memory_bytes"] for device in result["devices"]]
    row["memory_mb"] = 1e-6 * max(sum(of for kind, of in one.items() if kind not in ("program", "total")) for one in memory)
    return row


class Tpi(Repeated):
    def weights(self, model):
        folder = self.folder / model
        if not (folder / "config.json").exists():
            config = self.folder / f"{model}.json"
            config.write_text(json.dumps(MODELS[model]))
            self.call("model", "random", "--config", config, "--out", folder, "--quiet")
        return folder

    def run_testbed(self, cases, tcp):
        for folder in self.rounds:
            for prompt in (SHORT, LONG):
                missing = [case for case in cases if case.prompt == prompt and not (folder / f"{case.name}.measured.json").exists()]
                plans = [self.predict(case, folder) for case in missing]
                if not plans:
                    continue
                self.call("testbed", "run", folder / f"{missing[0].name}.xml", *plans, "--weights", self.weights(MODEL), "--tcp", tcp,
                          "--allow-drift", "--ignore-eos", "--prompt-ids", self.prompt_ids(prompt), "--cache", self.folder / "cache",
                          "--out", folder / "results", "--quiet")
                for case, plan in zip(missing, plans):
                    (folder / "results" / plan.name).rename(folder / f"{case.name}.measured.json")
                print(f"{folder.name}, prompts of {prompt}: {len(plans)} plans", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=12, help="of each profile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tcp", default="system", choices=("system", "warm", "pinned"), help="of the testbed")
    parser.add_argument("what", choices=("emulated", "testbed"))
    arguments = parser.parse_args()
    bench = Tpi(arguments.tandem, arguments.folder, arguments.seconds, arguments.rounds, arguments.what)
    if arguments.what == "emulated":
        bench.measure(cases())
    else:
        bench.run_testbed(cases(), arguments.tcp)
    bench.report(arguments.what, [bench.compared(case, figures) for case in cases()])


if __name__ == "__main__":
    main()
