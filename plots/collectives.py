#!/usr/bin/python3
"""Draws all-reduce times from the CSV of `tandem-study experiment`: lines over the latency of a link
(tpi-figure3) or a map of the fastest (collectives).

usage: collectives.py report.csv STEM      writes STEM.png and STEM.svg
"""

from itertools import cycle

from chart import INK, main, plt
from matplotlib.patches import Patch

COLOURS = ["#3b75af", "#5b9a58", "#e0862d", "#8c5fa8", "#b04a4a", "#4d9aa3"]


def unique(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def colours_of(rows):
    return dict(zip(unique(rows, "collective"), cycle(COLOURS)))


def size_text(kib):
    return f"{int(kib) // 1024} MiB" if int(kib) >= 1024 else f"{kib} KiB"


def lines(rows):
    colours = colours_of(rows)
    sizes = unique(rows, "size")
    figure, panels = plt.subplots(1, len(sizes), figsize=(3.4 * len(sizes), 3.2), sharey=True, layout="constrained")
    for axes, size in zip(panels, sizes):
        for name in unique(rows, "collective"):
            mine = [r for r in rows if r["size"] == size and r["collective"] == name]
            x = [float(r["link_latency_ms"]) for r in mine]
            axes.plot(x, [float(r["tandem"]) for r in mine], "o-", color=colours[name], markersize=4, label=name)
            paper = [(float(r["link_latency_ms"]), float(r["paper"])) for r in mine if r["paper"]]
            if paper:
                axes.plot(
                    *zip(*paper), "D", markerfacecolor="none", markeredgecolor=INK, markersize=7, linestyle="none"
                )
        axes.set(xscale="log", yscale="log", title=size, xlabel="latency of a link, ms")
        axes.grid(True)
    panels[0].plot([], [], "D", markerfacecolor="none", markeredgecolor=INK, markersize=7, label="paper's text")
    panels[0].set_ylabel("all-reduce, ms")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def fastest_map(rows):
    """A cell: the fastest, and how many times as long the star takes."""
    colours = colours_of(rows)
    devices, bandwidths = unique(rows, "devices"), unique(rows, "bandwidth_mbps")
    latencies, sizes = unique(rows, "link_latency_ms"), unique(rows, "kib")
    times = {}
    for row in rows:
        key = tuple(row[k] for k in ("devices", "bandwidth_mbps", "link_latency_ms", "kib"))
        times.setdefault(key, {})[row["collective"]] = float(row["tandem"])
    figure, grid = plt.subplots(
        len(devices),
        len(bandwidths),
        figsize=(3.7 * len(bandwidths), 1.2 + 1.6 * len(devices)),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for i, count in enumerate(devices):
        for j, bandwidth in enumerate(bandwidths):
            axes = grid[i][j]
            for y, latency in enumerate(latencies):
                for x, kib in enumerate(sizes):
                    cell = times[(count, bandwidth, latency, kib)]
                    best = min(cell, key=cell.get)
                    axes.add_patch(plt.Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=colours[best]))
                    if best != "star":
                        axes.text(
                            x,
                            y,
                            f"{cell['star'] / cell[best]:.2g}×",
                            ha="center",
                            va="center",
                            color="white",
                            fontsize=8,
                            fontweight="bold",
                        )
            axes.set_xlim(-0.5, len(sizes) - 0.5)
            axes.set_ylim(-0.5, len(latencies) - 0.5)
            axes.set_xticks(range(len(sizes)), [size_text(s) for s in sizes], rotation=45, ha="right")
            axes.set_yticks(range(len(latencies)), latencies)
            axes.tick_params(length=0)
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.set_title(f"{count} devices, {bandwidth} Mbps")
            if j == 0:
                axes.set_ylabel("link latency, ms")
    height = figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.55 / height))
    names = [n for n in colours if any(min(c, key=c.get) == n for c in times.values())]
    figure.legend(
        handles=[Patch(color=colours[n], label=n) for n in names],
        loc="upper center",
        ncol=len(names),
        frameon=False,
        title="fastest all-reduce (number: how many times as long the star takes)",
    )
    return figure


def draw(rows):
    for row in rows:
        row["collective"] = row["quantity"].removesuffix("_ms")
    return lines(rows) if rows and "size" in rows[0] else fastest_map(rows)


if __name__ == "__main__":
    main(draw)
