#!/usr/bin/python3
"""Draws what the disk costs a token across the steady condition, from boundary.csv of `tandem-study propositions`.

usage: propositions.py boundary.csv STEM      writes STEM.png and STEM.svg
"""

from chart import INK, main, plt
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

# Window and rule: colour, label, and the slack at which the label stands above (or below) the curve; from the top.
SETTINGS = {
    ("1", "early"): ("#8a8a8a", "w = 1, early release", -0.27, "above"),
    ("2", "late"): ("#4f9a94", "w = 2, late release", 0.04, "above"),
    ("3", "early"): ("#3b75af", "w ≥ 3, early release", -0.24, "below"),
}

plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.grid": True, "axes.grid.axis": "y"})


def parse(rows):
    for row in rows:
        row["slack"] = float(row["slack"])
        row["stall_fraction"] = float(row["stall_fraction"])


def curve_of(row):
    """The setting whose curve a point belongs to: every window from 3 on has the same."""
    wide = row["window"] == "unlimited" or int(row["window"]) >= 3
    return ("3", "early") if wide else (row["window"], row["release"])


def pick(rows, series, setting):
    found = [r for r in rows if r["series"] == series and curve_of(r) == setting]
    found.sort(key=lambda r: r["slack"])
    return [r["slack"] for r in found], [r["stall_fraction"] for r in found]


def draw(rows):
    parse(rows)
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    for setting, (color, label, place, side) in SETTINGS.items():
        x, y = pick(rows, "recurrence", setting)
        if not x:
            continue
        axes.plot(x, y, color=color, linewidth=2)
        axes.plot(
            *pick(rows, "simulated", setting),
            linestyle="none",
            marker="o",
            markersize=4.5,
            markerfacecolor="white",
            markeredgecolor=color,
            markeredgewidth=1.2,
        )
        axes.plot(
            *pick(rows, "replayed", setting),
            linestyle="none",
            marker="D",
            markersize=7,
            color=color,
            markeredgecolor=INK,
            markeredgewidth=1,
            zorder=4,
        )
        near = min(range(len(x)), key=lambda i: abs(x[i] - place))
        above = side == "above"
        axes.annotate(
            label,
            (x[near], y[near]),
            (7, 6) if above else (-9, -4),
            textcoords="offset points",
            ha="left" if above else "right",
            va="bottom" if above else "top",
            color=color,
            fontweight="bold",
        )
    axes.set_xlim(-0.54, 0.58)
    axes.set_ylim(bottom=-0.025)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("slack (C − D) / D, in % of D:  C computing and communicating a token, D loading it")
    axes.set_ylabel("stall fraction (T − C) / T, in % of the token time T")
    axes.set_title("What the disk costs a token, by window w", loc="left", fontweight="bold", fontsize=12)
    top = axes.get_ylim()[1]
    axes.text(-0.01, top, "disk-bound ", ha="right", va="top", fontsize=9)
    axes.text(0.01, top, " Proposition 3 holds", ha="left", va="top", fontsize=9)
    grey = {"color": INK, "linestyle": "none"}
    handles = [
        Line2D([], [], color=INK, linewidth=2, label="recurrence"),
        Line2D([], [], marker="o", markersize=4.5, markerfacecolor="white", label="simulated (SimGrid)", **grey),
    ]
    replayed = sum(r["series"] == "replayed" for r in rows)
    if replayed:
        label = f"replayed ({replayed} points, emulated devices)"
        handles.append(Line2D([], [], marker="D", markersize=7, label=label, **grey))
    axes.legend(handles=handles, loc="upper right", frameon=False, bbox_to_anchor=(1, 0.92))
    return figure


if __name__ == "__main__":
    main(draw)
