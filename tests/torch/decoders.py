"""Qwen 2 and 3, Gemma 2 and 3, Phi 3, Granite and SmolLM3 in plain PyTorch, by Hugging Face's definitions.

As reference.py is: independent of tandem's code, everything in float64. Each family is what it adds to Llama; windows,
scales and caps are applied where its definition has them.
"""

import math

import torch

import reference


def norm(x, weight, epsilon, one_plus=False):
    return reference.rms_norm(x, 1.0 + weight if one_plus else weight, epsilon)


def plain_frequencies(base, dims):
    return base ** (-2.0 * torch.arange(dims // 2, dtype=torch.float64) / dims)


def turned(x, frequency, factor=1.0):
    """The first 2 len(frequency) components of x [tokens, heads, head_dim] rotated, halves as pairs."""
    dims = 2 * len(frequency)
    angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * frequency[None, :]
    cosine, sine = factor * angle.cos()[:, None, :], factor * angle.sin()[:, None, :]
    first, second = x[..., : dims // 2], x[..., dims // 2 : dims]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, x[..., dims:]), -1)


def mixed(query, key, value, scale, cap=None, window=None):
    """softmax(cap(q k^T scale)) v of [tokens, heads, d], a row seeing the last `window` tokens up to itself."""
    tokens = query.shape[0]
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", query, key) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    row = torch.arange(tokens)[:, None]
    column = torch.arange(tokens)[None, :]
    hidden = column > row
    if window:
        hidden = hidden | (column <= row - window)
    scores = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", scores, value).reshape(tokens, -1)


def sizes(config):
    heads = config["num_attention_heads"]
    return heads, config.get("num_key_value_heads", heads), config.get("head_dim") or config["hidden_size"] // heads


def projected(x, weights, prefix, config, names=("q", "k", "v")):
    heads, kv_heads, head_dim = sizes(config)
    made = []
    for name, count in zip(names, (heads, kv_heads, kv_heads)):
        y = x @ weights[f"{prefix}{name}_proj.weight"].T
        if f"{prefix}{name}_proj.bias" in weights:
            y = y + weights[f"{prefix}{name}_proj.bias"]
        made.append(y.view(-1, count, head_dim))
    return made


def silu(x):
    return x * torch.sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3))))


def gated(x, weights, prefix, activation):
    gate = activation(x @ weights[f"{prefix}gate_proj.weight"].T)
    return (gate * (x @ weights[f"{prefix}up_proj.weight"].T)) @ weights[f"{prefix}down_proj.weight"].T


def head_of(config, weights, tied):
    name = "model.embed_tokens.weight" if config.get("tie_word_embeddings", tied) else "lm_head.weight"
    return weights[name]


def embedded(weights, ids):
    return weights["model.embed_tokens.weight"][torch.tensor(ids)]


def qwen(config, weights, ids):
    """Qwen 2 (biases on q, k, v) and Qwen 3 (norms of heads), whichever the weights have; Ministral 3 (queries that grow)."""
    epsilon = config["rms_norm_eps"]
    _, _, head_dim = sizes(config)
    frequency = reference.rope_frequencies(config, head_dim)
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    x = embedded(weights, ids)
    for layer, kind in enumerate(kinds):
        p = f"model.layers.{layer}."
        query, key, value = projected(norm(x, weights[f"{p}input_layernorm.weight"], epsilon), weights,
                                      f"{p}self_attn.", config)
        if config["model_type"] == "qwen3":
            query = norm(query, weights[f"{p}self_attn.q_norm.weight"], epsilon)
            key = norm(key, weights[f"{p}self_attn.k_norm.weight"], epsilon)
        size = (config.get("rope_scaling") or {}).get("attention_factor", 1.0)
        if "llama_4_scaling_beta" in (config.get("rope_scaling") or {}):
            scaling = config["rope_scaling"]
            passed = torch.floor(torch.arange(len(ids), dtype=torch.float64) / scaling["original_max_position_embeddings"])
            query = query * (1.0 + scaling["llama_4_scaling_beta"] * torch.log(1.0 + passed))[:, None, None]
        y = mixed(turned(query, frequency, size), turned(key, frequency, size), value, head_dim**-0.5,
                  window=config["sliding_window"] if kind == "sliding_attention" else None)
        x = x + y @ weights[f"{p}self_attn.o_proj.weight"].T
        x = x + gated(norm(x, weights[f"{p}post_attention_layernorm.weight"], epsilon), weights, f"{p}mlp.", silu)
    return norm(x, weights["model.norm.weight"], epsilon) @ head_of(config, weights, False).T


