"""The Llama forward pass in plain PyTorch, reading config.json and safetensors itself.

Independent of tandem's code: it shares with it only the formats of Hugging Face. Weights are
widened to float64 and everything is computed in float64, so that what it says is exact beside
float32's rounding.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch

DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


def read_safetensors(path):
    """{name: float64 tensor} of one safetensors file."""
    data = Path(path).read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_bytes])
    body = data[8 + header_bytes :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        stored = np.frombuffer(body[begin:end], DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        values = stored.astype(np.float64).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values)
    return tensors


def read_folder(folder):
    """(config, tensors) of a Hugging Face folder, one file or sharded with an index."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    index = folder / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    tensors = {}
    for file in files:
        tensors.update(read_safetensors(folder / file))
    return config, tensors


def rms_norm(x, weight, epsilon):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rope_frequencies(config, head_dim):
    """Angle a position of each pair of components, with the config's scaling."""
    pairs = torch.arange(head_dim // 2, dtype=torch.float64)
    frequency = config.get("rope_theta", 10000.0) ** (-2.0 * pairs / head_dim)
    scaling = config.get("rope_scaling")
    if not scaling:
        return frequency
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "linear":
        return frequency / scaling["factor"]
    if kind == "yarn":
        # Fast pairs keep their frequency, slow ones are divided, those between are blended by their index.
        original = scaling["original_max_position_embeddings"]

        def pair(turns):
            base = config.get("rope_theta", 10000.0)
            return head_dim * math.log(original / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))

        first = max(math.floor(pair(scaling.get("beta_fast", 32))), 0)
        last = min(math.ceil(pair(scaling.get("beta_slow", 1))), head_dim - 1)
        slow = ((pairs - first) / max(last - first, 0.001)).clamp(0.0, 1.0)
        return slow * frequency / scaling["factor"] + (1.0 - slow) * frequency
    if kind != "llama3":
        raise ValueError(f"rope scaling {kind}")
    # Long wavelengths are stretched by the factor, short ones kept, those between blended.
    wavelength = 2.0 * math.pi / frequency
    ratio = scaling["original_max_position_embeddings"] / wavelength
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    blend = ((ratio - low) / (high - low)).clamp(0.0, 1.0)
    return blend * frequency + (1.0 - blend) * frequency / scaling["factor"]


def rotate(x, frequency):
    """Rotary embedding of x [tokens, heads, head_dim]: component i pairs with i + head_dim / 2."""
    angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * frequency[None, :]
    cosine, sine = angle.cos()[:, None, :], angle.sin()[:, None, :]
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


def attention(x, weights, prefix, config, head_dim):
    tokens = x.shape[0]
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    frequency = rope_frequencies(config, head_dim)

    def project(name, count):
        return (x @ weights[f"{prefix}self_attn.{name}_proj.weight"].T).view(tokens, count, head_dim)

    query = rotate(project("q", heads), frequency)
    key = rotate(project("k", kv_heads), frequency)
    value = project("v", kv_heads)
    group = heads // kv_heads
    key = key.repeat_interleave(group, 1)
    value = value.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(head_dim)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, -math.inf).softmax(-1)
    mixed = torch.einsum("hqk,khd->qhd", scores, value).reshape(tokens, heads * head_dim)
    return mixed @ weights[f"{prefix}self_attn.o_proj.weight"].T


def feed_forward(x, weights, prefix):
    gate = x @ weights[f"{prefix}mlp.gate_proj.weight"].T
    up = x @ weights[f"{prefix}mlp.up_proj.weight"].T
    return (gate * torch.sigmoid(gate) * up) @ weights[f"{prefix}mlp.down_proj.weight"].T


def logits(config, weights, ids):
    """Logits of every position, [len(ids), vocab], float64."""
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    epsilon = config["rms_norm_eps"]
    embedding = weights["model.embed_tokens.weight"]
    x = embedding[torch.tensor(ids)]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        normed = rms_norm(x, weights[f"{prefix}input_layernorm.weight"], epsilon)
        x = x + attention(normed, weights, prefix, config, head_dim)
        normed = rms_norm(x, weights[f"{prefix}post_attention_layernorm.weight"], epsilon)
        x = x + feed_forward(normed, weights, prefix)
    x = rms_norm(x, weights["model.norm.weight"], epsilon)
    head = embedding if config.get("tie_word_embeddings", False) else weights["lm_head.weight"]
    return x @ head.T
