#!/usr/bin/python3
"""Draws results of one plan side by side from the CSV of `tandem compare`.

usage: compare.py compare.csv STEM      writes STEM.png and STEM.svg
"""

import math

from chart import INK, main, plt
from matplotlib.ticker import MaxNLocator

# By kind of result; of several of a kind, one after another.
COLOURS = {
    "predicted": ["#3b75af", "#77a8d4", "#1f4566", "#a9c8e4"],
    "replayed": ["#7f7f7f", "#b0b0b0", "#4d4d4d"],
    "measured": ["#e0862d", "#b5541c", "#f0b57a", "#7d3c12", "#d9a441"],
}
BYTES = [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")]
SECONDS = [(1, "s"), (1e-3, "ms"), (1e-6, "µs")]

plt.rcParams.update({"axes.grid": True, "axes.grid.axis": "y"})


def number(text):
    return float(text) if text else math.nan


def is_deviation(column):
    return column.split(" ")[0] in ("absolute", "percent", "basis")


class Results:
    """The columns of the CSV: results by label, and how all but the reference deviate from it."""

    def __init__(self, rows):
        columns = list(rows[0])[4:] if rows else ["predicted", "measured"]
        self.labels = [column for column in columns if not is_deviation(column)]
        # Of two results whose second is the reference, deviations carry no label.
        pair = {self.labels[0]: "percent"} if "percent" in columns else {}
        self.percent = pair or {label: f"percent {label}" for label in self.labels if f"percent {label}" in columns}
        self.reference = next((label for label in self.labels if label not in self.percent), self.labels[0])
        for row in rows:
            for column in self.labels + list(self.percent.values()):
                row[column] = number(row[column])
        self.colours, seen = {}, {}
        for label in self.labels:
            kind = label.split(" ")[0]
            of_kind = COLOURS.get(kind, COLOURS["measured"])
            self.colours[label] = of_kind[seen.get(kind, 0) % len(of_kind)]
            seen[kind] = seen.get(kind, 0) + 1

    def values(self, rows):
        return [row[label] for row in rows for label in self.labels]


def pick(rows, scope, metric):
    return [r for r in rows if r["scope"] == scope and r["metric"] == metric]


def unit_for(values, units):
    """The largest unit that keeps the largest value at 1 or above."""
    largest = max((v for v in values if not math.isnan(v)), default=0.0)
    return next(((size, name) for size, name in units if largest >= size), units[-1])


def short(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def deviation(percent):
    if math.isnan(percent):
        return ""
    return "0%" if abs(percent) < 0.05 else f"{percent:+.1f}%"


def empty(axes, text):
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=axes.transAxes)


def deviations(row, results, rows):
    """What stands above a group: one percentage, or of more results one each while there is room."""
    if len(results.percent) == 1 or len(rows) * len(results.percent) <= 16:
        return "\n".join(deviation(row[column]) for column in results.percent.values())
    return ""


def bars(axes, rows, labels, units, quantity, results):
    """All results side by side, a group a row, the deviations above each group."""
    size, unit = unit_for(results.values(rows), units)
    count = len(results.labels)
    width = 0.76 / count
    numbers = len(rows) * count <= 8
    top = max((v for v in results.values(rows) if not math.isnan(v)), default=1.0) / size or 1.0
    for i, row in enumerate(rows):
        heights = []
        for place, label in enumerate(results.labels):
            value = row[label] / size
            if math.isnan(value):
                continue
            x = i + (place - (count - 1) / 2) * width
            heights.append(value)
            axes.bar(x, value, width * 0.94, color=results.colours[label])
            if numbers:
                axes.text(x, value + 0.01 * top, short(value), ha="center", va="bottom", fontsize=7.5, color=INK)
        if heights:
            axes.text(
                i,
                max(heights) + (0.085 if numbers else 0.015) * top,
                deviations(row, results, rows),
                ha="center",
                va="bottom",
                fontsize=8 if len(rows) <= 8 else 6.5,
                fontweight="bold",
                color=INK,
            )
    axes.set_ylim(0, (1.16 + 0.06 * len(results.percent)) * top)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    long = len(rows) > 4 or max(map(len, labels), default=0) > 14
    axes.set_xticks(
        range(len(rows)), labels, rotation=30 if long else 0, ha="right" if long else "center", rotation_mode="anchor"
    )
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(f"{quantity} ({unit})")


def tokens(axes, rows, results):
    rows = [r for r in rows if r["name"] != "0"]
    axes.set_title("Token latency, token by token")
    if not rows:
        empty(axes, "fewer than two tokens")
        return
    size, unit = unit_for(results.values(rows), SECONDS)
    positions = [int(r["name"]) + 1 for r in rows]
    few = len(rows) <= 64
    # Predictions last, over what they predict.
    for label in sorted(results.labels, key=lambda label: label.startswith("predicted")):
        run = not label.startswith("predicted")
        axes.plot(
            positions,
            [r[label] / size for r in rows],
            color=results.colours[label],
            linewidth=1.0 if run else 2.0,
            marker="o" if run and few else None,
            markersize=3,
        )
    axes.set_xlabel("token")
    axes.set_ylabel(f"latency ({unit})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(min(positions) - 0.5, max(positions) + 0.5)
    highest = max((v / size for v in results.values(rows) if not math.isnan(v)), default=1.0)
    axes.set_ylim(0, 1.15 * highest or 1.0)


def titles(results):
    if len(results.labels) == 2 and results.labels[0] == "predicted":
        run = results.labels[1]
        return f"Predicted and {run}", f"percentages: prediction's deviation from the {run} value"
    return "Results of one plan", f"percentages: deviation from {results.reference}"


def draw(rows):
    results = Results(rows)
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12, rect=(0, 0, 1, 0.94))
    tokens(axes[0][0], pick(rows, "token", "latency"), results)

    axes[0][1].set_title("Time to first token, token latency")
    times = [
        (label, row)
        for metric, label in (
            ("ttft", "first token"),
            ("token_latency_p50", "token, median"),
            ("token_latency_mean", "token, mean"),
        )
        for row in pick(rows, "run", metric)
        if not all(math.isnan(row[column]) for column in results.labels)
    ]
    bars(axes[0][1], [r for _, r in times], [label for label, _ in times], SECONDS, "time", results)

    for column, metric, title, quantity in (
        (0, "memory_total", "Peak memory by device", "memory"),
        (1, "sent", "Bytes sent by device", "sent"),
    ):
        devices = pick(rows, "device", metric)
        axes[1][column].set_title(title)
        if devices:
            bars(axes[1][column], devices, [r["name"] for r in devices], BYTES, quantity, results)
        else:
            empty(axes[1][column], "no devices")

    title, percentages = titles(results)
    figure.legend(
        handles=[plt.Rectangle((0, 0), 1, 1, color=results.colours[label], label=label) for label in results.labels],
        loc="upper right",
        ncols=min(len(results.labels), 4),
        frameon=False,
        fontsize=10 if len(results.labels) == 2 else 8,
    )
    figure.text(0.012, 0.972, title, fontsize=13, fontweight="bold", color=INK, va="center")
    figure.text(0.26, 0.971, percentages, fontsize=9, color=INK, va="center")
    return figure


if __name__ == "__main__":
    main(draw)