def gemma(config, weights, ids):
    """Gemma 2 (caps) and 3 (norms of heads, two bases): norms are 1 + w, one before and one behind each block."""
    epsilon = config["rms_norm_eps"]
    _, _, head_dim = sizes(config)
    third = config["model_type"] == "gemma3_text"
    scale = config["query_pre_attn_scalar"] ** -0.5
    everywhere = reference.rope_frequencies(config, head_dim)
    local = plain_frequencies(config["rope_local_base_freq"], head_dim) if third else everywhere
    x = embedded(weights, ids) * math.sqrt(config["hidden_size"])
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        sliding = (layer + 1) % 6 != 0 if third else layer % 2 == 0
        if "layer_types" in config:
            sliding = config["layer_types"][layer] == "sliding_attention"
        frequency = local if sliding else everywhere
        query, key, value = projected(norm(x, weights[f"{p}input_layernorm.weight"], epsilon, True), weights,
                                      f"{p}self_attn.", config)
        if third:
            query = norm(query, weights[f"{p}self_attn.q_norm.weight"], epsilon, True)
            key = norm(key, weights[f"{p}self_attn.k_norm.weight"], epsilon, True)
        y = mixed(turned(query, frequency), turned(key, frequency), value, scale,
                  config["attn_logit_softcapping"], config["sliding_window"] if sliding else None)
        y = y @ weights[f"{p}self_attn.o_proj.weight"].T
        x = x + norm(y, weights[f"{p}post_attention_layernorm.weight"], epsilon, True)
        y = gated(norm(x, weights[f"{p}pre_feedforward_layernorm.weight"], epsilon, True), weights, f"{p}mlp.", gelu_tanh)
        x = x + norm(y, weights[f"{p}post_feedforward_layernorm.weight"], epsilon, True)
    y = norm(x, weights["model.norm.weight"], epsilon, True) @ head_of(config, weights, True).T
    cap = config["final_logit_softcapping"]
    return cap * torch.tanh(y / cap) if cap else y


def phi3(config, weights, ids):
    """Fused q, k, v and gate, up; a part of each head rotated; LongRoPE's factors by the length of the text."""
    epsilon = config["rms_norm_eps"]
    heads, kv_heads, head_dim = sizes(config)
    dims = int(head_dim * config.get("partial_rotary_factor", 1.0))
    frequency = plain_frequencies(config["rope_theta"], dims)
    factor = 1.0
    scaling = config.get("rope_scaling")
    if scaling:
        original = config["original_max_position_embeddings"]
        long = len(ids) > original
        frequency = frequency / torch.tensor(scaling["long_factor" if long else "short_factor"], dtype=torch.float64)
        ratio = config["max_position_embeddings"] / original
        implied = math.sqrt(1.0 + math.log(ratio) / math.log(original)) if ratio > 1.0 else 1.0
        factor = scaling.get("attention_factor", implied)
    x = embedded(weights, ids)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = norm(x, weights[f"{p}input_layernorm.weight"], epsilon) @ weights[f"{p}self_attn.qkv_proj.weight"].T
        query, key, value = y.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1)
        query, key, value = (m.reshape(len(ids), -1, head_dim) for m in (query, key, value))
        y = mixed(turned(query, frequency, factor), turned(key, frequency, factor), value, head_dim**-0.5)
        x = x + y @ weights[f"{p}self_attn.o_proj.weight"].T
        y = norm(x, weights[f"{p}post_attention_layernorm.weight"], epsilon) @ weights[f"{p}mlp.gate_up_proj.weight"].T
        gate, up = y.chunk(2, -1)
        x = x + (silu(gate) * up) @ weights[f"{p}mlp.down_proj.weight"].T
    return norm(x, weights["model.norm.weight"], epsilon) @ head_of(config, weights, False).T


def granite(config, weights, ids):
    """Llama with multipliers of the embedding, of scores, of what blocks add, and a divisor of logits."""
    epsilon = config["rms_norm_eps"]
    _, _, head_dim = sizes(config)
    frequency = reference.rope_frequencies(config, head_dim)
    adds = config["residual_multiplier"]
    x = embedded(weights, ids) * config["embedding_multiplier"]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        query, key, value = projected(norm(x, weights[f"{p}input_layernorm.weight"], epsilon), weights,
                                      f"{p}self_attn.", config)
        y = mixed(turned(query, frequency), turned(key, frequency), value, config["attention_multiplier"])
        x = x + adds * (y @ weights[f"{p}self_attn.o_proj.weight"].T)
        x = x + adds * gated(norm(x, weights[f"{p}post_attention_layernorm.weight"], epsilon), weights, f"{p}mlp.", silu)
    y = norm(x, weights["model.norm.weight"], epsilon) @ head_of(config, weights, False).T
    return y / config["logits_scaling"]


def smollm3(config, weights, ids):
    """Llama with layers that know no positions."""
    epsilon = config["rms_norm_eps"]
    _, _, head_dim = sizes(config)
    frequency = reference.rope_frequencies(config, head_dim)
    x = embedded(weights, ids)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        query, key, value = projected(norm(x, weights[f"{p}input_layernorm.weight"], epsilon), weights,
                                      f"{p}self_attn.", config)
        if config["no_rope_layers"][layer]:
            query, key = turned(query, frequency), turned(key, frequency)
        x = x + mixed(query, key, value, head_dim**-0.5) @ weights[f"{p}self_attn.o_proj.weight"].T
        x = x + gated(norm(x, weights[f"{p}post_attention_layernorm.weight"], epsilon), weights, f"{p}mlp.", silu)
    return norm(x, weights["model.norm.weight"], epsilon) @ head_of(config, weights, True).T


MODELS = {"ministral3": qwen, "qwen2": qwen, "qwen3": qwen, "gemma2": gemma, "gemma3_text": gemma, "phi3": phi3, "granite": granite,
          "smollm3": smollm3}
