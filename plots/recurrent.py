#!/usr/bin/python3
"""Draws what bench/measure_recurrent.py wrote: rate, latency and memory over samples, or pipeline against tensor parallelism.

usage: recurrent.py curve.csv STEM      writes STEM.png and STEM.svg
       recurrent.py map.csv STEM
       recurrent.py rounds.csv STEM
"""

import math

from chart import INK, main, plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D

COLOURS = {"home": "#3b75af", "wifi": "#e0862d", "lan": "#4f9a57"}
NAMES = {"home": "1 Gbps, 1 ms a message", "wifi": "shared 400 Mbps, 4 ms a message", "lan": "10 Gbps, 0.1 ms a message"}
PANELS = [("tokens_per_s", 1.0, "Tokens a second, all samples together"), ("latency_s", 1e3, "Token latency of a sample, ms"),
          ("cache_bytes", 1 / 2**20, "Key/value caches, all devices, MiB")]


def curve(rows):
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.4))
    for axes, (key, scale, title) in zip(panels, PANELS):
        for network in networks:
            own = [row for row in rows if row["network"] == network]
            samples = [int(row["samples"]) for row in own]
            axes.plot(samples, [scale * float(row[f"predicted_{key}"]) for row in own], color=COLOURS[network], zorder=2)
            axes.plot(samples, [scale * float(row[f"measured_{key}"]) for row in own], "o", color=COLOURS[network],
                      markeredgecolor="white", markersize=7, zorder=3)
        axes.set_title(title)
        axes.set_xlabel("samples that go round")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.grid(True)
    handles = [Line2D([], [], color=COLOURS[n], label=NAMES[n]) for n in networks]
    handles += [Line2D([], [], color=INK, label="predicted"), Line2D([], [], color=INK, marker="o", linestyle="", label="measured")]
    figure.legend(handles=handles, loc="upper center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    return figure


def best(row, kind):
    """How much faster the better pipeline is than tensor parallelism, and which it is."""
    rates = {way: float(row[f"{kind}{way}_tokens_per_s"]) for way in ("recurrent", "batched", "tensor")}
    way = "batched" if rates["batched"] > 1.001 * rates["recurrent"] else "recurrent"
    return rates[way] / rates["tensor"], way


def strategies(rows):
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, panels = plt.subplots(1, len(models), figsize=(5.2 * len(models), 3.6), squeeze=False)
    colours = LinearSegmentedColormap.from_list("faster", ["#e0862d", "#f7f7f7", "#3b75af"])
    for axes, model in zip(panels[0], models):
        own = [row for row in rows if row["model"] == model]
        latencies = sorted({float(row["latency_ms"]) for row in own})
        samples = sorted({int(row["samples"]) for row in own})
        for row in own:
            ratio, way = best(row, "")
            x, y = latencies.index(float(row["latency_ms"])), samples.index(int(row["samples"]))
            shade = min(1.0, max(0.0, 0.5 + math.log2(ratio) / 6))
            axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(shade), edgecolor="white"))
            text = f"{ratio:.2f}" + ("\nshared" if way == "batched" else "")
            if row["measured_tensor_tokens_per_s"]:
                text += f"\n({best(row, 'measured_')[0]:.2f})"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=INK)
        axes.set_xlim(-0.5, len(latencies) - 0.5)
        axes.set_ylim(-0.5, len(samples) - 0.5)
        axes.set_xticks(range(len(latencies)), [f"{latency:g}" for latency in latencies])
        axes.set_yticks(range(len(samples)), samples)
        axes.set_xlabel("latency of a message, ms")
        axes.set_ylabel("samples at once")
        axes.set_title(f"{model}: pipeline / tensor, tokens a second")
    figure.tight_layout()
    return figure


def rounds(rows):
    """Seconds a token of tensor parallelism with a window over those of the best number of rounds."""
    figure, axes = plt.subplots(figsize=(5.8, 3.8))
    colours = LinearSegmentedColormap.from_list("faster", ["#e0862d", "#f7f7f7", "#3b75af"])
    latencies = sorted({float(row["latency_ms"]) for row in rows})
    disks = sorted({float(row["disk_MBps"]) for row in rows})
    for row in rows:
        ratio = float(row["tensor_token_s"]) / float(row["rounds_token_s"])
        x, y = latencies.index(float(row["latency_ms"])), disks.index(float(row["disk_MBps"]))
        shade = min(1.0, max(0.0, 0.5 + math.log2(ratio) / 4))
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(shade), edgecolor="white"))
        text = f"{ratio:.2f}\n{float(row['rounds_token_s']):.1f} s, K = {row['rounds']}"
        axes.text(x, y, text, ha="center", va="center", fontsize=7, color=INK)
    axes.set_xlim(-0.5, len(latencies) - 0.5)
    axes.set_ylim(-0.5, len(disks) - 0.5)
    axes.set_xticks(range(len(latencies)), [f"{latency:g}" for latency in latencies])
    axes.set_yticks(range(len(disks)), [f"{disk / 1000:g}" for disk in disks])
    axes.set_xlabel("latency of a message, ms")
    axes.set_ylabel("disk of each device, GB/s")
    axes.set_title(f"{rows[0]['model']}: tensor with a window / rounds, seconds a token")
    figure.tight_layout()
    return figure


def draw(rows):
    if "rounds_token_s" in rows[0]:
        return rounds(rows)
    return curve(rows) if "network" in rows[0] else strategies(rows)


main(draw)
