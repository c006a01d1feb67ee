#!/usr/bin/python3
"""Draws what bench/measure_galaxy.py wrote: the environments' times and speed-ups, or the map of where overlap pays.

usage: galaxy.py environments.csv STEM      writes STEM.png and STEM.svg
       galaxy.py map.csv STEM
"""

import math

from chart import INK, main, plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

COLOURS = {"galaxy": "#3b75af", "untiled": "#9dbbdb", "tensor": "#e0862d", "sp": "#4f9a57", "local": "#999999"}
NAMES = {"galaxy": "galaxy, tiles", "untiled": "galaxy, no tiles", "tensor": "tensor (M-LM)", "sp": "sp", "local": "local"}
SPEED_UPS = {"tensor": "#e0862d", "sp": "#4f9a57", "untiled": "#9dbbdb", "local": "#999999"}


def number(text):
    return float(text) if text else math.nan


def bars(axes, groups, inside, values, colours, write):
    """Bars of what was measured, a tick at what was predicted, and `write(predicted, measured)` above."""
    width = 0.86 / len(inside)
    tops = []
    for x, group in enumerate(groups):
        for i, key in enumerate(inside):
            predicted, measured = values(group, key)
            at = x + (i - (len(inside) - 1) / 2) * width
            if not math.isnan(measured):
                axes.bar(at, measured, width * 0.92, color=colours[key], zorder=2)
            axes.plot([at - width / 2, at + width / 2], [predicted, predicted], color=INK, linewidth=1.3, zorder=3)
            top = max(predicted, 0 if math.isnan(measured) else measured)
            tops.append((at, top, write(predicted, measured)))
    highest = max(top for _, top, _ in tops)
    for at, top, text in tops:
        axes.text(at, top + 0.02 * highest, text, rotation=90, ha="center", va="bottom", fontsize=6, color=INK)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylim(0, 1.24 * highest)
    axes.grid(True, axis="y")


def environments(rows):
    models, rates = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "mbps"))
    groups = list(dict.fromkeys(row["environment"] for row in rows))
    times = {(r["model"], r["mbps"], r["environment"], r["system"]): (number(r["predicted_s"]), number(r["measured_s"]))
             for r in rows}
    figure, panels = plt.subplots(2 * len(models), len(rates), figsize=(11, 4.9 * len(models)), squeeze=False)
    for m, model in enumerate(models):
        for c, mbps in enumerate(rates):
            def of(group, system, model=model, mbps=mbps):
                return times[model, mbps, group, system]

            def speed_up(group, system, of=of):
                return tuple(theirs / own for theirs, own in zip(of(group, system), of(group, "galaxy")))
            axes = panels[2 * m][c]
            bars(axes, groups, list(COLOURS), of, COLOURS,
                 lambda p, measured: "" if math.isnan(measured) else f"{measured / p:.2f}")
            axes.set_title(f"{model}, {mbps} Mbps: seconds a pass; measured / predicted")
            axes = panels[2 * m + 1][c]
            bars(axes, groups, list(SPEED_UPS), speed_up, SPEED_UPS,
                 lambda p, measured: f"{p:.2f}" if math.isnan(measured) else f"{measured:.2f}")
            axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
            axes.set_title(f"{model}, {mbps} Mbps: galaxy with tiles, times faster than")
    handles = [Patch(color=COLOURS[s], label=NAMES[s]) for s in COLOURS]
    handles += [Patch(color="#cccccc", label="bars: measured"), Line2D([], [], color=INK, label="predicted")]
    figure.legend(handles=handles, loc="upper center", ncols=len(handles), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.965))
    return figure


def overlap(rows):
    devices = sorted({int(row["devices"]) for row in rows})
    figure, panels = plt.subplots(1, len(devices), figsize=(4.2 * len(devices), 3.5), squeeze=False)
    colours = LinearSegmentedColormap.from_list("faster", ["#e0862d", "#f7f7f7", "#3b75af"])
    for axes, count in zip(panels[0], devices):
        own = [row for row in rows if int(row["devices"]) == count]
        rates = sorted({int(row["mbps"]) for row in own})
        lengths = sorted({int(row["rows"]) for row in own})
        for row in own:
            ratio = float(row["predicted_untiled_s"]) / float(row["predicted_galaxy_s"])
            x, y = rates.index(int(row["mbps"])), lengths.index(int(row["rows"]))
            shade = min(1.0, max(0.0, 0.5 + math.log2(ratio)))
            axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(shade), edgecolor="white"))
            text = f"{ratio:.2f}"
            if row["measured_galaxy_s"] and row["measured_untiled_s"]:
                text += f"\n({float(row['measured_untiled_s']) / float(row['measured_galaxy_s']):.2f})"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=INK)
        axes.set_xlim(-0.5, len(rates) - 0.5)
        axes.set_ylim(-0.5, len(lengths) - 0.5)
        axes.set_xticks(range(len(rates)), rates)
        axes.set_yticks(range(len(lengths)), lengths)
        axes.set_xlabel("Mbps")
        axes.set_ylabel("rows")
        axes.set_title(f"{count} devices: no tiles / tiles, time")
    figure.tight_layout()
    return figure


def draw(rows):
    return environments(rows) if "environment" in rows[0] else overlap(rows)


main(draw)
