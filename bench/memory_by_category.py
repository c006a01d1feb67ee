#!/usr/bin/env python3
"""Peak memory by category: what `simulate` predicts beside what emulated runs measure, device by device.

    memory_by_category.py --tandem build/release/bin/tandem --folder out/memory
    memory_by_category.py --tandem build/release/bin/tandem --folder out/memory ring4 bert-pair
    memory_by_category.py --tandem build/release/bin/tandem --folder out/memory --out bench/memory_by_category.csv

Plans, simulates and runs configurations by name (no name: all): strategies, collectives, windows, one request and many, steps in
flight, families of models, timelines. Models have random weights. Times play no part, so the machine need not be quiet. A category
fails if it is off by more than 3% and by more than a page of 4096 bytes.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="home" routing="Dijkstra">
{devices}    <router id="switch"/>
{links}{routes}  </zone>
</platform>
"""
DEVICE = """    <host id="{name}" speed="400Gf" core="1">
      <prop id="tandem:memory" value="6GiB"/>
      <prop id="tandem:memory_bandwidth" value="100GBps"/>
      <prop id="tandem:disk_bandwidth" value="4GBps"/>
    </host>
"""
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "max_position_embeddings": 1024, "tie_word_embeddings": False}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "n_positions": 512}
OPT = {"model_type": "opt", "architectures": ["OPTForCausalLM"], "activation_function": "relu", "max_position_embeddings": 512,
       "do_layer_norm_before": True}
BERT = {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "type_vocab_size": 2}


