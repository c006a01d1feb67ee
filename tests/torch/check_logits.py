"""Compares tandem's logits with an independent PyTorch implementation.

usage: check_logits.py path/to/tandem_dump_logits

For every model of dump_logits.cpp and every run (one device; several with even and uneven shares,
tensor and pipeline): the prompt's last logits and those of 32 further tokens, relative error at
most 1e-4 a step (largest difference over largest logit), and the same greedy token. Of an encoder
the hidden states of all positions, by the same measure.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError as error:
    sys.exit(f"check_logits: {error}; install it: apt-get install python3-torch python3-numpy")

import decoders
import families
import reference

BOUND = 1e-4


def check_case(folder):
    """Prints a line for each run of one model; returns how many exceed the bound."""
    config, weights = reference.read_folder(folder)
    ids = json.loads((folder / "ids.json").read_text())
    prompt = ids["prompt"]
    model = {**families.MODELS, **decoders.MODELS}.get(config["model_type"], reference.logits)
    if "fed" in ids:
        expected = model(config, weights, prompt + ids["fed"]).numpy()[len(prompt) - 1 :]
    else:
        expected = model(config, weights, prompt).numpy()
    failures = 0
    runs = sorted(folder.glob("*.f32"))
    if not runs:
        sys.exit(f"check_logits: {folder.name}: no logits were written")
    for run in runs:
        actual = np.fromfile(run, np.dtype("<f4"))
        if actual.size != expected.size:
            sys.exit(f"check_logits: {run}: {actual.size} logits, expected {expected.size}")
        actual = actual.reshape(expected.shape).astype(np.float64)
        difference = np.abs(actual - expected).max(axis=1) / np.abs(expected).max(axis=1)
        tokens = int((actual.argmax(axis=1) != expected.argmax(axis=1)).sum())
        good = bool((difference <= BOUND).all()) and tokens == 0  # NaN is not <= BOUND
        failures += not good
        print(
            f"{folder.name:18} {run.stem:15} steps {len(expected):3}"
            f"  relative error {difference.max():.2e}  other tokens {tokens}"
            f"  {'ok' if good else 'FAILED'}"
        )
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.argv[1], name], check=True)
        cases = sorted(path for path in Path(name).iterdir() if path.is_dir())
        failures = sum(check_case(case) for case in cases)
    if not cases or failures:
        sys.exit(f"check_logits: {failures} of the runs exceed a relative error of {BOUND:g}")


if __name__ == "__main__":
    main()
