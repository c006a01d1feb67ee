#!/usr/bin/env python3
"""Looks for a value of a flag with which `tandem plan` predicts a shorter time than without the flag.

    explicit.py --tandem build/release/bin/tandem [--cases 10] [--seed 1] [--strategies csps,tensor] [--out explicit.csv]

A case is a random cluster of two to four devices, a random small model, lengths and an objective. For every strategy, and for auto searched
to the end, the objective's time of the plan without further flags is compared with that of each value of each axis in VALUES: a row of the
output for each that is shorter by more than 0.1%, and the worst at the end. Times are what `tandem simulate` predicts of the plan files.
Every flag of `tandem help plan` must be in VALUES or in NO_AXIS, so that a new flag is noticed. The exit code is 1 if a row was written.
"""

import argparse
import csv
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

TOLERANCE = 1e-3
STRATEGIES = ["local", "tensor", "pipeline", "galaxy", "sp", "csps", "spread"]
SUMS = ["star", "tree:2", "tree:3", "ring", "halving", "hierarchical", "ring,star", "star,ring", "halving,star", "tree:2,star", "star,tree:2"]
# Values that change nothing but the time: neither tokens, nor what the others see of them, nor what memory is used for.
VALUES = {
    "allreduce": SUMS,
    "tiles": ["0", "1", "2", "3", "4", "6", "8", "16"],
    "levels": ["none", "2", "3"],
    "partition": ["galaxy", "exact", "equal", "halda", "4:1:1:1", "1:4:1:1", "1:1:4:1", "1:1:1:4", "2:2:1:1", "1:2:2:1"],
    "rounds": ["1", "2", "3"],
    "groups": ["none", "auto"],  # and pairs of the platform
    "group-strategy": [],  # with each of `groups`
    "chunk": ["whole", "1", "8", "16", "32", "64"],
    "in-flight": ["1", "2", "3", "4", "8", "16"],
    "decode-moves": ["q", "kv", "migrate"],
    "decode-ffn": ["owner", "all"],
    "gather-weights": [""],
    "window": ["all", "1", "2", "4"],
    "retain": ["none", "1", "2", "4"],
    "release": ["early", "late"],
    "wire-type": ["f32", "bf16"],
    "cache-type": ["f32", "f16"],
}
NO_AXIS = {
    "what is asked": "platform hosts default share model fit dtype strategy objective prompt-tokens prompt raw-prompt chat system new-tokens "
                     "memory-limit profile threads",
    "of many requests": "workload samples policy replicas dispatch",
    "the search's effort, and output": "seconds evaluations out json quiet help",
    "other results, or seen by others": "drop levels-overlap max-loss max-ttft loss-model format-loss head candidates",
    "another strategy": "sp",
    "given with a named strategy": "devices master",
}


def check_flags(tandem):
    text = subprocess.run([tandem, "help", "plan", "--all"], capture_output=True, text=True, check=True).stdout
    known = set(VALUES) | {flag for flags in NO_AXIS.values() for flag in flags.split()}
    unknown = set(re.findall(r"^  --([a-z-]+)", text, re.MULTILINE)) - known
    if unknown:
        sys.exit(f"explicit.py: flags of tandem plan that are in no table here: {', '.join(sorted(unknown))}")