def llama(hidden, intermediate, layers, heads, key_value_heads, vocab):
    return {**LLAMA, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": key_value_heads, "vocab_size": vocab}


MODELS = {
    "llama-3M": llama(256, 640, 4, 8, 4, 1536),
    "llama-77M": llama(768, 2048, 12, 12, 4, 320),
    "llama-40M": llama(512, 1408, 8, 8, 8, 12000),
    "gpt2-27M": {**GPT2, "n_embd": 384, "n_layer": 8, "n_head": 8, "vocab_size": 30000},
    "opt-22M": {**OPT, "hidden_size": 384, "word_embed_proj_dim": 384, "ffn_dim": 1536, "num_hidden_layers": 6,
                "num_attention_heads": 8, "vocab_size": 25000},
    "bert-15M": {**BERT, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 8,
                 "vocab_size": 12000},
}


def one(model, devices, strategy, prompt, new_tokens, *flags, trace=False):
    return {"model": model, "devices": devices, "strategy": strategy, "prompt": prompt, "new": new_tokens, "flags": flags,
            "trace": trace, "requests": None}


def many(model, devices, strategy, requests, *flags, trace=False):
    """`requests`: (prompt tokens, new tokens) of each; all come at the beginning."""
    return {"model": model, "devices": devices, "strategy": strategy, "requests": requests, "flags": flags, "trace": trace}


REQUESTS = [(40, 12), (17, 9), (90, 14), (5, 20), (33, 10), (61, 8)]
CONFIGURATIONS = {
    "alone": one("llama-77M", 1, "local", 64, 8),
    "alone-small": one("llama-3M", 1, "local", 16, 8),
    "alone-trace": one("llama-3M", 1, "local", 16, 200, trace=True),
    "alone-window": one("llama-77M", 1, "local", 32, 6, "--window", "2"),
    "star2": one("llama-77M", 2, "tensor", 64, 8, "--allreduce", "star"),
    "star4": one("llama-3M", 4, "tensor", 100, 8, "--allreduce", "star"),
    "star4-uneven": one("llama-40M", 4, "tensor", 100, 8, "--partition", "4:2:1:1"),
    "star8": one("llama-3M", 8, "tensor", 64, 8, "--allreduce", "star"),
    "tree4": one("llama-3M", 4, "tensor", 100, 8, "--allreduce", "tree"),
    "tree8": one("llama-40M", 8, "tensor", 64, 8, "--allreduce", "tree"),
    "ring4": one("llama-3M", 4, "tensor", 100, 8, "--allreduce", "ring"),
    "ring8": one("llama-40M", 8, "tensor", 64, 8, "--allreduce", "ring"),
    "halving4": one("llama-3M", 4, "tensor", 64, 8, "--allreduce", "halving"),
    "hierarchical8": one("llama-3M", 8, "tensor", 64, 8, "--allreduce", "hierarchical"),
    "window4": one("llama-40M", 4, "tensor", 64, 6, "--window", "2"),
    "window2-retain": one("llama-77M", 2, "tensor", 32, 6, "--window", "3", "--retain", "4"),
    "pipeline2": one("llama-77M", 2, "pipeline", 64, 8),
    "pipeline4": one("llama-3M", 4, "pipeline", 100, 8),
    "pipeline3-window": one("llama-77M", 3, "pipeline", 32, 6, "--window", "2"),
    "gpt2-alone": one("gpt2-27M", 1, "local", 64, 8),
    "gpt2-pair": one("gpt2-27M", 2, "tensor", 64, 8),
    "gpt2-pipeline4": one("gpt2-27M", 4, "pipeline", 64, 8),
    "opt-pair": one("opt-22M", 2, "tensor", 64, 8, "--allreduce", "ring"),
    "opt-window": one("opt-22M", 2, "tensor", 64, 6, "--window", "1"),
    "bert-alone": one("bert-15M", 1, "local", 128, None),
    "bert-pair": one("bert-15M", 2, "tensor", 128, None),
    "bert-pipeline3": one("bert-15M", 3, "pipeline", 128, None),
    "long-prompt4": one("llama-40M", 4, "tensor", 600, 8),
    "trace4": one("llama-3M", 4, "tensor", 64, 100, trace=True),
    "trace-ring4": one("llama-40M", 4, "tensor", 64, 60, "--allreduce", "ring", trace=True),
    "served-alone": many("llama-77M", 1, "local", REQUESTS, "--policy", "continuous"),
    "served-chunks": many("llama-40M", 2, "tensor", REQUESTS, "--policy", "continuous", "--chunk", "16"),
    "served-star4": many("llama-3M", 4, "tensor", REQUESTS, "--policy", "continuous"),
    "served-static": many("llama-3M", 3, "tensor", REQUESTS, "--policy", "static", "--allreduce", "ring"),
    "served-sequential": many("llama-40M", 2, "tensor", REQUESTS, "--policy", "sequential"),
    "served-pipeline": many("llama-77M", 3, "pipeline", REQUESTS, "--policy", "continuous", "--in-flight", "1"),
    "served-flight3": many("llama-77M", 3, "pipeline", REQUESTS, "--policy", "continuous", "--in-flight", "3"),
    "served-flight4": many("llama-3M", 4, "pipeline", REQUESTS, "--policy", "static", "--in-flight", "4"),
    "served-gpt2": many("gpt2-27M", 2, "tensor", REQUESTS, "--policy", "continuous"),
    "served-opt-flight2": many("opt-22M", 2, "pipeline", REQUESTS, "--policy", "continuous", "--in-flight", "2"),
    "served-window": many("llama-77M", 2, "tensor", REQUESTS, "--policy", "continuous", "--window", "2"),
    "served-trace": many("llama-3M", 4, "tensor", REQUESTS, "--policy", "continuous", trace=True),
    "served-trace-flight4": many("llama-3M", 4, "pipeline", REQUESTS, "--policy", "continuous", "--in-flight", "4", trace=True),
}
MOST = 0.03
PAGE = 4096.0


def platform(count):
    names = [f"device{d}" for d in range(count)]
    return PLATFORM.format(
        devices="".join(DEVICE.format(name=name) for name in names),
        links="".join(f'    <link id="{name}-way" bandwidth="10Gbps" latency="0.05ms" sharing_policy="SPLITDUPLEX"/>\n'
                      for name in names),
        routes="".join(f'    <route src="{name}" dst="switch"><link_ctn id="{name}-way" direction="UP"/></route>\n'
                       for name in names))


class Bench:
    def __init__(self, tandem, folder):
        self.tandem, self.folder = str(tandem), pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def call(self, *words):
        done = subprocess.run([self.tandem, *map(str, words)], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"tandem {' '.join(map(str, words))}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")

    def weights(self, model):
        folder = self.folder / model
        if not folder.is_dir():
            config = self.folder / f"{model}.json"
            config.write_text(json.dumps(MODELS[model]))
            self.call("model", "random", "--config", config, "--out", folder, "--quiet")
        return folder

    def results(self, name, setting):
        """What is predicted and what is measured of a configuration."""
        weights = self.weights(setting["model"])
        vocab = MODELS[setting["model"]]["vocab_size"]
        paths = {key: self.folder / f"{name}.{key}" for key in ("xml", "plan.json", "predicted.json", "measured.json", "trace")}
        paths["xml"].write_text(platform(setting["devices"]))
        plan = ["plan", "--platform", paths["xml"], "--model", weights, "--strategy", setting["strategy"], "--quiet",
                "--out", paths["plan.json"]]
        serving = []
        if setting["requests"] is not None:
            workload = self.folder / f"{name}.jsonl"
            lines = [json.dumps({"id": f"r{i}", "arrival_s": 0.0, "prompt_ids": [(i + 7 * j) % vocab for j in range(prompt)],
                                 "new_tokens": new, "ignore_eos": True}) for i, (prompt, new) in enumerate(setting["requests"])]
            workload.write_text("\n".join(lines) + "\n")
            known = ("--policy", "--chunk", "--in-flight")
            flags = setting["flags"]
            for flag, value in zip(flags[::2], flags[1::2]):
                if flag in known:
                    serving += [flag, value]
            serving = ["--workload", workload, *serving]
            rest = [word for flag, value in zip(flags[::2], flags[1::2]) if flag not in known for word in (flag, value)]
            plan += [*rest, *serving, *([] if "--chunk" in flags else ["--chunk", "whole"])]
            prompt = serving
        else:
            plan += ["--prompt-tokens", setting["prompt"], *setting["flags"]]
            if setting["new"] is not None:
                plan += ["--new-tokens", setting["new"]]
            ids = self.folder / f"{name}.ids"
            ids.write_text(" ".join(str(7 * j % vocab) for j in range(setting["prompt"])))
            prompt = ["--prompt-ids", ids] + (["--ignore-eos"] if setting["new"] is not None else [])
        self.call(*plan)
        trace = ["--trace", paths["trace"]] if setting["trace"] else []
        self.call("simulate", paths["plan.json"], *serving, "--out", paths["predicted.json"], "--quiet", *trace)
        self.call("run", paths["plan.json"], "--weights", weights, "--cache", self.folder / "cache", *prompt, "--emulate",
                  "--pace", "nominal", "--out", paths["measured.json"], "--quiet", *trace)
        return [json.loads(paths[key].read_text()) for key in ("predicted.json", "measured.json")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--out", help="CSV of all numbers")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = set(options.names) - set(CONFIGURATIONS)
    if unknown:
        parser.error(f"no such configuration: {', '.join(sorted(unknown))}; known: {', '.join(CONFIGURATIONS)}")
    bench = Bench(options.tandem, options.folder)
    rows = []
    worst = {}
    print(f"{'configuration':22} {'device':8} predicted / measured of each category; measured program", flush=True)
    for name in options.names or CONFIGURATIONS:
        predicted, measured = bench.results(name, CONFIGURATIONS[name])
        for before, after in zip(predicted["devices"], measured["devices"]):
            cells = []
            for category, bytes_predicted in before["peak_memory_bytes"].items():
                bytes_measured = after["peak_memory_bytes"][category]
                off = bytes_predicted - bytes_measured
                bad = abs(off) > MOST * bytes_measured and abs(off) > PAGE
                ratio = bytes_predicted / bytes_measured if bytes_measured > 0 else 1.0 if off == 0 else float("inf")
                rows.append([name, before["name"], category, int(bytes_predicted), int(bytes_measured), f"{ratio:.4f}",
                             "" if not bad else "off"])
                if abs(off) > PAGE:
                    low, high, count = worst.get(category, (ratio, ratio, 0))
                    worst[category] = (min(low, ratio), max(high, ratio), count + bad)
                cells.append(f"{category} {ratio:.3f}{'!' if bad else ''}")
            program = after["peak_memory_bytes"]["program"]
            print(f"{name:22} {before['name']:8} {'  '.join(cells)}  {program / 2**20:.2f} MiB", flush=True)
    print("\nworst of those that are off by more than a page, predicted / measured:")
    for category, (low, high, count) in worst.items():
        print(f"  {category:12} {low:.4f} to {high:.4f}, {count} beyond {MOST:.0%}")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["configuration", "device", "category", "predicted_bytes", "measured_bytes", "predicted_over_measured",
                             "verdict"])
            writer.writerows(rows)
    return 1 if any(row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
