#!/usr/bin/env python3
"""Galaxy's hybrid parallelism and its baselines on emulated Jetson boards: predicted beside measured.

    measure_galaxy.py --tandem build/release/bin/tandem --folder out/galaxy environments [--minutes 2.5]
    measure_galaxy.py --tandem build/release/bin/tandem --folder out/galaxy map [--points] [--minutes 2.5]
    measure_galaxy.py --tandem build/release/bin/tandem --folder out/galaxy paper [--rounds 5] [--geometries bert-l@4 ...]

environments: DistilBERT's and GPT-2's geometry with random weights, 284 tokens, in the paper's environments A to F at 125 and 500
Mbps: galaxy with tiles and without, tensor (Megatron-LM), sp and local. map: galaxy without tiles over galaxy with them, over rows,
bandwidth and devices, by the analytic evaluator; with --points some cells are measured, too. Each writes FOLDER/NAME.csv, which
plots/galaxy.py draws, whenever it ends. Measured runs want a quiet machine: after --minutes no more begin (0: predictions alone), and
the next call goes on where this one ended, with the same profile and plans.

paper: BERT-L, GPT2-L and OPT-L with fewer layers: environments A and C against tensor and sp (Table IV), galaxy alone on one to four
Nano-M at 1000 Mbps with 384 rows (figure 11) and on one with 96 (figure 10), and GPT2-L in D with as much memory as Algorithm 1 wants and
with less, where its second step moves work. Boards and links are four times as fast as the paper's, which changes no ratio of times. Each of
--rounds measures the machine, predicts, and runs all in turn; seconds, and MB of each device beside its program.
"""

import argparse
import json
import time

from emulated import Case, Geometries, Repeated
from emulation_fidelity import NETWORKS, platform

MODELS = ["distilbert", "gpt2"]
ENVIRONMENTS = {"A": "MM", "B": "MMM", "C": "MMMM", "D": "LM", "E": "LS", "F": "LMS"}
HERTZ = {"S": 403e6, "M": 825e6, "L": 1.47e9}
BANDWIDTHS = [125, 500]  # Mbps
ROWS = 284  # the paper's mean length
LATENCY_MS = 0.2  # of a link to the switch, as in `tandem-study experiment`
# How each system is planned. Tiles are one of each device's rows, as in the paper.
SYSTEMS = {
    "galaxy": ["--strategy", "galaxy", "--partition", "galaxy", "--allreduce", "ring", "--tiles", 1],
    "untiled": ["--strategy", "galaxy", "--partition", "galaxy", "--allreduce", "ring", "--tiles", 0],
    "tensor": ["--strategy", "tensor", "--partition", "equal", "--allreduce", "ring"],
    "sp": ["--strategy", "sp", "--allreduce", "ring"],
}
MAP_ROWS = [16, 64, 128, 284, 512]
MAP_MBPS = [25, 125, 500, 1000, 10000]
MAP_DEVICES = [2, 3, 4]
PAPER_GEOMETRIES = ["bert-l@4", "gpt2-l@4", "opt-l@3"]
FASTER = 4  # boards and links of `paper` than Galaxy's
SCALING_MBPS, STRONG_ROWS, WEAK_ROWS = 1000, 384, 96  # figures 10 and 11; four devices are the same in both
# Memory of the Nano-L in D.
SECOND_STEP = {"gpt2-l@4": "430MiB"}
POINTS = [(2, 125, 284), (3, 125, 284), (4, 125, 284), (3, 25, 64), (3, 500, 64), (3, 500, 512), (3, 10000, 284)]


def boards(nano_m, kinds, mbps, faster=1, memories=None):
    """A platform; `nano_m`: how many times slower than this machine a Nano-M is; all of it so many times `faster`."""
    NETWORKS["boards"] = (f"{faster * mbps}Mbps", f"{LATENCY_MS / faster}ms", "SPLITDUPLEX")
    nano_m /= faster
    return platform("boards", [round(nano_m * HERTZ["M"] / HERTZ[kind], 3) for kind in kinds], memories)


class Galaxy(Geometries):
    def __init__(self, arguments):
        super().__init__(arguments.tandem, arguments.folder, arguments.seconds)
        self.nano_m, self.until = arguments.slowdown, time.monotonic() + 60 * arguments.minutes
        self.left = 0  # runs that a later call has to make

    def boards(self, kinds, mbps):
        return boards(self.nano_m, kinds, mbps)

    def row(self, name, model, xml, rows, how, evaluator="simgrid", measures=True):
        """Seconds of the pass and the share of communication hidden, predicted and measured (None: not yet)."""
        paths = {kind: self.folder / f"{name}.{kind}" for kind in ("xml", "plan.json", "predicted.json", "measured.json")}
        plan = paths["plan.json"]
        generates = model == "gpt2"
        if not paths["predicted.json"].exists():
            paths["xml"].write_text(xml)
            self.call("plan", "--platform", paths["xml"], "--model", self.weights(model), "--profile", self.profile(model),
                      "--prompt-tokens", rows, *(["--new-tokens", 1] if generates else []), *how, "--out", plan, "--quiet")
            self.call("simulate", plan, "--evaluator", evaluator, "--trace", self.folder / "trace.json", "--out",
                      paths["predicted.json"], "--quiet")
        if measures and not paths["measured.json"].exists():
            if time.monotonic() < self.until:
                self.call("run", plan, "--weights", self.weights(model), "--emulate", "--allow-drift", "--cache",
                          self.folder / "cache", "--prompt-ids", self.prompt_ids(rows), *(["--ignore-eos"] if generates else []),
                          "--trace", self.folder / "trace.json", "--out", paths["measured.json"], "--quiet")
            else:
                self.left += 1
        return {key: figures(paths[f"{key}.json"]) for key in ("predicted", "measured")}

    def goes_on(self):
        if self.left:
            print(f"{self.left} runs are left to measure: call it again")


