#!/usr/bin/env python3
"""A model of more than four times the memory limit runs to its end, in a memory cgroup of that limit, and reads from disk
what its result says, past the page cache.

usage: streaming_limit.py TANDEM; exit code 77 (skipped) where no memory cgroup can be made.
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile

LIMIT = 80 * 2**20
# What a plan counts for the program where no profile has measured it (model::kProgramBytes): mostly
# shared libraries (ICU, SimGrid, OpenSSL), whose pages no cgroup is charged for twice.
PROGRAM = 43.6 * 2**20
# A session of one device takes graphs and lanes, far less than this (planner/session_memory).
SESSION = 2**20
# What may be read beside weights: the program and its libraries, if no other process has them in memory.
FILES = 96 * 2**20
SECTOR = 512  # the unit of ru_inblock
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
    "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 11, "num_attention_heads": 12,
    "num_key_value_heads": 12, "vocab_size": 4096, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
}
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="alone" routing="Full">
    <host id="one" speed="50Gf" core="1">
      <prop id="tandem:memory" value="1GiB"/>
      <prop id="tandem:memory_bandwidth" value="10GBps"/>
      <prop id="tandem:disk_bandwidth" value="1GBps"/>
    </host>
  </zone>
</platform>
"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


class Group:
    """A memory cgroup (version 1 or 2) of its own, with a limit."""

    def __init__(self):
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        own = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
        self.old = any("memory" in names.split(",") for names in own)
        if self.old:
            root = pathlib.Path("/sys/fs/cgroup/memory")
            path = next(p for names, p in own.items() if "memory" in names.split(","))
        else:
            root, path = pathlib.Path("/sys/fs/cgroup"), own.get("", "/")
        base = root / path.lstrip("/")
        if not base.is_dir():
            base = root
        try:
            self.path = pathlib.Path(tempfile.mkdtemp(prefix="tandem-test-", dir=base))
            limit = "memory.limit_in_bytes" if self.old else "memory.max"
            (self.path / limit).write_text(str(LIMIT))
        except OSError as error:
            skip(f"no memory cgroup can be made here: {error}")

    def call(self, *words):
        enter = f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"'
        return subprocess.run(["/bin/sh", "-c", enter, "sh", *map(str, words)], text=True,
                              capture_output=True)

    def remove(self):
        self.path.rmdir()


def call(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


def main():
    tandem = pathlib.Path(sys.argv[1]).resolve()
    group = Group()
    try:
        # Not /tmp by choice: that may be memory.
        with tempfile.TemporaryDirectory(dir=pathlib.Path.cwd()) as name:
            folder = pathlib.Path(name)
            config, weights = folder / "config.json", folder / "weights"
            platform, plan, out = folder / "one.xml", folder / "plan.json", folder / "out.json"
            config.write_text(json.dumps(CONFIG))
            platform.write_text(PLATFORM)
            call(tandem, "model", "random", "--config", config, "--dtype", "F16", "--out", weights,
                 "--quiet")
            call(tandem, "plan", "--platform", platform, "--model", weights, "--strategy", "local",
                 "--prompt-tokens", 16, "--new-tokens", 4, "--memory-limit", f"{LIMIT}B",
                 "--out", plan)
            run = group.call(tandem, "run", plan, "--weights", weights, "--cache", folder / "cache",
                             "--ignore-eos", "--threads", 1, "--out", out, "--quiet")
            if run.returncode != 0:
                sys.exit(f"tandem run: exit code {run.returncode}: {run.stderr}")
            # The second run has its blocks; the first one's came through the page cache.
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
            again = group.call(tandem, "run", plan, "--weights", weights, "--cache", folder / "cache",
                               "--ignore-eos", "--threads", 1, "--out", out, "--quiet")
            read = SECTOR * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before)
            if again.returncode != 0:
                sys.exit(f"tandem run, again: exit code {again.returncode}: {again.stderr}")
            loaded = json.loads(out.read_text())["devices"][0]["bytes_loaded"]
            predicted = json.loads(plan.read_text())["devices"][0]["memory_bytes"]
            measured = json.loads(out.read_text())["devices"][0]["peak_memory_bytes"]
            cached = sum(f.stat().st_size for f in (folder / "cache" / "blocks").iterdir())
    finally:
        group.remove()
    parts = ("weights", "kv_cache", "activations", "buffers")
    expected = sum(predicted[part] for part in parts)
    program = predicted["program"]
    if not PROGRAM <= program <= PROGRAM + SESSION or expected + program > LIMIT:
        sys.exit(f"predicted {predicted}, expected {PROGRAM} for the program, up to {SESSION} for its session, "
                 f"at most {LIMIT} in all")
    total = measured["total"]
    print(f"weights {cached} bytes, limit {LIMIT}, predicted {expected:.0f} + program {program:.0f}, "
          f"measured peak {total:.0f}: {measured}")
    if cached < 4 * LIMIT:
        sys.exit(f"the model has {cached} bytes, expected at least four times the limit")
    print(f"loaded {loaded:.0f} bytes, read from disk {read}")
    if read == 0:
        print("not compared: the kernel counts no reads of this folder, which is on no disk")
    elif not loaded <= read <= loaded + FILES:
        sys.exit(f"the kernel read {read} bytes from disk, expected {loaded:.0f} of weights and up to {FILES} more")
    for part in parts:
        if abs(measured[part] - predicted[part]) > 0.05 * expected:
            sys.exit(f"{part}: measured {measured[part]}, predicted {predicted[part]}")
    if abs(total - expected - program) > 0.05 * (expected + program):
        sys.exit(f"peak {total:.0f}, expected within 5% of {expected:.0f} + {program:.0f}")


if __name__ == "__main__":
    main()
