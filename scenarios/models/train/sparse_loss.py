#!/usr/bin/env python3
"""Measures what sparse attention (`tandem plan --strategy csps --levels --drop`) costs a model, and fits a model of it.

    sparse_loss.py --model ../tandem-tiny [--platform home4] [--tandem FILE] [--documents 16] [--questions 4]
                   [--bands 3] [--drawn 24] [--work DIR] [--fit-only]

Of a grid of levels, ratios and bands of layers `tandem eval` tells bits per byte of held-out text and recall by
distance; every measurement is a line of MODEL/eval/sparse.csv. A run that was stopped goes on: what the file has is
not measured again. What is fitted to the lines goes to MODEL/eval/sparse_loss.json, which `tandem plan --max-loss`
and `--max-ttft` read. Needs Debian's python3-scipy and python3-sentencepiece.

The fit is a sum of functions of how much is dropped, in a band of layers or all, at a level or all. Each is linear
between knots, 0 at 0, and never falls (non-negative least squares over its rises), so that nothing dropped costs
nothing, exactly, and more dropped never costs less.
"""

import argparse
import csv
import itertools
import json
import pathlib
import random
import subprocess
import sys
import time

import numpy
from scipy import optimize

from measured_model import run as run_program, weights_of

SCHEMA = "tandem.sparse_loss/1"
UNIT = "bits per byte more than with nothing dropped"
RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
SMALL = (0.02, 0.05)
KNOTS = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
FOLDS, SEED = 5, 1
MOST_LEVELS = 8


# The fit

def terms_of(bands, levels):
    """Returns the (bands, levels) whose mean ratios the loss is a function of: each alone, and several together."""
    some_bands = [(band,) for band in range(bands)] + ([tuple(range(bands))] if bands > 1 else [])
    some_levels = [(level,) for level in range(2, levels + 1)]
    if levels > 2:
        some_levels.append(tuple(range(2, levels + 1)))
    return list(itertools.product(some_bands, some_levels))


def rises(x, knots):
    """Returns of each x the part of each stretch between knots that lies below it: [x, stretch]."""
    low, high = numpy.array(knots[:-1]), numpy.array(knots[1:])
    return numpy.clip((numpy.asarray(x)[:, None] - low) / (high - low), 0.0, 1.0)


def features(drops, sizes, terms, knots):
    """Returns the rises of all terms: [setting, terms * stretches]. `drops`: [setting, band, level], `sizes`: layers
    by band."""
    parts = []
    for bands, levels in terms:
        bands, levels = list(bands), [level - 2 for level in levels]
        weights = numpy.array(sizes, float)[bands]
        parts.append(rises(drops[:, bands][:, :, levels].mean(2) @ (weights / weights.sum()), knots))
    return numpy.concatenate(parts, 1)


def fit(drops, losses, sizes, terms, knots):
    """Returns the rises of each term, none negative: [terms * stretches]."""
    return optimize.nnls(features(drops, sizes, terms, knots), losses)[0]


def held_out(drops, losses, sizes, terms, knots):
    """Returns the errors of settings that a fit to four of five parts did not see, and those of the parts' mean."""
    order = list(range(len(losses)))
    random.Random(SEED).shuffle(order)
    errors, of_mean = numpy.zeros(len(losses)), numpy.zeros(len(losses))
    for fold in range(FOLDS):
        held = order[fold::FOLDS]
        seen = [index for index in order if index not in held]
        found = fit(drops[seen], losses[seen], sizes, terms, knots)
        errors[held] = features(drops[held], sizes, terms, knots) @ found - losses[held]
        of_mean[held] = losses[seen].mean() - losses[held]
    return errors, of_mean


# The measurements

