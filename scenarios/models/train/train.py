#!/usr/bin/env python3
"""Trains tandem-tiny, or its deeper sibling, on the corpus of corpus.py and writes it as a Hugging Face folder.

    train.py --work DIR [--model tandem-tiny|tandem-deep] [--out DIR] [--threads N]

`--work` keeps the tokenizer, the checkpoint and the loss curve: a run that was stopped goes on from the last
checkpoint. Batch number i depends on i alone, so a resumed run sees what an uninterrupted one would have seen.
Needs Debian's python3-torch, python3-sentencepiece and python3-matplotlib.
"""

import argparse
import csv
import dataclasses
import io
import json
import math
import pathlib
import random
import resource
import struct
import time

import sentencepiece
import torch
from torch.nn import functional

import corpus

VOCABULARY, CONTEXT = 1536, 1024


# (first step, rows, tokens a row, share of recitals, share of drills, whether other documents are dense with facts
# (None: every second one), whether positions are stretched). Short documents first, where looking back is learnt
# soonest.
STAGES = ((0, 64, 64, 0.3, 0.7, True, False),
          (500, 64, 128, 0.15, 0.5, True, True),
          (800, 32, 256, 0.1, 0.3, True, True),
          (1000, 8, CONTEXT, 0.05, 0.25, None, False))
# Slow positions, so that most of a head's pairs hardly turn in 1,000 tokens and match words whatever their distance.
ROPE_THETA = 1e7
# (step, share of the full learning rate), linear between: a short warm-up, then constant, then falling to nothing at
# the last step.
RATES = ((0, 0.02), (49, 1.0), (1150, 1.0), (1400, 0.0))


@dataclasses.dataclass(frozen=True)
class Shape:
    """What one model differs in from the other."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int = 8
    kv_heads: int = 4
    head: int = 32
    stages: tuple = STAGES
    rates: tuple = RATES

    @property
    def steps(self):
        return self.rates[-1][0]

    def stage(self, step):
        """Returns what `stages` says of a batch, but for its step."""
        return [stage for stage in self.stages if stage[0] <= step][-1][1:]

    def rate(self, step):
        """Returns the share of the full learning rate."""
        (x, low), (y, high) = next(pair for pair in zip(self.rates, self.rates[1:]) if step < pair[1][0])
        return low + (high - low) * (step - x) / (y - x)


# The deeper one answers nearly all questions after 650 steps, so longer documents come sooner.
SHAPES = {"tandem-tiny": Shape(layers=4, hidden=256, feed_forward=640),
          "tandem-deep": Shape(layers=12, hidden=192, feed_forward=448,
                               stages=(*STAGES[:2], (700, *STAGES[2][1:]), (820, *STAGES[3][1:])),
                               rates=((0, 0.02), (49, 1.0), (900, 1.0), (1100, 0.0)))}
EPSILON = 1e-5
UNK, BOS, EOS = 0, 1, 2
# Training documents are made from seeds from here on; held-out text from those below.
FIRST_TRAINING_SEED = 1_000_000
ANSWER_WEIGHT = 6.0


def make_tokenizer(folder):
    """Returns the SentencePiece BPE tokenizer in `folder`, trained first if it is not there."""
    path = folder / "tokenizer.model"
    if not path.exists():
        count = lambda text: len(text.split())
        texts = [" ".join(corpus.document(random.Random(FIRST_TRAINING_SEED + seed), 400, count, True))
                 for seed in range(1500)]
        model = io.BytesIO()
        sentences = (sentence + "." for text in texts for sentence in text.split(". "))
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences, model_writer=model, model_type="bpe", vocab_size=VOCABULARY,
            byte_fallback=True, split_digits=True, character_coverage=1.0, unk_id=UNK, bos_id=BOS, eos_id=EOS,
            pad_id=-1, normalization_rule_name="identity", remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True, hard_vocab_limit=False, num_threads=1, minloglevel=2)
        path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


class Layer(torch.nn.Module):
    """One decoder layer of the Llama architecture; linear maps keep the names of the Hugging Face files."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        linear = lambda rows, columns: torch.nn.Linear(columns, rows, bias=False)
        query, keys, hidden = shape.heads * shape.head, shape.kv_heads * shape.head, shape.hidden
        self.self_attn = torch.nn.ModuleDict({
            "q_proj": linear(query, hidden), "k_proj": linear(keys, hidden),
            "v_proj": linear(keys, hidden), "o_proj": linear(hidden, query)})
        self.mlp = torch.nn.ModuleDict({
            "gate_proj": linear(shape.feed_forward, hidden), "up_proj": linear(shape.feed_forward, hidden),
            "down_proj": linear(hidden, shape.feed_forward)})
        self.input_layernorm = Norm(hidden)
        self.post_attention_layernorm = Norm(hidden)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        queries, kv_heads, head = self.shape.heads, self.shape.kv_heads, self.shape.head
        normed = self.input_layernorm(x)
        heads = lambda name, n: self.self_attn[name](normed).view(batch, length, n, head).transpose(1, 2)
        query, key, value = heads("q_proj", queries), heads("k_proj", kv_heads), heads("v_proj", kv_heads)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        groups = queries // kv_heads
        # The heads of a group are further query rows of its key-value head.
        query = query.reshape(batch, kv_heads, groups, length, head)
        out = []
        # Chunk by chunk, since no query looks past its own chunk: a third of the work is saved at 1024.
        chunk = min(256, length)
        for begin in range(0, length, chunk):
            end = min(begin + chunk, length)
            rows = query[:, :, :, begin:end].reshape(batch, kv_heads, groups * (end - begin), head)
            scores = rows @ key[:, :, :end].transpose(2, 3) * head**-0.5
            scores = scores.view(batch, kv_heads, groups, end - begin, end)
            scores = scores + torch.full((end - begin, end), -1e9, dtype=scores.dtype).triu(begin + 1)
            weights = functional.softmax(scores, -1, dtype=torch.float32).to(value.dtype)
            weights = weights.view(batch, kv_heads, groups * (end - begin), end)
            out.append((weights @ value[:, :, :end]).view(batch, kv_heads * groups, end - begin, head))
        joined = torch.cat(out, 2).transpose(1, 2).reshape(batch, length, queries * head)
        x = x + self.self_attn["o_proj"](joined)
        normed = self.post_attention_layernorm(x)
        gate = functional.silu(self.mlp["gate_proj"](normed))
        return x + self.mlp["down_proj"](gate * self.mlp["up_proj"](normed))


