"""WordPiece as BERT has it, plain and slow: vocabularies, encoding, decoding."""

import collections
import unicodedata

import regex

from byte_level import find_added
from texts import CORPUS

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHINESE = regex.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]")


def clean(text):
    out = ""
    for c in text:
        if c in "\0\ufffd":
            continue
        if c not in "\t\n\r" and unicodedata.category(c).startswith("C"):
            continue
        out += " " if regex.match(r"\s", c) else c
    return out


def is_punctuation(c):
    ascii_symbol = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
    return ascii_symbol or unicodedata.category(c).startswith("P")


class Tokenizer:
    def __init__(self, *, lower=True, accents=None, chinese=True, tokens=400):
        self.lower, self.chinese = lower, chinese
        self.strip = lower if accents is None else accents
        counts = collections.Counter(word for text in CORPUS for word in self.words(text))
        letters = sorted({c for word in counts for c in word})
        endings = collections.Counter(word[i:] for word in counts for i in range(1, len(word)) if i > 1)
        frequent = [word for word, _ in sorted(counts.items(), key=lambda x: (-x[1], x[0])) if len(word) > 1]
        pieces = ["##" + e for e, _ in sorted(endings.items(), key=lambda x: (-x[1], x[0]))]
        # Not every word and not every letter's continuation: some words are made of pieces, some unknown.
        tokens = [*SPECIALS, *letters, *("##" + c for c in letters[::2] + list("abcdefghijklmnopqrstuvwxyz")),
                  *frequent[:tokens // 2:2], *pieces[:tokens // 4]]
        self.vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
        self.by_id = {i: token for token, i in self.vocab.items()}

    def words(self, text):
        text = clean(text)
        if self.chinese:
            text = CHINESE.sub(lambda match: f" {match.group()} ", text)
        if self.strip:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        if self.lower:
            text = "".join(c.lower() for c in text)
        words = [""]
        for c in text:
            if regex.match(r"\s", c):
                words.append("")
            elif is_punctuation(c):
                words += [c, ""]
            else:
                words[-1] += c
        return [word for word in words if word]

    def pieces(self, word):
        if len(word) > 100:
            return ["[UNK]"]
        found, at = [], 0
        while at < len(word):
            ends = [end for end in range(len(word), at, -1)
                    if ("##" if at else "") + word[at:end] in self.vocab]
            if not ends:
                return ["[UNK]"]
            found.append(("##" if at else "") + word[at:ends[0]])
            at = ends[0]
        return found

    def encode(self, text):
        plain = {"single_word": False, "lstrip": False, "rstrip": False}
        ids = [self.vocab["[CLS]"]]
        for token, part in find_added(text, [{"content": s, **plain} for s in SPECIALS]):
            if token:
                ids.append(self.vocab[token["content"]])
            else:
                ids += [self.vocab[piece] for word in self.words(part) for piece in self.pieces(word)]
        return ids + [self.vocab["[SEP]"]]

    def decode(self, ids):
        text = ""
        for token in (self.by_id[i] for i in ids):
            if token not in SPECIALS:
                text += token[2:] if token.startswith("##") else (" " if text else "") + token
        return text


def make_all(out, write, vectors):
    def make(name, tokenizer, config, more=0):
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokenizer.vocab))
        if config is not None:
            write(folder / "tokenizer_config.json", config)
        vectors(folder, len(tokenizer.vocab) + more, tokenizer.encode, tokenizer.decode, SPECIALS,
                tokenizer.vocab["[CLS]"], [], list(tokenizer.by_id))

    make("word-piece", Tokenizer(), None, more=2)
    make("word-piece-cased", Tokenizer(lower=False, tokens=900),
         {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True, "cls_token": "[CLS]",
          "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]",
          "tokenizer_class": "BertTokenizer"})
    make("word-piece-accents", Tokenizer(accents=False, chinese=False),
         {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False})
