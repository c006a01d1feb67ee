"""What the benchmarks of the whole program share: a small model, platforms, plans, runs."""

import csv
import json
import pathlib
import subprocess
import sys

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="bench" routing="Full">
{inside}
  </zone>
</platform>
"""
SCENARIOS = pathlib.Path(__file__).resolve().parent.parent / "scenarios" / "models"
PROMPT = " ".join(str(token) for token in range(1, 9)) + "\n"


def device(name, memory_Bps, disk_Bps, slowdown=1.0):
    return f"""    <host id="{name}" speed="2Gf" core="1">
      <prop id="tandem:memory" value="4GiB"/>
      <prop id="tandem:memory_bandwidth" value="{memory_Bps:.0f}Bps"/>
      <prop id="tandem:disk_bandwidth" value="{disk_Bps:.0f}Bps"/>
      <prop id="tandem:slowdown" value="{slowdown}"/>
    </host>
"""


def one_way(source, target, latency_s):
    """A link of 1 Gbps from one device to another and its route."""
    return (
        f"""    <link id="{source}-{target}" bandwidth="1Gbps" latency="{latency_s * 1e3:.6f}ms" """
        """sharing_policy="FATPIPE"/>\n""",
        f"""    <route src="{source}" dst="{target}" symmetrical="NO">\n"""
        f"""      <link_ctn id="{source}-{target}"/>\n    </route>\n""",
    )


def pair(memory_Bps, disk_Bps, reduce_s):
    """Two devices that are alike. All of an all-reduce's time is on the way to the master, the first, so that both
    have the sum at the same moment, as in the recurrence of the propositions."""
    links, routes = zip(one_way("right", "left", reduce_s), one_way("left", "right", 0.0))
    devices = [device(name, memory_Bps, disk_Bps) for name in ("left", "right")]
    return PLATFORM.format(inside="".join([*devices, *links, *routes]).rstrip("\n"))


def alone(disk_Bps, slowdown):
    return PLATFORM.format(inside=device("alone", 10e9, disk_Bps, slowdown).rstrip("\n"))


def llama(hidden, intermediate, layers):
    """Eight heads, of which two share keys and values; an embedding and a head that cost next to nothing."""
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 32, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    }


class Geometries:
    """Models of scenarios/models with random weights in `folder`, their profiles, each made once, and tables."""

    def __init__(self, tandem, folder, seconds):
        self.tandem, self.folder, self.seconds = str(pathlib.Path(tandem).resolve()), pathlib.Path(folder), seconds
        self.folder.mkdir(parents=True, exist_ok=True)

    def call(self, *words):
        done = subprocess.run([self.tandem, *map(str, words)], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"tandem {words[0]}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        sys.stderr.write(done.stderr)  # remarks: a profile of an earlier call may be of other kernels

    def weights(self, model):
        folder = self.folder / model
        if not (folder / "config.json").exists():
            self.call("model", "random", "--config", SCENARIOS / f"{model}.json", "--out", folder, "--quiet")
        return folder

    def profile(self, model):
        path = self.folder / f"{model}.profile.json"
        if not path.exists():
            self.call("profile", "--model", self.weights(model), "--seconds", self.seconds, "--threads", 1, "--disk", "none", "--out", path,
                      "--quiet")
        return path

    def prompt_ids(self, tokens):
        path = self.folder / f"prompt-{tokens}.ids"
        path.write_text(" ".join(str(1 + i) for i in range(tokens)))
        return path

    def write(self, name, rows):
        with open(self.folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


class Bench:
    """One model in `folder`, and what `tandem` makes of it."""

    def __init__(self, tandem, folder, config, tokens):
        self.tandem, self.folder, self.tokens = str(tandem), pathlib.Path(folder), tokens
        self.folder.mkdir(parents=True, exist_ok=True)
        self.weights, self.cache = self.folder / "weights", self.folder / "cache"
        self.prompt = self.folder / "prompt.txt"
        self.prompt.write_text(PROMPT)
        (self.folder / "config.json").write_text(json.dumps(config))
        self.call("model", "random", "--config", self.folder / "config.json", "--out", self.weights, "--quiet")

    def call(self, *words):
        done = subprocess.run([self.tandem, *map(str, words)], text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"tandem {words[0]}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def plan(self, platform, window, release="early"):
        """`window`: blocks, or "all": without the memory scheduler."""
        xml, plan = self.folder / "platform.xml", self.folder / "plan.json"
        xml.write_text(platform)
        words = ["plan", "--platform", xml, "--model", self.weights, "--prompt-tokens", len(PROMPT.split()),
                 "--new-tokens", self.tokens, "--window", window, "--out", plan, "--quiet"]
        words += ["--partition", "equal"] if platform.count("<host") > 1 else ["--strategy", "local"]
        if window != "all":
            words += ["--retain", "none", "--release", release]
        self.call(*words)
        return plan

    def result(self, *words):
        out = self.folder / "result.json"
        self.call(*words, "--out", out, "--quiet")
        return json.loads(out.read_text())

    def predict(self, plan):
        return self.result("simulate", plan)

    def run(self, plan, *how):
        return self.result("run", plan, "--weights", self.weights, "--cache", self.cache, "--prompt-ids", self.prompt,
                           "--ignore-eos", *how)


def token_time(result):
    """Mean of the second half of the gaps between tokens: the start-up is over."""
    times = result["metrics"]["token_times_s"]
    half = len(times) // 2
    return (times[-1] - times[half]) / (len(times) - 1 - half)


def bytes_a_token(result, tokens):
    """Of the device that loads most."""
    return max(device["bytes_loaded"] for device in result["devices"]) / tokens
