#!/usr/bin/env python3
"""Where a prompt that is split by position beats one that is split by heads, and one device: predicted beside measured.

    measure_csps.py --tandem build/release/bin/tandem --folder out/csps map [--points] [--minutes 2.5]
    measure_csps.py --tandem build/release/bin/tandem --folder out/csps accuracy [--documents 16]
    measure_csps.py --tandem build/release/bin/tandem --folder out/csps hidden [--minutes 2.5]

Two models, tandem-deep with its trained weights and prompts of 200 to 1,000 tokens, and a geometry of 4.8 million parameters with random
weights and prompts of 1,024 to 8,192, on 2 to 6 equal emulated devices of a home network: csps (SP-NTP, dense), csps with two levels of
which the farther drops half of the rows that it may, galaxy (SP-TP, Megatron's split with rows in between), tensor, local. All as
predicted by SimGrid, and with --points some cells measured as well: time to first token, bytes sent, and how many of the new tokens are
those of one device. Writes FOLDER/map.csv, which plots/csps.py draws, whenever it ends. Measured runs want a quiet machine: after
--minutes no more begin (0: predictions alone), and the next call goes on where this one ended, with the same profile and plans.

`accuracy` scores tandem-deep as the map's devices compute it, with nothing dropped and with parts of the farther level (`tandem eval`, no
clock, so any network's plan does): bits per byte and facts recalled, beside the loss by eval/sparse_loss.json, which was fitted to four
unequal devices. Writes FOLDER/accuracy.csv.

`hidden` tells the part of a prompt's communication that computing hides (decision 0061), predicted and measured, of csps with and without
levels by tiles. Writes FOLDER/hidden.csv.
"""

import argparse
import json
import statistics
import time

from emulated import SCENARIOS, Geometries
from emulation_fidelity import NETWORKS, llama, platform

LONG = {**llama(256, 704, 6, 8, 4, 1536), "max_position_embeddings": 8224, "tie_word_embeddings": True}
ROWS = {"tandem-deep": [200, 400, 700, 1000], "long": [1024, 2048, 4096, 8192]}
NEW_TOKENS = 8
DEVICES = [2, 3, 4, 6]
# Bandwidth and latency of each device's way to the switch, or of the one medium that all share.
WAYS = {
    "100M": ("100Mbps", "0.5ms", "SPLITDUPLEX"),
    "wifi": ("400Mbps", "2ms", "SHARED"),
    "1G": ("1Gbps", "0.5ms", "SPLITDUPLEX"),
    "10G": ("10Gbps", "0.05ms", "SPLITDUPLEX"),
}
SYSTEMS = {
    "csps": ["--strategy", "csps"],
    "csps-drop": ["--strategy", "csps", "--levels", 2, "--drop", 0.5],
    "galaxy": ["--strategy", "galaxy", "--allreduce", "ring,star"],
    "tensor": ["--strategy", "tensor", "--allreduce", "star"],
    "local": ["--strategy", "local"],
}
POINTS = {  # devices, network, rows
    "tandem-deep": [(2, "1G", 200), (2, "1G", 1000), (4, "1G", 400), (4, "1G", 1000), (4, "wifi", 400), (4, "wifi", 1000),
                    (6, "10G", 1000)],
    "long": [(2, "1G", 1024), (4, "1G", 4096), (4, "100M", 4096), (6, "wifi", 8192)],
}


TILED = {  # by name of the system
    f"{name}, {tiles} tiles": ["--strategy", "csps", *words, "--tiles", tiles]
    for name, words in (("no levels", []), ("2 levels", ["--levels", 2]), ("2 levels, half dropped", ["--levels", 2, "--drop", 0.5]))
    for tiles in (1, 2, 4, 8)
}
HIDING = [("tandem-deep", 4, "1G", 1000), ("tandem-deep", 4, "100M", 1000)]
DROPS = [0, 0.25, 0.5, 0.75]  # of the farther of two levels
SCORED = 910  # tokens of the plans that texts are scored with, as long as the documents