def settings_of(bands, levels, seed=SEED, drawn=24):
    """Returns the ratios to measure: [band][level] each, nothing dropped first."""
    alike = lambda by_level: tuple(tuple(by_level) for _ in range(bands))
    beside = levels - 1
    wanted = [alike([0.0] * beside)]
    wanted += [alike([ratio] * beside) for ratio in RATIOS + SMALL]
    for ratio in RATIOS:  # as --drop has it, where each level keeps half of what the one before keeps
        halved = [1.0 - (1.0 - ratio) / 2**level for level in range(beside)]
        if halved[-1] <= KNOTS[-1]:
            wanted.append(alike(halved))
    if bands * beside == 1:
        wanted += [alike([step / 20]) for step in range(1, 20)]
    if beside > 1:
        wanted += [alike([0.0] * (beside - 1) + [ratio]) for ratio in RATIOS]
    if bands > 1:
        for band in range(bands):
            for by_level in [[ratio] * beside for ratio in (0.25, 0.5, 0.75, 0.95)] + [
                    [0.0] * (beside - 1) + [ratio] for ratio in (0.5, 0.95) if beside > 1]:
                wanted.append(tuple(tuple(by_level) if index == band else (0.0,) * beside for index in range(bands)))
    generator = random.Random(seed)
    if bands * beside > 1:
        for _ in range(drawn):
            wanted.append(tuple(tuple(sorted(generator.choice((0.0,) + RATIOS) for _ in range(beside)))
                                for _ in range(bands)))
    return list(dict.fromkeys(tuple(tuple(round(ratio, 6) for ratio in by_level) for by_level in one)
                              for one in wanted))


def bands_of(layers, count):
    """Returns the layers that may drop, all but the first two and the last, in `count` runs: [(begin, end)]."""
    droppable = layers - 3
    if droppable < 1:
        sys.exit(f"sparse_loss: a model of {layers} layers, expected 4 or more, as the first two and the last drop "
                 "nothing; take a deeper one")
    count = min(count, droppable)
    bounds = [2 + droppable * index // count for index in range(count + 1)]
    return list(zip(bounds, bounds[1:]))


def run(words, **more):
    """Returns what a command prints."""
    return run_program(words, "sparse_loss", **more)


class Bench:
    """Plans and scores of one model on one platform."""

    def __init__(self, options):
        self.options = options
        self.plan_file = options.work / "plan.json"
        self.base = {}
        for levels in range(2, MOST_LEVELS + 1):
            words = [options.tandem, "plan", "--strategy", "csps", "--platform", options.platform, "--model",
                     options.model, "--levels", levels, "--drop", 0, "--prompt-tokens", options.prompt_tokens,
                     "--new-tokens", 1, "--out", self.plan_file, "--quiet"]
            if levels > 2 and subprocess.run([str(word) for word in words], capture_output=True).returncode != 0:
                break  # the network tells no more apart
            run(words)
            self.base[levels] = json.loads(self.plan_file.read_text())
        self.levels = max(self.base)
        self.plan = self.base[self.levels]
        self.bands = bands_of(self.plan["model"]["config"]["num_hidden_layers"], options.bands)
        self.recall = options.work / "recall.jsonl"
        kept = {}
        with open(options.model / "eval" / "recall.jsonl") as file:
            for line in file:
                kept.setdefault(json.loads(line)["distance"], []).append(line)
        self.recall.write_text("".join(line for lines in kept.values() for line in lines[:options.questions]))

    def rows(self):
        """Returns the part of a prompt's rows at each place."""
        columns = {device["name"]: device["part"]["columns"] for device in self.plan["devices"]}
        sizes = [columns[name][1] - columns[name][0] for name in self.plan["sparse_attention"]["order"]]
        return [size / sum(sizes) for size in sizes]

    def lengths(self, documents):
        """Returns how many tokens the shortest and the longest of the documents have."""
        import sentencepiece
        tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(self.options.model / "tokenizer.model"))
        with open(self.options.model / "eval" / "heldout.jsonl") as file:
            sizes = [1 + len(tokenizer.encode(json.loads(line)["text"])) for line in itertools.islice(file, documents)]
        return [min(sizes), max(sizes)]

    def score(self, levels, drops):
        """Returns what `tandem eval` says of a setting."""
        plan = json.loads(json.dumps(self.base[levels]))
        for (begin, end), by_level in zip(self.bands, drops):
            for layer in range(begin, end):
                plan["sparse_attention"]["drop"][layer] = list(by_level)
        self.plan_file.write_text(json.dumps(plan, indent=2) + "\n")
        return json.loads(run([
            self.options.tandem, "eval", "--plan", self.plan_file, "--emulate", "--weights", self.options.model,
            "--recall", self.recall, "--limit", max(self.options.documents, self.options.questions), "--cache",
            self.options.work / "cache", "--json"]))


