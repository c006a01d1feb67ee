#!/usr/bin/python3
"""Draws what requests get at rates of arrival, of the CSV of `tandem simulate --goal`.

usage: rates.py rates.csv STEM      writes STEM.png and STEM.svg

Rows of kind "predicted" are lines, rows of other kinds ("measured", "replayed") are points of the same colour.
"""

import math

from chart import GRID, INK, main, plt

COLOURS = ["#3b75af", "#e0862d", "#4f9a5b", "#b5483f", "#7f6fb0", "#8c6d4f"]
PANELS = [
    ("first token (s)", "ttft_p50_s", "ttft_p90_s", "goal_ttft_s", True),
    ("mean token latency of a request (s)", "token_latency_p50_s", "token_latency_p90_s", "goal_token_latency_s", False),
    ("queueing (s)", "queueing_p50_s", "queueing_p90_s", None, False),
    ("requests within the goal", "within_goal", None, "goal_share", False),
]

plt.rcParams.update({"axes.grid": True})


def number(text):
    return float(text) if text else math.nan


def draw_kind(axes, rows, column, colour, predicted, median, label=None):
    rows = sorted(rows, key=lambda row: number(row["rate_per_s"]))
    x = [number(row["rate_per_s"]) for row in rows]
    y = [number(row[column]) for row in rows]
    if predicted:
        axes.plot(x, y, color=colour, linewidth=1.6, linestyle=":" if median else "-", label=label)
    else:
        axes.plot(x, y, color=colour, linestyle="none", marker="x" if median else "o", markersize=5, label=label)


def draw_panel(axes, rows, panel, policies):
    title, low, high, goal, logarithmic = panel
    axes.set_title(title)
    axes.set_xlabel("arrivals a second")
    for place, policy in enumerate(policies):
        colour = COLOURS[place % len(COLOURS)]
        for predicted in (True, False):
            own = [r for r in rows if r["policy"] == policy and (r["kind"] == "predicted") == predicted]
            if not own:
                continue
            draw_kind(axes, own, high or low, colour, predicted, False, f"{policy}, {own[0]['kind']}")
            if high:
                draw_kind(axes, own, low, colour, predicted, True)
    if goal and rows and rows[0][goal]:
        axes.axhline(number(rows[0][goal]), color=INK, linewidth=0.9, linestyle="--")
        axes.text(0.995, number(rows[0][goal]), "goal", ha="right", va="bottom", fontsize=8, color=INK,
                  transform=axes.get_yaxis_transform())
    drawn = [number(row[c]) for row in rows for c in (low, high) if c]
    if logarithmic and any(value > 0 for value in drawn):
        axes.set_yscale("log")
        axes.grid(which="minor", color=GRID, linewidth=0.3)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)


def draw(rows):
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12, rect=(0, 0.06, 1, 0.88))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    for place, panel in zip(axes.flat, PANELS):
        draw_panel(place, rows, panel, policies)
    figure.text(0.012, 0.972, "Requests at rates of arrival", fontsize=13, fontweight="bold", color=INK, va="center")
    figure.text(0.3, 0.971, "solid and filled: 90th percentile; dotted and crosses: median", fontsize=9, color=INK, va="center")
    handles, labels = axes.flat[3].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=5, frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    main(draw)
