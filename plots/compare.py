#!/usr/bin/python3
"""Draws prediction against run from the CSV of `tandem compare`.

usage: compare.py compare.csv STEM      writes STEM.png and STEM.svg
"""

import math

from chart import INK, main, plt
from matplotlib.ticker import MaxNLocator

PREDICTED, RUN = "#3b75af", "#e0862d"
BYTES = [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")]
SECONDS = [(1, "s"), (1e-3, "ms"), (1e-6, "µs")]

plt.rcParams.update({"axes.grid": True, "axes.grid.axis": "y"})


def number(text):
    return float(text) if text else math.nan


def parse(rows):
    """Returns what the run's column is called: "measured" or "replayed"."""
    kind = list(rows[0])[5] if rows else "measured"
    for row in rows:
        for column in ("predicted", kind, "absolute", "percent"):
            row[column] = number(row[column])
        row["run"] = row[kind]
    return kind


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


def bars(axes, rows, labels, units, quantity):
    """Predicted beside run, a group a row, the deviation above each group."""
    values = [v for r in rows for v in (r["predicted"], r["run"])]
    size, unit = unit_for(values, units)
    width = 0.38
    top = max((v for v in values if not math.isnan(v)), default=1.0) / size or 1.0
    for i, row in enumerate(rows):
        heights = []
        for offset, column, colour in (
            (-width / 2, "predicted", PREDICTED),
            (width / 2, "run", RUN),
        ):
            value = row[column] / size
            if math.isnan(value):
                continue
            heights.append(value)
            axes.bar(i + offset, value, width * 0.94, color=colour)
            if len(rows) <= 4:
                axes.text(
                    i + offset, value + 0.01 * top, short(value), ha="center", va="bottom", fontsize=7.5, color=INK
                )
        if heights:
            axes.text(
                i,
                max(heights) + (0.085 if len(rows) <= 4 else 0.015) * top,
                deviation(row["percent"]),
                ha="center",
                va="bottom",
                fontsize=8 if len(rows) <= 8 else 6.5,
                fontweight="bold",
                color=INK,
            )
    axes.set_ylim(0, 1.22 * top)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    long = len(rows) > 4 or max(map(len, labels), default=0) > 14
    axes.set_xticks(
        range(len(rows)), labels, rotation=30 if long else 0, ha="right" if long else "center", rotation_mode="anchor"
    )
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(f"{quantity} ({unit})")


def tokens(axes, rows):
    rows = [r for r in rows if r["name"] != "0"]
    axes.set_title("Token latency, token by token")
    if not rows:
        empty(axes, "fewer than two tokens")
        return
    size, unit = unit_for([v for r in rows for v in (r["predicted"], r["run"])], SECONDS)
    positions = [int(r["name"]) + 1 for r in rows]
    few = len(rows) <= 64
    axes.plot(
        positions,
        [r["run"] / size for r in rows],
        color=RUN,
        linewidth=1.0,
        marker="o" if few else None,
        markersize=3,
    )
    axes.plot(positions, [r["predicted"] / size for r in rows], color=PREDICTED, linewidth=2.0)
    axes.set_xlabel("token")
    axes.set_ylabel(f"latency ({unit})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(min(positions) - 0.5, max(positions) + 0.5)
    highest = max((v / size for r in rows for v in (r["predicted"], r["run"]) if not math.isnan(v)), default=1.0)
    axes.set_ylim(0, 1.15 * highest or 1.0)


def draw(rows):
    kind = parse(rows)
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12, rect=(0, 0, 1, 0.94))
    tokens(axes[0][0], pick(rows, "token", "latency"))

    axes[0][1].set_title("Time to first token, token latency")
    times = [
        (label, row)
        for metric, label in (
            ("ttft", "first token"),
            ("token_latency_p50", "token, median"),
            ("token_latency_mean", "token, mean"),
        )
        for row in pick(rows, "run", metric)
        if not (math.isnan(row["predicted"]) and math.isnan(row["run"]))
    ]
    bars(axes[0][1], [r for _, r in times], [label for label, _ in times], SECONDS, "time")

    for column, metric, title, quantity in (
        (0, "memory_total", "Peak memory by device", "memory"),
        (1, "sent", "Bytes sent by device", "sent"),
    ):
        devices = pick(rows, "device", metric)
        axes[1][column].set_title(title)
        if devices:
            bars(axes[1][column], devices, [r["name"] for r in devices], BYTES, quantity)
        else:
            empty(axes[1][column], "no devices")

    figure.legend(
        handles=[
            plt.Rectangle((0, 0), 1, 1, color=PREDICTED, label="predicted"),
            plt.Rectangle((0, 0), 1, 1, color=RUN, label=kind),
        ],
        loc="upper right",
        ncols=2,
        frameon=False,
        fontsize=10,
    )
    figure.text(0.012, 0.972, f"Predicted and {kind}", fontsize=13, fontweight="bold", color=INK, va="center")
    figure.text(
        0.26, 0.971, f"percentages: prediction's deviation from the {kind} value", fontsize=9, color=INK, va="center"
    )
    return figure


if __name__ == "__main__":
    main(draw)