class Case:
    """A platform, a model and a question, written into `folder`."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        self.folder = folder
        pick = self.random.choice
        self.devices = [f"d{d}" for d in range(pick([2, 3, 3, 4]))]
        model = self.model()
        dtype = pick(["f32", "q8_0", "q4_0"])
        prompt, new = pick([4, 24, 64, 150]), pick([1, 2, 8, 32])
        objective = pick(["request", "ttft", "latency"]) if new > 1 else "request"
        self.objective = objective
        (folder / "config.json").write_text(json.dumps(model))
        (folder / "p.xml").write_text(self.platform(self.weight_bytes(model, dtype)))
        self.flags = [f"--platform={folder}/p.xml", f"--model={folder}/config.json", f"--dtype={dtype}", f"--prompt-tokens={prompt}",
                      f"--new-tokens={new}", f"--objective={objective}"]
        self.text = f"{seed} {len(self.devices)} devices {dtype} {prompt}+{new} {objective}"

    def number(self, low, high):
        return math.exp(self.random.uniform(math.log(low), math.log(high)))

    def model(self):
        heads = self.random.choice([4, 8])
        hidden = 64 * heads
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
                "num_hidden_layers": self.random.choice([2, 4, 6]), "num_attention_heads": heads,
                "num_key_value_heads": heads // self.random.choice([1, 2, 4]), "hidden_size": hidden, "intermediate_size": 2 * hidden,
                "vocab_size": self.random.choice([256, 4096]), "max_position_embeddings": 4096, "rope_theta": 10000.0,
                "tie_word_embeddings": False}

    @staticmethod
    def weight_bytes(model, dtype):
        h, kv = model["hidden_size"], model["num_key_value_heads"] * 64
        layer = 2 * h * h + 2 * h * kv + 3 * h * model["intermediate_size"]
        return (model["num_hidden_layers"] * layer + 2 * h * model["vocab_size"]) * {"f32": 4, "q8_0": 1.0625, "q4_0": 0.5625}[dtype]

    def platform(self, weights):
        speed = self.number(3e7, 2e9)
        short = self.random.random() < 0.4
        program = 47e6
        out = ["<?xml version='1.0'?>", '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', '<platform version="4.1">',
               '<zone id="random" routing="DijkstraCache">']
        for name in self.devices:
            flops = speed * self.number(1, 4)
            memory = program + weights * self.number(0.1, 0.9) + 2e6 if short else 4e9
            out.append(f'<host id="{name}" speed="{flops:.0f}f"><prop id="tandem:memory" value="{memory:.0f}B"/>'
                       f'<prop id="tandem:memory_bandwidth" value="{flops * self.number(0.1, 2):.0f}Bps"/>'
                       f'<prop id="tandem:disk_bandwidth" value="{self.number(1e7, 1e9):.0f}Bps"/></host>')
        form = self.random.choice(["mesh", "star", "homes"])
        pairs = []
        if form == "mesh":
            pairs = [(a, b) for a in self.devices for b in self.devices if a < b]
        else:
            out.append('<router id="core"/>')
            homes = ["home0", "home1"] if form == "homes" else []
            out += [f'<router id="{home}"/>' for home in homes]
            pairs = [(home, "core") for home in homes]
            pairs += [(name, homes[i % 2] if homes else "core") for i, name in enumerate(self.devices)]
        sharing = [self.random.choice(["SHARED", "SPLITDUPLEX"]) for _ in pairs]
        for (a, b), policy in zip(pairs, sharing):
            out.append(f'<link id="{a}-{b}" bandwidth="{self.number(1e6, 1e8):.0f}Bps" latency="{self.number(1e-3, 1e-2):.6f}s" '
                       f'sharing_policy="{policy}"/>')
        for (a, b), policy in zip(pairs, sharing):
            link = f'<link_ctn id="{a}-{b}"' + (' direction="UP"' if policy == "SPLITDUPLEX" else "") + "/>"
            out.append(f'<route src="{a}" dst="{b}">{link}</route>')
        return "\n".join(out + ["</zone>", "</platform>", ""])

    def groups(self):
        names = self.devices
        texts = [",".join(names)]
        if len(names) > 2:
            for a in range(len(names)):
                for b in range(a + 1, len(names)):
                    others = [n for i, n in enumerate(names) if i not in (a, b)]
                    texts.append("/".join([f"{names[a]},{names[b]}", *others]))
                    if len(others) == 2:
                        texts.append(f"{names[a]},{names[b]}/{others[0]},{others[1]}")
        return texts

    def values(self):
        for flag, values in VALUES.items():
            for value in values:
                if flag == "partition" and ":" in value:
                    value = ":".join(value.split(":")[:len(self.devices)])
                yield [f"--{flag}={value}"] if value else [f"--{flag}"]
        for text in self.groups():
            yield [f"--groups={text}"]
        for text in ["auto", *self.groups()]:
            yield [f"--groups={text}", "--group-strategy=galaxy"]
        for rows in [8, 16, 32]:
            for steps in [2, 4, 8]:
                yield [f"--chunk={rows}", f"--in-flight={steps}"]
        for sums in ["star", "ring", "halving"]:
            for tiles in [2, 3, 4]:
                yield [f"--allreduce={sums}", f"--tiles={tiles}"]

    def seconds(self, tandem, flags):
        plan = self.folder / "plan.json"
        made = subprocess.run([tandem, "plan", *self.flags, *flags, f"--out={plan}", "--quiet"], capture_output=True, text=True, check=False)
        if made.returncode not in (0, 1, 2, 3):
            print(f"{self.text} {' '.join(flags)}: exit code {made.returncode}: {made.stderr.strip()}", flush=True)
        if made.returncode != 0:
            return math.inf
        simulated = subprocess.run([tandem, "simulate", plan, "--json"], capture_output=True, text=True, check=False)
        if simulated.returncode != 0:
            print(f"{self.text} {' '.join(flags)}: simulate: {simulated.stderr.strip()}", flush=True)
            return math.inf
        return objective_of(json.loads(simulated.stdout), self.objective)


def objective_of(result, objective):
    times = result["metrics"]["token_times_s"]
    return {"ttft": times[0], "request": times[-1], "latency": (times[-1] - times[0]) / max(1, len(times) - 1)}[objective]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/release/bin/tandem")
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--out")
    given = parser.parse_args()
    check_flags(given.tandem)
    rows = []
    for seed in range(given.seed, given.seed + given.cases):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(seed, pathlib.Path(folder))
            auto = case.seconds(given.tandem, ["--strategy=auto", "--seconds=0"])
            for strategy in given.strategies.split(","):
                named = [f"--strategy={strategy}"]
                opened = case.seconds(given.tandem, named)
                for flags in [[], *case.values()]:
                    one = case.seconds(given.tandem, named + flags) if flags else opened
                    for open_text, best in (("strategy", opened), ("auto", auto)):
                        if one < best * (1 - TOLERANCE):
                            rows.append({"case": case.text, "strategy": strategy, "flags": " ".join(flags), "open": open_text,
                                         "open_s": f"{best:.6g}", "named_s": f"{one:.6g}", "shorter": f"{1 - one / best:.4f}"})
                            print(*rows[-1].values(), sep="; ", flush=True)
            print(f"{case.text}: auto {auto:.6g} s", flush=True)
    rows.sort(key=lambda row: -float(row["shorter"]))
    if given.out:
        with open(given.out, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["case", "strategy", "flags", "open", "open_s", "named_s", "shorter"])
            writer.writeheader()
            writer.writerows(rows)
    print("the worst:" if rows else f"no named value is shorter by more than {TOLERANCE:.1%}")
    for row in rows[:10]:
        print(*row.values(), sep="; ")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
