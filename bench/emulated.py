"""What the benchmarks of the whole program share: a small model, platforms, plans, runs."""

import csv
import dataclasses
import json
import pathlib
import statistics
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
        """`model`: a name in scenarios/models; NAME@LAYERS: its geometry with so many layers."""
        folder = self.folder / model
        if not (folder / "config.json").exists():
            config = SCENARIOS / f"{model}.json"
            if "@" in model:
                config = self.folder / f"{model}.json"
                config.write_text(json.dumps(shallow(*model.split("@"))))
            self.call("model", "random", "--config", config, "--out", folder, "--quiet")
        return folder

    def profile(self, model, folder=None):
        path = (folder or self.folder) / f"{model}.profile.json"
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


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan, and how it is served."""

    name: str
    xml: str
    model: str
    prompt: int
    new: int  # 0: the pass of an encoder
    how: tuple  # flags of `plan`
    serves: tuple = ()  # flags of `plan`, `simulate` and `run`
    traces: bool = False


class Repeated(Geometries):
    """Cases that are predicted and run in `rounds`, in turn: a machine that drifts drifts for all of them.

    Each round measures this machine first, and predicts from that, as a machine that is shared changes within minutes. Results are kept
    in FOLDER/KIND-ROUND, and a later call makes what is missing. Cases of one model stand together.
    """

    def __init__(self, tandem, folder, seconds, rounds, kind):
        super().__init__(tandem, folder, seconds)
        self.rounds = [self.folder / f"{kind}-{i + 1}" for i in range(rounds)]
        for path in self.rounds:
            path.mkdir(exist_ok=True)

    @staticmethod
    def timeline(case, folder):
        return ["--trace", folder / "trace.json"] if case.traces else []

    def predict(self, case, folder):
        plan, out = folder / f"{case.name}.plan.json", folder / f"{case.name}.predicted.json"
        if not out.exists():
            xml = folder / f"{case.name}.xml"
            xml.write_text(case.xml)
            self.call("plan", "--platform", xml, "--model", self.weights(case.model), "--profile", self.profile(case.model, folder),
                      "--prompt-tokens", case.prompt, *(["--new-tokens", case.new] if case.new else []), *case.how, *case.serves,
                      "--out", plan, "--quiet")
            self.call("simulate", plan, *case.serves, *self.timeline(case, folder), "--out", out, "--quiet")
        return plan

    def measure(self, cases):
        for folder in self.rounds:
            for case in cases:
                out = folder / f"{case.name}.measured.json"
                if out.exists():
                    continue
                self.call("run", self.predict(case, folder), "--weights", self.weights(case.model), "--emulate", "--allow-drift",
                          "--cache", self.folder / "cache", "--prompt-ids", self.prompt_ids(case.prompt),
                          *(["--ignore-eos", "--new-tokens", case.new] if case.new else []), *case.serves,
                          *self.timeline(case, folder), "--out", out, "--quiet")
                print(f"{folder.name} {case.name}", flush=True)

    def pairs(self, case):
        """Predicted and measured results of the rounds that are done."""
        for folder in self.rounds:
            predicted, measured = (folder / f"{case.name}.{kind}.json" for kind in ("predicted", "measured"))
            if measured.exists():
                yield json.loads(predicted.read_text()), json.loads(measured.read_text())

    def compared(self, case, figures):
        """A row of what `figures` reads in results: predicted and measured, and one over the other; whether bytes agree.

        Each the median over rounds, of measured ones the least and the most, too.
        """
        pairs = list(self.pairs(case))
        row = {"case": case.name, "runs": len(pairs), "runs_with_predicted_bytes": sum(bytes_sent(p) == bytes_sent(m) for p, m in pairs)}
        if not pairs:
            return row
        made = [(figures(predicted), figures(measured)) for predicted, measured in pairs]
        for key in made[0][0]:
            measured, ratios = [m[key] for _, m in made], [m[key] / p[key] for p, m in made]
            row |= {f"predicted_{key}": statistics.median(p[key] for p, _ in made), f"measured_{key}": statistics.median(measured),
                    f"least_{key}": min(measured), f"most_{key}": max(measured), f"ratio_{key}": statistics.median(ratios),
                    f"least_ratio_{key}": min(ratios), f"most_ratio_{key}": max(ratios)}
        return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}

    def report(self, name, rows):
        """Writes and prints rows, which need not have the same columns."""
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self.write(name, [{key: row.get(key, "") for key in keys} for row in rows])
        for row in rows:
            print(row, flush=True)


def bytes_sent(result):
    return [device["bytes_sent"] for device in result["devices"]]


def shallow(name, layers):
    """The geometry of a model in scenarios/models with so many layers."""
    config = json.loads((SCENARIOS / f"{name}.json").read_text())
    for key in ("num_hidden_layers", "n_layers", "n_layer"):
        if key in config:
            return {**config, key: int(layers)}
    sys.exit(f"{name}.json states no number of layers")


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