class Norm(torch.nn.Module):
    """Root mean square normalisation."""

    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * self.weight


def rotate(x, cos, sin):
    """Rotary position embedding, the halves of a head being the pairs."""
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)


class Transformer(torch.nn.Module):
    """A decoder of the Llama architecture with tied embeddings."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = torch.nn.Embedding(VOCABULARY, shape.hidden)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                torch.nn.init.normal_(parameter, std=0.05 / (math.sqrt(2 * shape.layers) if last else 1))

        self.look_back()

    @torch.no_grad()
    def look_back(self):
        """Lets head h of the first layer begin by looking h + 1 tokens back. All tokens share a constant in their first
        dimension; from it, three of the head's rotary pairs make scores that are highest at that distance. Without it
        and recitals, finding a fact by its subject, which takes such heads first, was not learnt in 3,000 steps."""
        self.embed_tokens.weight[:, 0] = 0.4
        attention, shape = self.layers[0].self_attn, self.shape
        query, key = attention["q_proj"].weight[:, 0], attention["k_proj"].weight[:, 0]
        for head in range(shape.heads):
            for pair in range(3):
                angle = (head + 1) * ROPE_THETA ** (-2 * pair / shape.head)
                low, shared = head * shape.head + pair, head // (shape.heads // shape.kv_heads) * shape.head + pair
                query[low], query[low + shape.head // 2] = 0.8 * math.cos(angle), -0.8 * math.sin(angle)
                key[shared], key[shared + shape.head // 2] = 0.8, 0.0

    def forward(self, ids, positions=None):
        """Returns the logits of `ids` [rows, tokens] at `positions` [rows, tokens], by default 0, 1, ..."""
        frequency = ROPE_THETA ** (-torch.arange(0, self.shape.head, 2) / self.shape.head)
        positions = torch.arange(ids.shape[1])[None] if positions is None else positions
        angle = positions[:, None, :, None] * frequency
        cos, sin = angle.cos(), angle.sin()
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.norm(x), self.embed_tokens.weight)


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal before the step (K. Jordan et al., "Muon: an optimizer for hidden
    layers in neural networks", 2024): five iterations of an odd quintic polynomial drive all singular values
    towards 1."""

    def __init__(self, matrices, lr):
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 0.05)
                update = parameter.grad.lerp(momentum, 0.95).bfloat16()
                wide = update.shape[0] <= update.shape[1]
                x = update if wide else update.T
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
                scale = max(1.0, update.shape[0] / update.shape[1]) ** 0.5
                parameter.mul_(1 - group["lr"] * 0.01)
                parameter.sub_((x if wide else x.T).float(), alpha=group["lr"] * scale)