def figures(path):
    """Seconds, share hidden."""
    if not path.exists():
        return None, None
    result = json.loads(path.read_text())
    communication = result["communication"]
    return result["metrics"]["ttft_s"], communication and communication["hidden_fraction"]


def texts(values):
    return ["" if value is None else f"{value:.6g}" for value in values]


def environments(bench, arguments):
    table = []
    for model in arguments.models:
        for mbps in BANDWIDTHS:
            for environment, kinds in ENVIRONMENTS.items():
                for system in [*SYSTEMS, "local"]:
                    if system == "local":  # the first board alone: alike in several environments
                        name, boards, how = f"{model}-local-{kinds[0]}", kinds[0], ["--strategy", "local"]
                    else:
                        name, boards, how = f"{model}-{environment}-{mbps}-{system}", kinds, SYSTEMS[system]
                    made = bench.row(name, model, bench.boards(boards, mbps), ROWS, how)
                    row = {"model": model, "mbps": mbps, "environment": environment, "system": system}
                    row["predicted_s"], row["predicted_hidden"] = texts(made["predicted"])
                    row["measured_s"], row["measured_hidden"] = texts(made["measured"])
                    table.append(row)
    bench.write("environments", table)


def overlap_map(bench, arguments):
    model, table = "distilbert", []
    for devices in MAP_DEVICES:
        for mbps in MAP_MBPS:
            for rows in MAP_ROWS:
                measures = arguments.points and (devices, mbps, rows) in POINTS
                row = {"devices": devices, "mbps": mbps, "rows": rows}
                for system in ("galaxy", "untiled"):
                    made = bench.row(f"map-{devices}-{mbps}-{rows}-{system}", model, bench.boards("M" * devices, mbps), rows,
                                     SYSTEMS[system], "analytic", measures)
                    row[f"predicted_{system}_s"] = texts(made["predicted"])[0]
                    row[f"measured_{system}_s"] = texts(made["measured"])[0]
                table.append(row)
    bench.write("map", table)


def paper_cases(model, nano_m):
    new = 0 if model.startswith("bert") else 1

    def case(name, kinds, mbps, rows, how, memories=None):
        return Case(f"{model}-{name}", boards(nano_m, kinds, mbps, FASTER, memories), model, rows, new, tuple(how))

    made = [case(f"{environment}-{system}", ENVIRONMENTS[environment], 125, ROWS, SYSTEMS[system])
            for environment in "AC" for system in ("galaxy", "tensor", "sp")]
    for devices, rows in [(1, WEAK_ROWS)] + [(devices, STRONG_ROWS) for devices in range(1, 5)]:
        how = SYSTEMS["galaxy"] if devices > 1 else ["--strategy", "local"]
        made.append(case(f"{devices}-of-{rows}", "M" * devices, SCALING_MBPS, rows, how))
    if model in SECOND_STEP:
        made += [case(f"D-{name}", ENVIRONMENTS["D"], 125, ROWS, SYSTEMS["galaxy"], memories)
                 for name, memories in (("room", None), ("moved", [SECOND_STEP[model], "8GiB"]))]
    return made


def paper_figures(result):
    """Seconds of the pass; MB of each device beside its program."""
    row = {"s": result["metrics"]["ttft_s"]}
    for i, device in enumerate(result["devices"], 1):
        row[f"mb_{i}"] = 1e-6 * sum(of for kind, of in device["peak_memory_bytes"].items() if kind not in ("program", "total"))
    return row


def paper(arguments):
    bench = Repeated(arguments.tandem, arguments.folder, arguments.seconds, arguments.rounds, "paper")
    chosen = [case for model in arguments.geometries for case in paper_cases(model, arguments.slowdown)]
    bench.measure(chosen)
    bench.report("paper", [bench.compared(case, paper_figures) | shares(bench.rounds[0] / f"{case.name}.plan.json") for case in chosen])


def shares(plan):
    """Heads and columns of each device, where they are shared out."""
    if not plan.exists():
        return {}
    devices = json.loads(plan.read_text())["devices"]
    return {what: " ".join(str(end - begin) for begin, end in (device[what] for device in devices)) for what in ("heads", "columns")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=20, help="of a profile that is not in the folder yet")
    parser.add_argument("--slowdown", type=float, default=8, help="of a Nano-M against this machine; others by their clock")
    parser.add_argument("--minutes", type=float, default=2.5, help="in which runs begin; 0: predictions alone")
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--rounds", type=int, default=5, help="of paper")
    parser.add_argument("--geometries", nargs="*", default=PAPER_GEOMETRIES, choices=PAPER_GEOMETRIES, help="of paper")
    parser.add_argument("what", choices=("environments", "map", "paper"))
    arguments = parser.parse_args()
    if arguments.what == "paper":
        paper(arguments)
        return
    bench = Galaxy(arguments)
    {"environments": environments, "map": overlap_map}[arguments.what](bench, arguments)
    bench.goes_on()


if __name__ == "__main__":
    main()