class Csps(Geometries):
    def __init__(self, arguments):
        super().__init__(arguments.tandem, arguments.folder, arguments.seconds)
        self.slowdown, self.rounds = arguments.slowdown, arguments.rounds
        self.until = time.monotonic() + 60 * arguments.minutes
        self.left = 0  # runs that a later call has to make

    def weights(self, model):
        if model != "long":
            return SCENARIOS / model
        folder = self.folder / model
        if not (folder / "config.json").exists():
            config = self.folder / "long.json"
            config.write_text(json.dumps(LONG))
            self.call("model", "random", "--config", config, "--out", folder, "--quiet")
        return folder

    def prompt_of(self, model, rows):
        """Any ids, none of them a special one: what dropping costs a text is `tandem eval`'s to say."""
        path = self.folder / f"{model}-{rows}.ids"
        path.write_text(" ".join(str(300 + (i * 7919) % 1200) for i in range(rows)))
        return path

    def platform(self, devices, way):
        NETWORKS["csps"] = WAYS[way]
        xml = self.folder / "platform.xml"
        xml.write_text(platform("csps", [self.slowdown] * devices))
        return xml

    def timeline(self, system):
        return ["--trace", self.folder / "trace.json"] if system in TILED else []

    def scores(self, devices, drop, documents):
        name = f"accuracy-{devices}-{drop}-{documents}"
        plan, scores = self.folder / f"{name}.plan.json", self.folder / f"{name}.json"
        if not scores.exists():
            weights = self.weights("tandem-deep")
            self.call("plan", "--platform", self.platform(devices, "1G"), "--model", weights, "--prompt-tokens", SCORED, "--new-tokens", 1,
                      "--strategy", "csps", "--levels", 2, "--drop", drop, "--out", plan, "--quiet")
            self.call("eval", "--weights", weights, "--plan", plan, "--emulate", "--limit", documents, "--cache", self.folder / "cache",
                      "--out", scores, "--quiet")
        return read(scores)

    def cell(self, model, devices, way, rows, system, measures):
        name = f"{model}-{'any' if system == 'local' else f'{devices}-{way}'}-{rows}-{system}"
        plan, predicted = self.folder / f"{name}.plan.json", self.folder / f"{name}.predicted.json"
        if not predicted.exists():
            xml = self.platform(devices, way)
            self.call("plan", "--platform", xml, "--model", self.weights(model), "--profile", self.profile(model), "--prompt-tokens",
                      rows, "--new-tokens", NEW_TOKENS, *{**SYSTEMS, **TILED}[system], "--out", plan, "--quiet")
            self.call("simulate", plan, "--out", predicted, "--quiet", *self.timeline(system))
        measured = [self.folder / f"{name}.measured-{i}.json" for i in range(self.rounds)] if measures else []
        for path in measured:
            if path.exists():
                continue
            if time.monotonic() > self.until:
                self.left += 1
                continue
            self.call("run", plan, "--weights", self.weights(model), "--emulate", "--allow-drift", "--cache", self.folder / "cache",
                      "--prompt-ids", self.prompt_of(model, rows), "--ignore-eos", "--out", path, "--quiet", *self.timeline(system))
        return read(predicted), [read(path) for path in measured if path.exists()]


def read(path):
    return json.loads(path.read_text())


def first(result):
    return result["metrics"]["ttft_s"]


def sent(result):
    return int(sum(device["bytes_sent"] for device in result["devices"]))


def fitted(drop):
    """Bits per byte that the measured fit says of the same part dropped at all levels in all layers that may."""
    model = read(SCENARIOS / "tandem-deep" / "eval" / "sparse_loss.json")
    return sum(interpolated(drop, model["knots"], term["loss"]) for term in model["terms"])