def row(tokenizer, seed, length, recitals, drills, dense):
    """Returns `length` + 1 tokens: mostly one document from its beginning, sometimes several short ones."""
    generator = random.Random(seed)
    count = lambda text: len(tokenizer.encode(text))
    ids = []
    several = generator.random() < 0.15
    while len(ids) <= length:
        wanted = generator.randrange(30, 200) if several else length
        kind = generator.random()
        if kind < recitals:
            sentences = corpus.recital(generator, wanted)
        elif kind < recitals + drills:
            sentences = corpus.drill(generator, wanted, count)
        else:
            sentences = corpus.document(generator, wanted, count, generator.random() < 0.5 if dense is None else dense)
        ids += [BOS] + tokenizer.encode(" ".join(sentences)) + [EOS]
    return ids[:length + 1]


def positions_of(ids, stop, generator):
    """Returns the position of each of `ids`: short documents are stretched over the context by gaps after a few of
    their sentences, so that matching at any distance is learnt where it is cheap (as PoSE does, D. Zhu et al., 2023).
    """
    gaps = [0] * len(ids)
    ends = [index + 1 for index, token in enumerate(ids[:-1]) if token == stop]
    spare = generator.randrange(CONTEXT - len(ids) + 1)
    for end in generator.sample(ends, min(len(ends), generator.randrange(6))):
        gap = generator.randrange(spare + 1)
        gaps[end] = gap
        spare -= gap
    position, positions = -1, []
    for gap in gaps:
        position += 1 + gap
        positions.append(position)
    return positions


def weights_of(ids, answer, colon, stop):
    """Returns the weight of each predicted token: those of answers count more, being the few that recall."""
    weights = torch.ones(ids.shape[0], ids.shape[1] - 1)
    for line, tokens in enumerate(ids.tolist()):
        inside = False
        for position in range(1, len(tokens)):
            if inside:
                weights[line, position - 1] = ANSWER_WEIGHT
                inside = tokens[position] != stop
            elif tokens[position] == colon and tokens[position - 1] == answer:
                inside = True
    return weights


