#!/usr/bin/python3
"""Draws what bench/measure_csps.py wrote: where a prompt split by position beats one split by heads, and one device.

usage: csps.py map.csv STEM      writes STEM.png and STEM.svg
"""

import math

from chart import INK, main, plt
from matplotlib.colors import LinearSegmentedColormap


def ratios(cell, column):
    """Time of the faster of the two that split heads, and of one device, over that of csps; None if one is not known."""
    times = {system: float(row[column]) for system, row in cell.items() if row[column]}
    if not {"csps", "galaxy", "tensor", "local"} <= times.keys():
        return None
    return min(times["galaxy"], times["tensor"]) / times["csps"], times["local"] / times["csps"]


def draw(rows):
    models = list(dict.fromkeys(row["model"] for row in rows))
    devices = sorted({int(row["devices"]) for row in rows})
    networks = list(dict.fromkeys(row["network"] for row in rows))
    cells = {}
    for row in rows:
        cells.setdefault((row["model"], int(row["devices"]), row["network"], int(row["rows"])), {})[row["system"]] = row
    colours = LinearSegmentedColormap.from_list("faster", ["#e0862d", "#f7f7f7", "#3b75af"])
    figure, panels = plt.subplots(len(models), len(devices), figsize=(3.3 * len(devices), 3.4 * len(models)), squeeze=False)
    for m, model in enumerate(models):
        lengths = sorted({key[3] for key in cells if key[0] == model})
        for d, count in enumerate(devices):
            axes = panels[m][d]
            for x, network in enumerate(networks):
                for y, length in enumerate(lengths):
                    cell = cells[model, count, network, length]
                    heads, alone = ratios(cell, "predicted_ttft_s")
                    shade = min(1.0, max(0.0, 0.5 + 0.3 * math.log2(min(heads, alone))))
                    axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(shade), edgecolor="white"))
                    text = f"{heads:.2f} | {alone:.2f}"
                    measured = ratios(cell, "measured_ttft_s")
                    if measured:
                        text += f"\n({measured[0]:.2f} | {measured[1]:.2f})"
                    axes.text(x, y, text, ha="center", va="center", fontsize=6.5,
                              color="white" if shade > 0.85 else INK)
            axes.set_xlim(-0.5, len(networks) - 0.5)
            axes.set_ylim(-0.5, len(lengths) - 0.5)
            axes.set_xticks(range(len(networks)), networks)
            axes.set_yticks(range(len(lengths)), lengths)
            axes.set_ylabel("tokens of the prompt")
            axes.set_title(f"{model}, {count} devices")
    figure.text(0.01, 0.985, "Time to first token over that of csps: split by heads | one device; measured in brackets", fontsize=9,
                color=INK, va="top")
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return figure


main(draw)