def interpolated(x, knots, values):
    right = next(i for i, knot in enumerate(knots) if knot >= x)
    if right == 0:
        return values[0]
    part = (x - knots[right - 1]) / (knots[right] - knots[right - 1])
    return values[right - 1] + part * (values[right] - values[right - 1])


def accuracies(bench, arguments):
    for devices in DEVICES:
        dense = None
        for drop in DROPS:
            scores = bench.scores(devices, drop, arguments.documents)
            bits, recall = scores["text"]["bits_per_byte"], scores["recall"]
            dense = bits if dense is None else dense
            yield {"devices": devices, "drop": drop, "documents": scores["text"]["documents"], "bits_per_byte": f"{bits:.7g}",
                   "loss": f"{bits - dense:.4g}", "loss_of_home4_by_fit": f"{fitted(drop):.4g}",
                   "right": recall["right"], "questions": recall["questions"]}


def hidden(bench):
    for model, devices, way, rows in HIDING:
        for system in TILED:
            predicted, measured = bench.cell(model, devices, way, rows, system, True)
            row = {"model": model, "devices": devices, "network": way, "rows": rows, "system": system,
                   "predicted_ttft_s": f"{first(predicted):.6g}", "predicted_hidden": f"{share(predicted):.4g}",
                   "measured_ttft_s": "", "measured_hidden": "", "least": "", "most": "", "bytes": ""}
            if measured:
                shares = [share(result) for result in measured]
                row.update(measured_ttft_s=f"{statistics.median(first(result) for result in measured):.6g}",
                           measured_hidden=f"{statistics.median(shares):.4g}", least=f"{min(shares):.4g}", most=f"{max(shares):.4g}",
                           bytes="as predicted" if all(sent(result) == sent(predicted) for result in measured) else "OTHERS")
            yield row


def share(result):
    return result["communication"]["prompt"]["hidden_fraction"]


def rows_of(bench, arguments):
    for model in arguments.models:
        for devices in DEVICES:
            for way in WAYS:
                for rows in ROWS[model]:
                    measures = arguments.points and (devices, way, rows) in POINTS[model]
                    made = {s: bench.cell(model, devices, way, rows, s, measures) for s in SYSTEMS}
                    alone = made["local"][1][0]["tokens"] if made["local"][1] else None
                    for system, (predicted, measured) in made.items():
                        row = {"model": model, "devices": devices, "network": way, "rows": rows, "system": system,
                               "predicted_ttft_s": f"{first(predicted):.6g}", "predicted_bytes": sent(predicted),
                               "measured_ttft_s": "", "least_s": "", "most_s": "", "measured_bytes": "", "tokens_of_local": ""}
                        if measured:
                            times = [first(result) for result in measured]
                            row.update(measured_ttft_s=f"{statistics.median(times):.6g}", least_s=f"{min(times):.6g}",
                                       most_s=f"{max(times):.6g}", measured_bytes=sent(measured[0]))
                            if alone is not None:
                                same = sum(a == b for a, b in zip(alone, measured[0]["tokens"]))
                                row["tokens_of_local"] = f"{same}/{len(alone)}"
                        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=20, help="of a profile that is not in the folder yet")
    parser.add_argument("--slowdown", type=float, default=8, help="of a device against this machine")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each measured cell, of which the median is told")
    parser.add_argument("--minutes", type=float, default=2.5, help="in which runs begin; 0: predictions alone")
    parser.add_argument("--models", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--documents", type=int, default=16, help="accuracy: held-out texts, and questions of each distance")
    parser.add_argument("what", choices=("map", "accuracy", "hidden"))
    arguments = parser.parse_args()
    bench = Csps(arguments)
    if arguments.what == "accuracy":
        bench.write("accuracy", list(accuracies(bench, arguments)))
        return
    bench.write(arguments.what, list(hidden(bench) if arguments.what == "hidden" else rows_of(bench, arguments)))
    if bench.left:
        print(f"{bench.left} runs are left to measure: call it again")


if __name__ == "__main__":
    main()