def safetensors(tensors, metadata):
    """Returns the bytes of a safetensors file of 16-bit floats."""
    header, offset, parts = {"__metadata__": metadata}, 0, []
    for name, tensor in tensors.items():
        data = tensor.to(torch.float16).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def export(model, work, out):
    """Writes the model as a Hugging Face folder."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
    (out / "model.safetensors").write_bytes(safetensors(tensors, {"format": "pt"}))
    (out / "tokenizer.model").write_bytes((work / "tokenizer.model").read_bytes())
    (out / "loss.csv").write_bytes((work / "loss.csv").read_bytes())
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY,
            "hidden_size": model.shape.hidden, "intermediate_size": model.shape.feed_forward,
            "num_hidden_layers": model.shape.layers, "num_attention_heads": model.shape.heads,
            "num_key_value_heads": model.shape.kv_heads, "head_dim": model.shape.head,
            "max_position_embeddings": CONTEXT, "rms_norm_eps": EPSILON, "rope_theta": ROPE_THETA, "rope_scaling": None,
            "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
            "bos_token_id": BOS, "eos_token_id": EOS, "torch_dtype": "float16"},
        "tokenizer_config.json": special | {
            "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": False,
            "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT},
        "special_tokens_map.json": special,
        "generation_config.json": {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": False}}
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, indent=2) + "\n")


def held_out(tokenizer, out, documents, questions):
    """Writes the held-out text and the recall questions that `tandem eval` asks."""
    folder = out / "eval"
    folder.mkdir(parents=True, exist_ok=True)
    count = lambda text: len(tokenizer.encode(text))
    with open(folder / "heldout.jsonl", "w") as file:
        for seed in range(documents):
            sentences = corpus.document(random.Random(seed), 900, count)
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    with open(folder / "recall.jsonl", "w") as file:
        for distance in (64, 128, 256, 384, 512, 640, 768, 896, 1000):
            for index in range(questions):
                prompt, answer = corpus.recall_question(
                    f"recall {distance} {index}", distance, CONTEXT - 2, count)
                file.write(json.dumps({"distance": distance, "prompt": prompt, "answer": answer}) + "\n")


def recall(model, tokenizer, lines):
    """Returns the share of recall questions whose answer is right at every token, by distance."""
    right = {}
    for line in lines:
        prompt = [BOS] + tokenizer.encode(line["prompt"])
        answer = tokenizer.encode(line["answer"].strip())
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = model(torch.tensor([prompt + answer]))[0, len(prompt) - 1:-1]
        right.setdefault(line["distance"], []).append(logits.argmax(-1).tolist() == answer)
    return {distance: sum(values) / len(values) for distance, values in right.items()}


def plot(work, out):
    """Draws the loss curve."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tandem"
    from matplotlib import pyplot
    with open(work / "loss.csv") as file:
        lines = list(csv.DictReader(file))
    figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
    tokens = [int(line["tokens"]) / 1e6 for line in lines]
    for column, label in (("loss", "all tokens"), ("answer_loss", "answers to questions")):
        axes.plot(tokens, [float(line[column]) for line in lines], label=label, linewidth=1)
    axes.set(xlabel="training tokens (millions)", ylabel="loss (nats a token)", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(out / "loss.svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--model", choices=SHAPES, default="tandem-tiny")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the model; default: ../MODEL")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.out = options.out or pathlib.Path(__file__).parent.parent / options.model
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    options.work.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(options.work)
    answer, colon, stop = tokenizer.piece_to_id("▁Answer"), tokenizer.piece_to_id(":"), tokenizer.piece_to_id(".")
    shape = SHAPES[options.model]
    model = Transformer(shape)
    hidden = [parameter for parameter in model.layers.parameters() if parameter.dim() == 2]
    others = [model.embed_tokens.weight] + [parameter for parameter in model.parameters() if parameter.dim() == 1]
    optimizers = {Muon(hidden, 0.02): 0.02,
                  torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0): 3e-3}
    checkpoint, log = options.work / "checkpoint.pt", options.work / "loss.csv"
    step = tokens = 0
    cpu_before = 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, tokens, cpu_before = state["step"], state["tokens"], state["cpu_s"]
        kept = log.read_text().splitlines()[:state["lines"]]
        log.write_text("\n".join(kept) + "\n")
    else:
        log.write_text("step,tokens,loss,answer_loss,cpu_s\n")
    print(f"{sum(parameter.numel() for parameter in model.parameters())} parameters, from step {step}", flush=True)
    cpu_s = lambda: cpu_before + resource.getrusage(resource.RUSAGE_SELF).ru_utime
    sums, began = [0.0, 0.0, 0.0, 0.0], time.time()
    while step < shape.steps:
        rows, length, recitals, drills, dense, stretched = shape.stage(step)
        seed = FIRST_TRAINING_SEED + step * 64
        ids = torch.tensor([row(tokenizer, seed + line, length, recitals, drills, dense) for line in range(rows)])
        generator = random.Random(seed)
        positions = None
        if stretched:
            positions = torch.tensor([positions_of(line, stop, generator) for line in ids[:, :-1].tolist()])
        weights = weights_of(ids, answer, colon, stop)
        for optimizer, rate in optimizers.items():
            optimizer.param_groups[0]["lr"] = rate * shape.rate(step)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1], positions)
        losses = functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        losses = losses.view_as(weights)
        loss = (losses * weights).sum() / weights.sum()
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        tokens += rows * length
        answers = weights > 1
        for index, value in enumerate((losses.sum(), losses.numel(), losses[answers].sum(), answers.sum())):
            sums[index] += float(value)
        if step % 20 == 0:
            with open(log, "a") as file:
                file.write(f"{step},{tokens},{sums[0] / sums[1]:.4f},{sums[2] / max(sums[3], 1):.4f},{cpu_s():.0f}\n")
            print(f"step {step} loss {sums[0] / sums[1]:.3f} answers {sums[2] / max(sums[3], 1):.3f} "
                  f"{(time.time() - began) / 20:.2f} s a step", flush=True)
            sums, began = [0.0, 0.0, 0.0, 0.0], time.time()
        if step % 100 == 0 or step == shape.steps:
            state = {"model": model.state_dict(), "step": step,
                     "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                     "tokens": tokens, "cpu_s": cpu_s(), "lines": len(log.read_text().splitlines())}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
    export(model, options.work, options.out)
    held_out(tokenizer, options.out, 64, 64)
    plot(options.work, options.out)
    with open(options.out / "eval" / "recall.jsonl") as file:
        print(recall(model, tokenizer, [json.loads(line) for line in file][::8]))


if __name__ == "__main__":
    main()
