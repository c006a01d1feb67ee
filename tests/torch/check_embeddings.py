"""Compares what `tandem serve` answers on /v1/embeddings with an independent PyTorch implementation.

usage: check_embeddings.py path/to/tandem

Small encoders with random weights, served by this machine alone and by emulated devices of three
strategies. Expected are the hidden states of families.py, pooled by the definitions of
sentence-transformers and at length 1. The largest difference is at most 1e-5.
"""

import base64
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError as error:
    sys.exit(f"check_embeddings: {error}; install it: apt-get install python3-torch python3-numpy")

import families
import reference

BOUND = 1e-5
CONFIGS = {
    "bert": {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
        "num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 6,
        "intermediate_size": 100, "vocab_size": 300, "max_position_embeddings": 80,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    },
    "distilbert": {
        "model_type": "distilbert", "architectures": ["DistilBertModel"], "activation": "gelu",
        "n_layers": 3, "dim": 48, "n_heads": 6, "hidden_dim": 100, "vocab_size": 300,
        "max_position_embeddings": 80,
    },
}
# Strategy (none: without a plan), and the pooling of 1_Pooling/config.json (none: the flag's).
RUNS = {
    "bert": [(None, None), ("tensor", None), ("galaxy", "cls"), ("pipeline", "mean")],
    "distilbert": [(None, "max"), ("sp", None)],
}
TEXTS = ["a", "where is the red lamp?", "x" * 80, "Grüße"]
KEYS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}


def expected_of(kind, config, weights, ids, pooling):
    states = families.MODELS[kind](config, weights, ids)
    vector = {"mean": states.mean(0), "cls": states[0], "max": states.max(0).values}[pooling]
    return (vector / vector.norm()).numpy()


def post(url, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + "/v1/embeddings", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def check_run(tandem, folder, kind, strategy, stated):
    """Prints a line; returns whether all embeddings are within the bound."""
    model = folder / kind
    config, weights = reference.read_folder(model)
    file = model / "1_Pooling" / "config.json"
    file.unlink(missing_ok=True)
    command = [tandem, "serve", "--weights", model, "--listen", "127.0.0.1:0", "--cache", folder / "slices"]
    pooling = stated or "cls"
    if stated:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({key: name == stated for name, key in KEYS.items()}))
    else:
        command += ["--pooling", pooling]
    if strategy:
        plan = folder / "plan.json"
        subprocess.run([tandem, "plan", "--platform", "home4", "--devices", "desktop,laptop", "--model", model,
                        "--strategy", strategy, "--prompt-tokens", "80", "--out", plan],
                       check=True, stdout=subprocess.DEVNULL)
        command[2:2] = [plan, "--emulate"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = next(word for word in server.stdout.readline().split() if word.startswith("http:")).rstrip(",")
        ids = [list(text.encode()) for text in TEXTS]  # without a vocabulary, tokens are bytes
        answer = post(url, {"input": TEXTS})
        packed = post(url, {"input": ids, "encoding_format": "base64"})
    finally:
        server.terminate()
        server.wait()
    worst = 0.0
    for i, one in enumerate(ids):
        expected = expected_of(kind, config, weights, one, pooling)
        given = np.array(answer["data"][i]["embedding"])
        numbers = np.frombuffer(base64.b64decode(packed["data"][i]["embedding"]), "<f4")
        for actual in (given, numbers):
            if actual.shape != expected.shape:
                sys.exit(f"check_embeddings: {actual.shape} numbers, expected {expected.shape}")
            worst = max(worst, float(np.abs(actual - expected).max()))
    good = worst <= BOUND and answer["usage"]["prompt_tokens"] == sum(map(len, ids))
    print(f"{kind:11} {strategy or 'this machine':13} {pooling:5} largest difference {worst:.1e}  {'ok' if good else 'FAILED'}")
    return good


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, config in CONFIGS.items():
            file = folder / f"{kind}.json"
            file.write_text(json.dumps(config))
            subprocess.run([sys.argv[1], "model", "random", "--config", file, "--out", folder / kind, "--quiet"], check=True)
            for strategy, stated in RUNS[kind]:
                good = check_run(sys.argv[1], folder, kind, strategy, stated) and good
    if not good:
        sys.exit(f"check_embeddings: an embedding differs by more than {BOUND:g}")


if __name__ == "__main__":
    main()
