"""Byte-level BPE, plain and slow: training, encoding, and tokenizer.json files in the flavours of published models."""

import itertools
import unicodedata

import regex

from texts import CORPUS, TEXTS

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# Patterns one after the other, each cutting what the one before left whole.
STEPS = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+"]


def letters():
    """The character of each byte: itself where printable, else the next from U+0100 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, following = {b: chr(b) for b in shown}, itertools.count(256)
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(next(following))
    return table


LETTERS = letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}


def spelled(text):
    return "".join(LETTERS[b] for b in text.encode())


def isolated(pattern, text):
    """Matches of `pattern` and the gaps between them."""
    parts, done = [], 0
    for match in regex.finditer(pattern, text):
        parts += [text[done:match.start()], match.group()]
        done = match.end()
    return [part for part in parts + [text[done:]] if part]


def train(words, merges):
    """The `merges` most frequent pairs, one after the other; ties go to the smaller pair."""
    counts = {}
    for word in words:
        key = tuple(spelled(word))
        counts[key] = counts.get(key, 0) + 1
    found = []
    for _ in range(merges):
        pairs = {}
        for word, count in counts.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        found.append(best)
        merged = {}
        for word, count in counts.items():
            key, i = [], 0
            while i < len(word):
                if word[i:i + 2] == best:
                    key.append(word[i] + word[i + 1])
                    i += 2
                else:
                    key.append(word[i])
                    i += 1
            merged[tuple(key)] = merged.get(tuple(key), 0) + count
        counts = merged
    return found


def bpe(word, ranks):
    """The tokens of `word`: the leftmost pair of the lowest rank becomes one, until no pair has a rank."""
    parts = list(spelled(word))
    while True:
        pairs = [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]
        if not pairs:
            return parts
        _, i = min(pairs)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]


def find_added(text, added):
    """Parts of `text`: (token or None, text). The leftmost token, of those the longest."""
    parts, done, at = [], 0, 0
    while at < len(text):
        token = max((t for t in added if text.startswith(t["content"], at)), key=lambda t: len(t["content"]), default=None)
        if token is None:
            at += 1
            continue
        begin, end = at, at + len(token["content"])
        at = end
        if begin < done:
            continue
        if token["single_word"] and (regex.match(r"\w", text[end:]) or regex.search(r"\w\Z", text[:begin])):
            continue
        if token["lstrip"]:
            begin = max(done, len(text[:begin].rstrip()))
        if token["rstrip"]:
            end += len(text[end:]) - len(text[end:].lstrip())
        if begin > done:
            parts.append((None, text[done:begin]))
        parts.append((token, text[begin:end]))
        done = end
    if done < len(text):
        parts.append((None, text[done:]))
    return parts


class Tokenizer:
    def __init__(self, patterns, merges, *, added=(), extra=(), prefix_space=False, form=None, ignore_merges=False,
                 front=()):
        words = CORPUS
        for pattern in patterns:
            words = [part for word in words for part in isolated(pattern, word)]
        self.patterns, self.merges = patterns, train(words, merges)
        self.ranks = {pair: i for i, pair in enumerate(self.merges)}
        tokens = [LETTERS[b] for b in sorted(LETTERS)] + [a + b for a, b in self.merges] + [spelled(e) for e in extra]
        self.vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
        self.added = [{"id": len(self.vocab) + i, **token} for i, token in enumerate(added)]
        self.by_id = {i: token for token, i in self.vocab.items()}
        self.added_by_id = {token["id"]: token for token in self.added}
        self.prefix_space, self.form, self.ignore_merges = prefix_space, form, ignore_merges
        self.front = [next(t["id"] for t in self.added if t["content"] == name) for name in front]

    def words(self, text):
        parts = [text]
        for pattern in self.patterns[:-1] if self.prefix_space else self.patterns:
            parts = [piece for part in parts for piece in isolated(pattern, part)]
        if self.prefix_space:
            parts = [part if part.startswith(" ") else " " + part for part in parts]
            parts = [piece for part in parts for piece in isolated(self.patterns[-1], part)]
        return parts

    def encode(self, text):
        ids = list(self.front)
        for token, part in find_added(text, [t for t in self.added if not t["normalized"]]):
            if token:
                ids.append(token["id"])
                continue
            part = unicodedata.normalize(self.form, part) if self.form else part
            for inner, piece in find_added(part, [t for t in self.added if t["normalized"]]):
                if inner:
                    ids.append(inner["id"])
                    continue
                for word in self.words(piece):
                    if self.ignore_merges and spelled(word) in self.vocab:
                        ids.append(self.vocab[spelled(word)])
                    else:
                        ids += [self.vocab[token] for token in bpe(word, self.ranks)]
        return ids

    def decode(self, ids, replaced):
        data = b""
        for i in ids:
            if i in self.added_by_id:
                data += b"" if self.added_by_id[i]["special"] else self.added_by_id[i]["content"].encode()
            else:
                data += bytes(BYTES[letter] for letter in self.by_id[i])
        return replaced(data)

    def json(self, pre_tokenizer, post_processor, pairs_as_arrays):
        return {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": self.added,
            "normalizer": {"type": self.form} if self.form else None, "pre_tokenizer": pre_tokenizer,
            "post_processor": post_processor, "decoder": {
                "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {
                "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                "ignore_merges": self.ignore_merges, "vocab": self.vocab,
                "merges": [list(pair) if pairs_as_arrays else " ".join(pair) for pair in self.merges]}}


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def make_all(out, write, vectors, special, replaced):
    def make(name, tokenizer, pre_tokenizer, post_processor, config, *, arrays=False, eos=(), generation=None, more=0):
        folder = out / name
        write(folder / "tokenizer.json", tokenizer.json(pre_tokenizer, post_processor, arrays))
        if config is not None:
            write(folder / "tokenizer_config.json", config)
        if generation is not None:
            write(folder / "generation_config.json", generation)
        ids = sorted(tokenizer.by_id) + sorted(tokenizer.added_by_id)
        vectors(folder, len(ids) + more, tokenizer.encode, lambda i: tokenizer.decode(i, replaced),
                [t["content"] for t in tokenizer.added], tokenizer.front[0] if tokenizer.front else -1, list(eos), ids)

    end = special("<|endoftext|>")
    gpt2 = Tokenizer([GPT2], 300, added=[end])
    make("bpe-gpt2", gpt2, byte_level(), byte_level(trim_offsets=False),
         {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_bos_token": False},
         eos=[gpt2.added[0]["id"]])

    prefixed = Tokenizer([GPT2], 120, added=[end, special("<pad>", lstrip=True)], prefix_space=True)
    make("bpe-prefix", prefixed, byte_level(add_prefix_space=True), None, None, more=3)

    added = [special("<|begin_of_text|>"), special("<|end_of_text|>"), special("<|eot_id|>"),
             special("<|left|>", lstrip=True), special("<|right|>", rstrip=True), special("alone", single_word=True),
             special("<|begin_of_text|>x"), special("tool", special=False)]
    # Words that no merge leads to, as a vocabulary that was made otherwise has them.
    llama = Tokenizer([LLAMA3], 250, added=added, extra=[" doesn", "indented", " Hello", "123", "日本"],
                      ignore_merges=True, front=["<|begin_of_text|>"])
    begin = "<|begin_of_text|>"
    template = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {begin: {"id": begin, "ids": llama.front, "tokens": [begin]}}}
    stops = [t["id"] for t in llama.added[1:3]]
    make("bpe-llama3", llama, {"type": "Sequence", "pretokenizers": [split(LLAMA3), byte_level(use_regex=False)]},
         {"type": "Sequence", "processors": [byte_level(), template]},
         {"bos_token": begin, "eos_token": "<|end_of_text|>"}, arrays=True, eos=stops,
         generation={"bos_token_id": llama.front[0], "eos_token_id": stops})

    qwen = Tokenizer([QWEN2], 200, form="NFC", added=[end, special("<|im_start|>"), special("<|im_end|>"),
                                                     special("cafe\u0301", normalized=True, special=False)])
    qwen.added[3]["content"] = "caf\u00e9"  # is looked for after normalisation
    make("bpe-qwen2", qwen, {"type": "Sequence", "pretokenizers": [split(QWEN2), byte_level(use_regex=False)]},
         byte_level(), {"add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>"},
         eos=[qwen.added[0]["id"], qwen.added[2]["id"]], generation={"eos_token_id": qwen.added[0]["id"]})

    steps = Tokenizer(STEPS + [r"\p{N}"], 150)
    make("bpe-steps", steps, {"type": "Sequence", "pretokenizers": [
        *map(split, STEPS), {"type": "Digits", "individual_digits": True}, byte_level(use_regex=False)]},
        None, None, arrays=True)

    def make_files(name, tokenizer, config, eos):
        """GPT-2's own two files: the added tokens are in the vocabulary."""
        folder = out / name
        write(folder / "vocab.json", {**tokenizer.vocab, **{t["content"]: t["id"] for t in tokenizer.added}})
        merges = "".join(f"{a} {b}\n" for a, b in tokenizer.merges)
        (folder / "merges.txt").write_text("#version: 0.2\n" + merges)
        if config is not None:
            write(folder / "tokenizer_config.json", config)
        ids = sorted(tokenizer.by_id) + sorted(tokenizer.added_by_id)
        vectors(folder, len(ids), tokenizer.encode, lambda i: tokenizer.decode(i, replaced),
                [t["content"] for t in tokenizer.added], tokenizer.front[0] if tokenizer.front else -1, eos, ids)

    make_files("bpe-files-gpt2", gpt2, None, [gpt2.added[0]["id"]])
    opt = Tokenizer([GPT2], 200, added=[special("</s>"), special("<pad>")], front=["</s>"])
    named = {role: special("</s>") for role in ("bos_token", "eos_token", "unk_token")}
    make_files("bpe-files-opt", opt, {**named, "pad_token": special("<pad>"), "add_prefix_space": False,
                                      "add_bos_token": True, "errors": "replace", "tokenizer_class": "GPT2Tokenizer"},
               [opt.added[0]["id"]])
