#!/usr/bin/env python3
"""What a new token costs whose prompt's keys and values lie on several devices: CSPS's Table 3, at sizes that run here.

    decode_moves.py --tandem build/release/bin/tandem --folder out/decode-moves [--rounds 5] [--pace nominal]

tandem-tiny on 2 to 4 emulated devices that are alike, prompts of 200, 500 and 900 tokens in equal parts, strategy spread: queries
move (q), keys and values move each time (kv), or once, after the prompt (migrate). Of each: bytes that all devices send, time to
the first token, to the second (after a migration), and from token to token from there on, predicted by SimGrid and of runs:
medians of rounds, in each of which the ways take turns. With `--pace measured` each round first measures this machine, what is
predicted is by that profile, and computing takes the devices' slowdown times what it took; with nominal, what the cost model says
of such devices, so that times are replayed: they follow the prediction's formulas. Bytes must be those predicted, and the tokens of all ways equal; else
it fails. Writes FOLDER/decode-moves-PACE.csv.
"""

import argparse
import json
import pathlib
import statistics
import sys

from emulated import SCENARIOS, Geometries
from emulation_fidelity import platform

WEIGHTS = SCENARIOS / "tandem-tiny"
WAYS = ["q", "kv", "migrate"]
DEVICES = [2, 3, 4]
PROMPTS = [200, 500, 900]
NEW = 12
SLOWDOWN = 4


class Moves(Geometries):
    def result(self, *words):
        out = self.folder / "result.json"
        self.call(*words, "--out", out, "--quiet")
        return json.loads(out.read_text())

    def measure_machine(self):
        self.call("profile", "--model", WEIGHTS, "--seconds", self.seconds, "--threads", 1, "--disk", "none", "--out", self.machine, "--quiet")

    @property
    def machine(self):
        return self.folder / "machine.json"

    def plan(self, network, devices, prompt, way, pace):
        name = f"{network}-{devices}-{prompt}-{way}"
        xml, plan = self.folder / f"{network}-{devices}.xml", self.folder / f"{name}.json"
        xml.write_text(platform(network, [SLOWDOWN] * devices))
        speeds = ["--profile", self.machine] if pace == "measured" else []
        self.call("plan", "--platform", xml, "--model", WEIGHTS, "--strategy", "spread", "--partition", "equal", "--decode-ffn", "owner",
                  "--decode-moves", way, "--prompt-tokens", prompt, "--new-tokens", NEW, *speeds, "--out", plan, "--quiet")
        return plan

    def run(self, plan, prompt, pace):
        ids = self.folder / f"prompt-{prompt}.ids"
        ids.write_text(" ".join(str(5 + i * 31 % 250) for i in range(prompt)))
        return self.result("run", plan, "--weights", WEIGHTS, "--cache", self.folder / "cache", "--prompt-ids", ids, "--emulate",
                           "--pace", pace, *(["--allow-drift"] if pace == "measured" else []), "--ignore-eos")


def figures(result):
    times = result["metrics"]["token_times_s"]
    return {"ttft_s": times[0], "second_s": times[1] - times[0],
            "token_s": statistics.median(b - a for a, b in zip(times[1:], times[2:])), "all_s": times[-1]}


def sent(result):
    return [round(device["bytes_sent"]) for device in result["devices"]]


def rows_of(bench, network, devices, prompt, options):
    both = {way: [] for way in WAYS}  # figures of predictions and runs, by round
    bytes_sent, tokens = {}, None
    for _ in range(options.rounds):
        if options.pace == "measured":
            bench.measure_machine()
        for way in WAYS:
            plan = bench.plan(network, devices, prompt, way, options.pace)
            predicted, result = bench.result("simulate", plan), bench.run(plan, prompt, options.pace)
            if sent(result) != sent(predicted):
                sys.exit(f"{plan}: devices sent {sent(result)} bytes, predicted {sent(predicted)}")
            bytes_sent[way] = sum(sent(predicted))
            tokens = tokens or result["tokens"]
            if result["tokens"] != tokens:
                sys.exit(f"{plan}: tokens {result['tokens']}, with other ways {tokens}")
            both[way].append((figures(predicted), figures(result)))
            kind = result["kind"]  # "replayed" at nominal pace
    for way in WAYS:
        row = {"network": network, "devices": devices, "prompt": prompt, "way": way, "bytes": bytes_sent[way], "kind": kind}
        for key in both[way][0][0]:
            run = [one[key] for _, one in both[way]]
            row |= {f"predicted_{key}": f"{statistics.median(one[key] for one, _ in both[way]):.6g}",
                    f"run_{key}": f"{statistics.median(run):.6g}", f"lowest_{key}": f"{min(run):.6g}",
                    f"highest_{key}": f"{max(run):.6g}"}
        yield row


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tandem", default="build/release/bin/tandem", type=pathlib.Path)
    arguments.add_argument("--folder", default="out/decode-moves", type=pathlib.Path)
    arguments.add_argument("--rounds", default=5, type=int)
    arguments.add_argument("--pace", default="measured", choices=["measured", "nominal"])
    arguments.add_argument("--networks", default=["home", "wifi"], nargs="+", help="of emulation_fidelity.py")
    arguments.add_argument("--devices", default=DEVICES, nargs="+", type=int)
    arguments.add_argument("--prompts", default=PROMPTS, nargs="+", type=int)
    options = arguments.parse_args()
    bench, rows = Moves(options.tandem, options.folder, 3), []
    for network in options.networks:
        for devices in options.devices:
            for prompt in options.prompts:
                for row in rows_of(bench, network, devices, prompt, options):
                    print(f"{network} {devices} {prompt:3d} {row['way']:7s} {row['bytes']:9d} B  " + "  ".join(
                        f"{key} {1e3 * float(row[f'predicted_{key}_s']):.2f} {1e3 * float(row[f'run_{key}_s']):.2f}"
                        for key in ("ttft", "second", "token", "all")), flush=True)
                    rows.append(row)
    bench.write(f"decode-moves-{options.pace}", rows)


if __name__ == "__main__":
    main()
