"""GPT-2, OPT, BERT and DistilBERT in plain PyTorch, by the papers and Hugging Face's definitions.

As reference.py is: independent of tandem's code, everything in float64. The post-norm models are
written as their papers write them, LayerNorm(x + f(x)), although tandem computes them in another
order.
"""

import math

import torch


def linear(x, weights, name):
    """A torch.nn.Linear: weight [out, in]."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def conv1d(x, weights, name):
    """GPT-2's Conv1D: weight [in, out]."""
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def layer_norm(x, weights, name, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    normed = centred / torch.sqrt(variance + epsilon)
    return normed * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3))))


ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_new, "relu": torch.relu}


def mix(query, key, value, heads, causal):
    """softmax(q k^T / sqrt(d)) v of [tokens, heads * d] matrices."""
    tokens, width = query.shape
    head_dim = width // heads
    query, key, value = (m.view(tokens, heads, head_dim) for m in (query, key, value))
    scores = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(head_dim)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value).reshape(tokens, width)


def head_of(config, weights, embedding):
    tied = config.get("tie_word_embeddings", True)
    return embedding if tied else weights["lm_head.weight"]


def gpt2(config, weights, ids):
    """Logits of every position."""
    epsilon = config["layer_norm_epsilon"]
    activation = ACTIVATIONS[config["activation_function"]]
    embedding = weights["transformer.wte.weight"]
    x = embedding[torch.tensor(ids)] + weights["transformer.wpe.weight"][: len(ids)]
    for layer in range(config["n_layer"]):
        p = f"transformer.h.{layer}."
        qkv = conv1d(layer_norm(x, weights, f"{p}ln_1", epsilon), weights, f"{p}attn.c_attn")
        mixed = mix(*qkv.chunk(3, dim=-1), config["n_head"], causal=True)
        x = x + conv1d(mixed, weights, f"{p}attn.c_proj")
        up = conv1d(layer_norm(x, weights, f"{p}ln_2", epsilon), weights, f"{p}mlp.c_fc")
        x = x + conv1d(activation(up), weights, f"{p}mlp.c_proj")
    x = layer_norm(x, weights, "transformer.ln_f", epsilon)
    return x @ head_of(config, weights, embedding).T


def opt(config, weights, ids):
    """Logits of every position; do_layer_norm_before."""
    epsilon = 1e-5
    activation = ACTIVATIONS[config["activation_function"]]
    embedding = weights["model.decoder.embed_tokens.weight"]
    positions = torch.arange(len(ids)) + 2
    x = embedding[torch.tensor(ids)] + weights["model.decoder.embed_positions.weight"][positions]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.decoder.layers.{layer}."
        normed = layer_norm(x, weights, f"{p}self_attn_layer_norm", epsilon)
        query, key, value = (linear(normed, weights, f"{p}self_attn.{m}_proj") for m in "qkv")
        mixed = mix(query, key, value, config["num_attention_heads"], causal=True)
        x = x + linear(mixed, weights, f"{p}self_attn.out_proj")
        up = linear(layer_norm(x, weights, f"{p}final_layer_norm", epsilon), weights, f"{p}fc1")
        x = x + linear(activation(up), weights, f"{p}fc2")
    x = layer_norm(x, weights, "model.decoder.final_layer_norm", epsilon)
    return x @ head_of(config, weights, embedding).T


def bert(config, weights, ids):
    """The last hidden state of every position; all of token type 0."""
    epsilon = config["layer_norm_eps"]
    activation = ACTIVATIONS[config["hidden_act"]]
    e = "bert.embeddings."
    x = weights[f"{e}word_embeddings.weight"][torch.tensor(ids)]
    x = x + weights[f"{e}position_embeddings.weight"][: len(ids)]
    x = x + weights[f"{e}token_type_embeddings.weight"][0]
    x = layer_norm(x, weights, f"{e}LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        p = f"bert.encoder.layer.{layer}."
        query, key, value = (
            linear(x, weights, f"{p}attention.self.{m}") for m in ("query", "key", "value")
        )
        mixed = mix(query, key, value, config["num_attention_heads"], causal=False)
        x = x + linear(mixed, weights, f"{p}attention.output.dense")
        x = layer_norm(x, weights, f"{p}attention.output.LayerNorm", epsilon)
        up = activation(linear(x, weights, f"{p}intermediate.dense"))
        x = x + linear(up, weights, f"{p}output.dense")
        x = layer_norm(x, weights, f"{p}output.LayerNorm", epsilon)
    return x


def distilbert(config, weights, ids):
    """The last hidden state of every position."""
    epsilon = 1e-12
    activation = ACTIVATIONS[config["activation"]]
    e = "distilbert.embeddings."
    x = weights[f"{e}word_embeddings.weight"][torch.tensor(ids)]
    x = x + weights[f"{e}position_embeddings.weight"][: len(ids)]
    x = layer_norm(x, weights, f"{e}LayerNorm", epsilon)
    for layer in range(config["n_layers"]):
        p = f"distilbert.transformer.layer.{layer}."
        query, key, value = (linear(x, weights, f"{p}attention.{m}_lin") for m in "qkv")
        mixed = mix(query, key, value, config["n_heads"], causal=False)
        x = layer_norm(
            x + linear(mixed, weights, f"{p}attention.out_lin"),
            weights, f"{p}sa_layer_norm", epsilon,
        )
        up = activation(linear(x, weights, f"{p}ffn.lin1"))
        x = layer_norm(
            x + linear(up, weights, f"{p}ffn.lin2"), weights, f"{p}output_layer_norm", epsilon
        )
    return x


MODELS = {"gpt2": gpt2, "opt": opt, "bert": bert, "distilbert": distilbert}
