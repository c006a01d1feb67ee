#!/usr/bin/python3
"""Draws a paper's numbers and tandem's, one panel a quantity, from the CSV of `tandem-study experiment`.

usage: experiment_table.py report.csv STEM      writes STEM.png and STEM.svg
"""

import math
import re

from chart import INK, main, plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

TANDEM, PAPER = "#3b75af", "#e0862d"
COLUMNS = ["quantity", "paper", "tandem", "error_percent", "role", "note", "printed"]
FORMAT = re.compile(r"q\d_\w+")  # of weights or messages
TELLING_DECADES = 3  # an axis of more has room for powers of ten alone
UNITS = {"s": "s", "gb": "GB", "percent": "%", "ms": "ms", "kib": "KiB"}

plt.rcParams.update({"axes.spines.left": False, "axes.grid": True, "ytick.left": False})


def shown(key, value):
    if value.replace(".", "").isdigit():
        words = key.split("_")
        unit = UNITS.get(words[-1])
        return " ".join([*words[:-1], value, unit] if unit else [*words, value])
    return value if FORMAT.fullmatch(value) else value.replace("_", " ")


def parse(rows):
    for row in rows:
        row["label"] = ", ".join(shown(key, row[key]) for key in row if key not in COLUMNS + ["label"])


def number(text):
    return None if text in ("", "OOM") else float(text)


def title(quantity):
    words = quantity.split("_")
    unit = UNITS.get(words[-1])
    text = " ".join(words[:-1] if unit else words)
    if text.endswith(" per"):
        return text[:-4].capitalize() + " a second"
    text = text.replace("interval sd", "deviation of intervals")
    if text.endswith((" on", " off")):
        text = text.replace(" on", ", scheduler on").replace(" off", ", scheduler off")
    text = text.replace("ttft", "first token").replace("ms ", "scheduler alone, ").replace("tpi", "TPI-LLM")
    return text[:1].upper() + text[1:] + (f", {unit}" if unit else "")


def panel(axes, rows, labels):
    values = [v for row in rows for v in (number(row["paper"]), number(row["tandem"])) if v]
    low, high = (min(values), max(values)) if values else (1, 1)
    axes.set_xscale("log")
    axes.set_xlim(low / 1.5, high * 1.8)
    for row in rows:
        y = labels.index(row["label"])
        paper, tandem = number(row["paper"]), number(row["tandem"])
        calibrated = row["role"] == "calibrated"
        if paper and tandem:
            axes.plot([paper, tandem], [y, y], color=INK, linewidth=1, alpha=0.45, zorder=2)
        if paper:
            axes.plot(paper, y, "D", color=PAPER, markersize=8, markeredgecolor="white", zorder=3)
        if tandem:
            axes.plot(
                tandem,
                y,
                "o",
                markersize=5,
                color=TANDEM,
                markerfacecolor="white" if calibrated else TANDEM,
                markeredgecolor=TANDEM if calibrated else "white",
                zorder=4,
            )
        gone = [name for name, text in (("paper", row["paper"]), ("tandem", row["tandem"])) if text == "OOM"]
        if gone:
            axes.text(
                high * 1.7,
                y,
                f"out of memory: {gone[0]}" if paper or tandem else "out of memory",
                ha="right",
                va="center",
                fontsize=8,
                style="italic",
                backgroundcolor="white",
            )
    axes.set_title(title(rows[0]["quantity"]))
    subs = (1, 2, 5) if math.log10(high / low) < TELLING_DECADES else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", bottom=False)


def draw(rows):
    parse(rows)
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    across = 3 if len(quantities) % 3 == 0 else min(2, len(quantities))
    lines = [quantities[i : i + across] for i in range(0, len(quantities), across)]
    labels = [list(dict.fromkeys(row["label"] for row in rows if row["quantity"] in line)) for line in lines]
    heights = [0.7 + 0.24 * len(of_line) for of_line in labels]
    height = 0.9 + sum(heights)
    figure, grid = plt.subplots(
        len(lines),
        across,
        figsize=(2.2 + 3.4 * across, height),
        squeeze=False,
        sharey="row",
        layout="constrained",
        height_ratios=heights,
    )
    for line, of_line, all_axes in zip(lines, labels, grid):
        for axes, quantity in zip(all_axes, line):
            panel(axes, [row for row in rows if row["quantity"] == quantity], of_line)
        for axes in all_axes[len(line) :]:
            axes.set_visible(False)
        all_axes[0].set_yticks(range(len(of_line)), of_line)
        all_axes[0].set_ylim(len(of_line) - 0.4, -0.6)
    handles = [
        Line2D([], [], linestyle="none", marker="o", color=TANDEM, markeredgecolor="white", label="tandem, predicted"),
    ]
    if any(number(row["paper"]) for row in rows):
        handles.insert(
            0, Line2D([], [], linestyle="none", marker="D", color=PAPER, markeredgecolor="white", label="paper")
        )
    if any(row["role"] == "calibrated" for row in rows):
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markerfacecolor="white",
                markeredgecolor=TANDEM,
                label="tandem, calibrated on this row",
            )
        )
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.35 / height))
    figure.legend(
        handles=handles, loc="upper center", ncol=len(handles), frameon=False, bbox_to_anchor=(0.5, 1 - 0.05 / height)
    )
    return figure


if __name__ == "__main__":
    main(draw)
