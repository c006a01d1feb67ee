#!/usr/bin/env python3
"""Checks the fit of scenarios/models/train/sparse_loss.py, and what it and format_loss.py made of measurements.

    sparse_loss_fit.py SCENARIOS_MODELS
"""

import csv
import itertools
import json
import pathlib
import sys

import numpy

models = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(models / "train"))
import format_loss
import sparse_loss


def check(condition, what):
    if not condition:
        sys.exit(f"sparse_loss_fit: {what}")


def equal(one, other):
    """Equal but for numbers, which another machine may round otherwise."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return abs(one - other) <= 2e-6 if isinstance(one, float) else one == other


def loss_of(document, drops):
    """The loss of [setting, band, level] by the file's terms, as the planner reads them."""
    sizes = numpy.array([end - begin for begin, end in document["bands"]], float)
    total = numpy.zeros(len(drops))
    for term in document["terms"]:
        bands, levels = term["bands"], [level - 2 for level in term["levels"]]
        mean = drops[:, bands][:, :, levels].mean(2) @ (sizes[bands] / sizes[bands].sum())
        total += numpy.interp(mean, document["knots"], term["loss"])
    return total


def check_synthetic(bands, levels, noise):
    """A loss of the fit's own form is found again; noise does not make it fall."""
    generator = numpy.random.default_rng(bands * 10 + levels)
    settings = [setting for setting in sparse_loss.settings_of(bands, levels, drawn=60) if numpy.any(setting)]
    drops = numpy.array(settings)
    sizes = list(range(1, bands + 1))
    loss = lambda x: (0.01 * x[:, 0, -1] + 0.02 * x[:, :, 0].mean(1) ** 2)
    losses = loss(drops) + noise * generator.normal(size=len(drops))
    terms = sparse_loss.terms_of(bands, levels)
    found = sparse_loss.fit(drops, losses, sizes, terms, sparse_loss.KNOTS)
    check((found >= 0.0).all(), "a rise is negative")
    predict = lambda x: sparse_loss.features(x, sizes, terms, sparse_loss.KNOTS) @ found
    check(predict(numpy.zeros((1, bands, levels - 1)))[0] == 0.0, "nothing dropped costs something")
    less = numpy.sort(generator.uniform(0.0, 0.95, (200, bands, levels - 1)), 2)
    more = numpy.minimum(0.95, less + generator.uniform(0.0, 0.3, less.shape))
    check((predict(more) >= predict(less)).all(), "more dropped costs less")
    errors, of_mean = sparse_loss.held_out(drops, losses, sizes, terms, sparse_loss.KNOTS)
    rms = lambda values: numpy.sqrt((values**2).mean())
    check(rms(errors) < 0.3 * rms(of_mean), f"{bands} bands, {levels} levels: held-out error {rms(errors)}, of the "
          f"mean {rms(of_mean)}")


for bands, levels, noise in itertools.product((1, 3), (2, 3), (0.0, 2e-4)):
    check_synthetic(bands, levels, noise)
check(sparse_loss.bands_of(12, 3) == [(2, 5), (5, 8), (8, 11)], "bands of 12 layers")
check(sparse_loss.bands_of(4, 3) == [(2, 3)], "bands of 4 layers")



def refused(lines, platform, bands, weights):
    try:
        sparse_loss.check_lines("sparse.csv", lines, platform, bands, weights)
    except SystemExit:
        return True
    return False


LINE = {"platform": "home4", "weights": "0123456789abcdef", "levels": "2", "layers_2_to_4": "0.1", "layers_5_to_6": "0"}
DIGEST, BANDS = [{"tail_sha256": "0123456789abcdef" + 48 * "0"}], [(2, 5), (5, 7)]
check(not refused([LINE], "home4", BANDS, DIGEST), "lines of this run are refused")
check(refused([LINE], "shelf4", BANDS, DIGEST), "lines of another platform pass")
check(refused([LINE, LINE | {"weights": "1123456789abcdef"}], "home4", BANDS, DIGEST), "lines of other weights pass")
check(refused([LINE], "home4", [(2, 7)], DIGEST), "lines of other bands pass")

for folder in sorted(models.glob("*/eval/sparse_loss.json")):
    model = folder.parent.parent
    document = json.loads(folder.read_text())
    with open(model / "eval" / "sparse.csv") as file:
        lines = list(csv.DictReader(file))
    made = sparse_loss.fitted(lines)
    for name, value in made.items():
        if name != "terms":
            check(equal(document[name], value), f"{folder}: '{name}' is not what the fit makes of sparse.csv; make it "
                  "again with sparse_loss.py --fit-only")
    check(document["weights"] == sparse_loss.weights_of(model, "sparse_loss"), f"{folder}: measured of other weights")
    names = [f"layers_{begin}_to_{end - 1}" for begin, end in document["bands"]]
    levels = len(document["places"]["groups"]) + 2
    drops, losses = [], []
    for line in lines:
        by_band = [[float(ratio) for ratio in line[name].split()] for name in names]
        # Two levels are as more of them whose ratios are equal.
        drops.append([by_level if int(line["levels"]) == levels else by_level * (levels - 1) for by_level in by_band])
        losses.append(float(line["bits_per_byte"]) - document["measured"]["dense_bits_per_byte"])
    # Several sets of terms predict the same losses of what was measured, and which one the solver ends in depends on
    # how a machine rounds: so it is the losses that are compared.
    differ = loss_of(made, numpy.array(drops)) - loss_of(document, numpy.array(drops))
    check(abs(differ).max() <= 1e-5, f"{folder}: 'terms' are not what the fit makes of sparse.csv, but "
          f"{abs(differ).max()} off; make it again with sparse_loss.py --fit-only")
    errors = loss_of(document, numpy.array(drops)) - numpy.array(losses)
    check(abs(errors).max() <= 2 * document["held_out"]["worst"], f"{folder}: a measured setting is off by "
          f"{abs(errors).max()}")

for folder in sorted(models.glob("*/eval/format_loss.json")):
    model = folder.parent.parent
    document = json.loads(folder.read_text())
    for name, value in format_loss.fitted(format_loss.lines_of(model / "eval" / "formats.csv")).items():
        check(equal(document[name], value), f"{folder}: '{name}' is not what format_loss.py makes of formats.csv")
    check(document["weights"] == sparse_loss.weights_of(model, "sparse_loss_fit"), f"{folder}: measured of other "
          "weights")
    prices = [price["loss"] for of in ("messages", "cache") for price in document[of].values()]
    check(min(prices) > 0.0, f"{folder}: a format that costs nothing")
    both = document["both"]
    check(both["mean"] <= document["messages"][both["messages"]]["loss"] + document["cache"][both["cache"]]["loss"],
          f"{folder}: both at once lose more than their sum")
