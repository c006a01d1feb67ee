#!/usr/bin/env python3
"""Measures what messages and a cache in fewer bits (`tandem plan --wire-type --cache-type`) cost a model.

    format_loss.py --model ../tandem-tiny [--platform home4] [--tandem FILE] [--documents 16] [--parts 8] [--work DIR]

`tandem eval` scores held-out text in parts as plans of several strategies compute it, with messages and cache in f32,
and in each other format by itself. Every score is a line of MODEL/eval/formats.csv; a run that was stopped continues.
MODEL/eval/format_loss.json, which `tandem plan --max-loss` reads, has the loss of each format: the mean over the parts
of the bits per byte beyond f32's, plus two standard errors of that mean, of the strategy for which this is largest. A
format never counts as free: the least loss is 0.0000001.
"""

import argparse
import csv
import hashlib
import json
import math
import pathlib
import statistics
import sys
import time

from measured_model import run, weights_of

SCHEMA = "tandem.format_loss/1"
UNIT = "bits per byte more than with messages and cache in f32"
# By name, with flags: their messages are hidden rows, sums, or parts of sums.
STRATEGIES = {
    "pipeline": [], "tensor": ["--allreduce", "ring"], "galaxy": ["--tiles", "0"]}
MESSAGES = ("bf16", "q8_0")
CACHE = ("f16", "q8_0")
ERRORS = 2  # standard errors that are added to a mean
LEAST = 1e-7
COLUMNS = ("platform", "weights", "text_sha256", "documents", "parts", "prompt_tokens", "strategy", "messages", "cache", "part", "bytes", "bits")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def settings():
    """Returns (strategy, messages, cache): f32, each format by itself, and the narrowest of both at once."""
    formats = ([("f32", "f32")] + [(wire, "f32") for wire in MESSAGES] + [("f32", cache) for cache in CACHE]
               + [(MESSAGES[-1], CACHE[-1])])
    return [(strategy, wire, cache) for strategy in STRATEGIES for wire, cache in formats]


def lines_of(file):
    """Returns the lines of formats.csv by (strategy, messages, cache, part)."""
    with open(file) as known:
        return {(line["strategy"], line["messages"], line["cache"], int(line["part"])): line
                for line in csv.DictReader(known)}


class Bench:
    """Plans and scores of one model on one platform."""

    def __init__(self, options, weights):
        self.options = options
        self.lines = {}
        lines = (options.model / "eval" / "heldout.jsonl").read_text().splitlines(keepends=True)[:options.documents]
        if len(lines) < 2 * options.parts:
            sys.exit(f"format_loss: {len(lines)} documents, expected {2 * options.parts} or more for {options.parts} "
                     "parts; give fewer parts")
        self.texts = []
        for part in range(options.parts):
            self.texts.append(options.work / f"text{part}.jsonl")
            self.texts[part].write_text("".join(lines[part::options.parts]))
        self.recall = options.work / "recall.jsonl"
        self.recall.write_text((options.model / "eval" / "recall.jsonl").read_text().splitlines(keepends=True)[0])
        self.file = options.model / "eval" / "formats.csv"
        tails = [file["tail_sha256"] for file in weights]
        self.common = {"platform": options.platform,
                       "weights": (tails[0] if len(tails) == 1 else digest("".join(tails)))[:16],
                       "text_sha256": digest("".join(lines))[:16], "documents": str(len(lines)),
                       "parts": str(options.parts), "prompt_tokens": str(options.prompt_tokens)}

    def plan(self, strategy, wire, cache):
        """Returns the file of a plan."""
        out = self.options.work / "plan.json"
        run([self.options.tandem, "plan", "--strategy", strategy, *STRATEGIES[strategy], "--platform",
             self.options.platform, "--model", self.options.model, "--dtype", "f32", "--wire-type", wire, "--cache-type",
             cache, "--chunk", "whole", "--partition", "equal", "--prompt-tokens", self.options.prompt_tokens,
             "--new-tokens", 1, "--out", out, "--quiet"], "format_loss")
        return out

    def score(self, plan, part):
        """Returns bytes and bits of a part of the text."""
        scores = json.loads(run(
            [self.options.tandem, "eval", "--plan", plan, "--emulate", "--weights", self.options.model, "--text",
             self.texts[part], "--recall", self.recall, "--cache", self.options.work / "cache", "--json"],
            "format_loss"))["text"]
        return {"bytes": str(scores["bytes"]), "bits": f"{scores['bits']:.6f}"}

    def read(self):
        """Reads the lines of formats.csv that are there; ends where they are of something else."""
        if not self.file.exists():
            return
        self.lines = lines_of(self.file)
        for line in self.lines.values():
            for name, value in self.common.items():
                if line.get(name) != value:
                    sys.exit(f"format_loss: {self.file}: {name} '{line.get(name)}', expected '{value}' as of this run; "
                             "move the file away to measure again")

    def write(self):
        """Writes formats.csv, so that a run that is stopped continues."""
        with open(self.file, "w", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.lines.values())

    def measure(self):
        """Scores what formats.csv does not have yet."""
        for strategy, wire, cache in settings():
            began = time.time()
            parts = [part for part in range(self.options.parts) if (strategy, wire, cache, part) not in self.lines]
            plan = self.plan(strategy, wire, cache) if parts else None
            for part in parts:
                self.lines[strategy, wire, cache, part] = self.common | {
                    "strategy": strategy, "messages": wire, "cache": cache, "part": str(part)} | self.score(plan, part)
                self.write()
            if parts:
                print(f"{strategy}, messages in {wire}, cache in {cache}: {time.time() - began:.1f} s", flush=True)