def line_of(bench, levels, drops, scores, weights):
    """Returns a line of sparse.csv."""
    line = {"platform": bench.options.platform, "weights": weights[0]["tail_sha256"][:16], "levels": levels}
    for (begin, end), by_level in zip(bench.bands, drops):
        line[f"layers_{begin}_to_{end - 1}"] = " ".join(f"{ratio:g}" for ratio in by_level)
    text, recall = scores["text"], scores["recall"]
    line |= {"documents": text["documents"], "bytes": text["bytes"], "tokens": text["tokens"],
             "text_sha256": text["sha256"][:16], "bits_per_byte": f"{text['bits_per_byte']:.7f}",
             "questions": recall["questions"], "right": recall["right"]}
    for part in recall["distances"]:
        line[f"right_of_{part['questions']}_at_{part['distance']}"] = part["right"]
    return line


def check_lines(file, lines, platform, bands, weights):
    """Ends unless the lines of sparse.csv were measured of these weights and bands, on this platform."""
    for line in lines:
        for name, value in (("platform", platform), ("weights", weights[0]["tail_sha256"][:16])):
            if line.get(name) != value:
                sys.exit(f"sparse_loss: {file}: {name} '{line.get(name)}', expected '{value}' as of this run; move the "
                         "file away to measure again")
    if lines and bands_in(lines) != list(bands):
        sys.exit(f"sparse_loss: {file}: bands {bands_in(lines)}, expected {list(bands)} as of this run; give '--bands "
                 f"{len(bands_in(lines))}', or move the file away to measure again")


def known_lines(bench, file, weights):
    """Returns the lines that sparse.csv has, none if there is no such file."""
    if not file.exists():
        return []
    with open(file) as known:
        lines = list(csv.DictReader(known))
    check_lines(file, lines, bench.options.platform, bench.bands, weights)
    return lines


def measure(bench, file, weights):
    """Returns all lines, measured now or before, in order."""
    lines = known_lines(bench, file, weights)
    key = lambda line: tuple(value for name, value in line.items() if name == "levels" or name.startswith("layers_"))
    known = {key(line) for line in lines}
    wanted = [(bench.levels, drops) for drops in settings_of(
        len(bench.bands), bench.levels, drawn=bench.options.drawn)]
    if bench.levels > 2:  # two levels are as more of them whose ratios are alike
        wanted += [(2, tuple((ratio,) for _ in bench.bands)) for ratio in (0.5, 0.9)]
    for number, (levels, drops) in enumerate(wanted):
        if (str(levels),) + tuple(" ".join(f"{ratio:g}" for ratio in by_level) for by_level in drops) in known:
            continue
        began = time.time()
        line = line_of(bench, levels, drops, bench.score(levels, drops), weights)
        same = ("documents", "text_sha256", "questions")
        if lines and (list(lines[0]) != list(line) or any(lines[0][name] != str(line[name]) for name in same)):
            sys.exit(f"sparse_loss: {file}: measured of other documents or questions, expected those of this run; move "
                     "it away")
        lines.append({name: str(value) for name, value in line.items()})
        with open(file, "w", newline="") as out:
            writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        print(f"{number + 1} of {len(wanted)}: levels {levels}, {drops}: {line['bits_per_byte']} bits per byte, "
              f"{line['right']} of {line['questions']} right, {time.time() - began:.1f} s", flush=True)
    return lines


def bands_in(lines):
    """Returns the bands of the columns of sparse.csv: [(begin, end)]."""
    names = [name.split("_") for name in lines[0] if name.startswith("layers_")]
    return [(int(first), int(last) + 1) for _, first, _, last in names]