def differences(lines, strategy, wire, cache):
    """Returns the bits per byte beyond those of f32, by part."""
    found = []
    for part in sorted({part for of, _, _, part in lines if of == strategy}):
        line, whole = lines[strategy, wire, cache, part], lines[strategy, "f32", "f32", part]
        found.append((float(line["bits"]) - float(whole["bits"])) / float(whole["bytes"]))
    return found


def loss_of(lines, wire, cache):
    """Returns the loss of formats: of the strategy that loses most, its mean, and the mean plus standard errors."""
    most = None
    for strategy in dict.fromkeys(key[0] for key in lines):
        found = differences(lines, strategy, wire, cache)
        mean = statistics.fmean(found)
        loss = mean + ERRORS * statistics.stdev(found) / math.sqrt(len(found))
        if most is None or loss > most[0]:
            most = (loss, mean, strategy)
    return {"loss": round(max(LEAST, math.ceil(most[0] * 1e7) / 1e7), 7), "mean": round(most[1], 7),
            "strategy": most[2]}


def fitted(lines):
    """Returns of format_loss.json what follows from the lines of formats.csv alone."""
    first = next(iter(lines.values()))
    whole = [line for (_, wire, cache, _), line in lines.items() if wire == cache == "f32"]
    strategies = list(dict.fromkeys(key[0] for key in lines))
    of_first = [line for line in whole if line["strategy"] == strategies[0]]
    total = lambda name: sum(float(line[name]) for line in of_first)
    return {
        "strategies": strategies,
        "messages": {wire: loss_of(lines, wire, "f32") for wire in MESSAGES},
        "cache": {cache: loss_of(lines, "f32", cache) for cache in CACHE},
        "both": {"messages": MESSAGES[-1], "cache": CACHE[-1]} | loss_of(lines, MESSAGES[-1], CACHE[-1]),
        "measured": {"documents": int(first["documents"]), "parts": len(of_first), "bytes": int(total("bytes")),
                     "f32_bits_per_byte": round(total("bits") / total("bytes"), 7),
                     "text_sha256": first["text_sha256"]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--model", type=pathlib.Path, required=True, help="model folder with weights and eval/")
    parser.add_argument("--platform", default="home4")
    parser.add_argument("--tandem", type=pathlib.Path, default=here.parents[2] / "build/release/bin/tandem")
    parser.add_argument("--documents", type=int, default=16, help="of held-out text")
    parser.add_argument("--parts", type=int, default=8, help="of the text, by whose scores an error is estimated")
    parser.add_argument("--prompt-tokens", type=int, default=900, help="of the plans")
    parser.add_argument("--work", type=pathlib.Path, help="folder of plans and slices [out/format_loss/MODEL]")
    options = parser.parse_args()
    options.work = options.work or here.parents[2] / "out" / "format_loss" / options.model.resolve().name
    options.work.mkdir(parents=True, exist_ok=True)
    weights = weights_of(options.model, "format_loss")
    bench = Bench(options, weights)
    bench.read()
    bench.measure()
    plan = json.loads(bench.plan("tensor", "f32", "f32").read_text())
    out = options.model / "eval" / "format_loss.json"
    out.write_text(json.dumps({
        "schema": SCHEMA, "unit": UNIT,
        "model": {"name": plan["model"]["name"], "config": plan["model"]["config"]},
        "weights": weights, "platform": plan["cluster"]["name"], "devices": len(plan["devices"])}
        | fitted(bench.lines), indent=2) + "\n")
    print(out)


if __name__ == "__main__":
    main()