def fitted(lines):
    """Returns of sparse_loss.json what follows from the lines of sparse.csv alone: bands, knots, terms, measured,
    held_out."""
    bands, levels = bands_in(lines), max(int(line["levels"]) for line in lines)
    names = [f"layers_{begin}_to_{end - 1}" for begin, end in bands]
    ratios = lambda line: [[float(ratio) for ratio in line[name].split()] for name in names]
    deepest = [line for line in lines if int(line["levels"]) == levels]
    dense = next(float(line["bits_per_byte"]) for line in deepest if not numpy.any(ratios(line)))
    lines = [line for line in deepest if numpy.any(ratios(line))]
    drops = numpy.array([ratios(line) for line in lines])
    losses = numpy.array([float(line["bits_per_byte"]) - dense for line in lines])
    sizes = [end - begin for begin, end in bands]
    terms = terms_of(len(sizes), levels)
    errors, of_mean = held_out(drops, losses, sizes, terms, KNOTS)
    found = fit(drops, losses, sizes, terms, KNOTS).reshape(len(terms), -1)
    rms = lambda values: float(numpy.sqrt((values**2).mean()))
    print(f"{len(lines)} settings, dense {dense:.5f} bits per byte, losses {losses.min():.5f} to {losses.max():.5f}; "
          f"held out ({FOLDS} folds) rms {rms(errors):.5f}, worst {abs(errors).max():.5f}, predicting the mean "
          f"{rms(of_mean):.5f}; fit to all rms "
          f"{rms(features(drops, sizes, terms, KNOTS) @ found.reshape(-1) - losses):.5f}")
    written = []
    for (of_bands, of_levels), rise in zip(terms, found):
        loss = numpy.concatenate(([0.0], numpy.cumsum(numpy.floor(rise * 1e7) / 1e7)))
        if loss[-1] > 0.0:
            written.append({"bands": list(of_bands), "levels": list(of_levels),
                            "loss": [round(float(value), 7) for value in loss]})
    return {
        "bands": [list(band) for band in bands], "knots": list(KNOTS), "terms": written,
        "measured": {"settings": len(lines), "documents": int(lines[0]["documents"]), "bytes": int(lines[0]["bytes"]),
                     "dense_bits_per_byte": round(dense, 7), "text_sha256": lines[0]["text_sha256"]},
        "held_out": {"folds": FOLDS, "seed": SEED, "rms": round(rms(errors), 7),
                     "worst": round(float(abs(errors).max()), 7), "mean_rms": round(rms(of_mean), 7)}}


def loss_model(bench, lines, weights):
    """Returns what is written to sparse_loss.json."""
    return {
        "schema": SCHEMA, "unit": UNIT,
        "model": {"name": bench.plan["model"]["name"], "config": bench.plan["model"]["config"]},
        "weights": weights,
        "places": {"platform": bench.plan["cluster"]["name"], "rows": [round(part, 6) for part in bench.rows()],
                   "groups": bench.plan["sparse_attention"]["groups"],
                   "prompt_tokens": bench.lengths(int(lines[0]["documents"]))}} | fitted(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--model", type=pathlib.Path, required=True, help="model folder with weights and eval/")
    parser.add_argument("--platform", default="home4")
    parser.add_argument("--tandem", type=pathlib.Path, default=here.parents[2] / "build/release/bin/tandem")
    parser.add_argument("--documents", type=int, default=16, help="of held-out text")
    parser.add_argument("--questions", type=int, default=4, help="of each distance")
    parser.add_argument("--bands", type=int, default=3, help="runs of layers that drop alike")
    parser.add_argument("--drawn", type=int, default=24, help="settings besides that are drawn, with bands apart")
    parser.add_argument("--prompt-tokens", type=int, default=900, help="of the plan, for its parts")
    parser.add_argument("--work", type=pathlib.Path, help="folder of plans and slices [out/sparse_loss/MODEL]")
    parser.add_argument("--fit-only", action="store_true", help="of what was measured")
    options = parser.parse_args()
    options.work = options.work or here.parents[2] / "out" / "sparse_loss" / options.model.resolve().name
    options.work.mkdir(parents=True, exist_ok=True)
    weights = weights_of(options.model, "sparse_loss")
    bench = Bench(options)
    file = options.model / "eval" / "sparse.csv"
    lines = known_lines(bench, file, weights) if options.fit_only else measure(bench, file, weights)
    if not lines:
        sys.exit(f"sparse_loss: {file}: no measurements, expected some; run without '--fit-only'")
    out = options.model / "eval" / "sparse_loss.json"
    out.write_text(json.dumps(loss_model(bench, lines, weights), indent=2) + "\n")
    print(out)


if __name__ == "__main__":
    main()
