#!/usr/bin/env python3
"""Makes small tokenizers, and what independent implementations say that texts become under them.

    make_tokenizer_vectors.py [--out DIR]    writes the folders; default: beside this file
    make_tokenizer_vectors.py --check        makes them again and compares with those beside this file

SentencePiece models are trained and applied by Debian's python3-sentencepiece, byte-level BPE and WordPiece by the
plain, slow code of byte_level.py and word_piece.py on python3-regex. A folder has the tokenizer's files as Hugging Face folders have them, and
vectors.json: `vocab` (of the model), `encode` (text or hex, ids), `decode` (ids, text), `bos`, `eos`.
"""

import argparse
import filecmp
import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import regex
import sentencepiece

import byte_level
import word_piece
from texts import CORPUS, TEXTS, random_texts

INVALID = [b"\xff", b"a\x80b", b"\xc3", b"caf\xc3 \xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\xaf/", b"\xf4\x90\x80\x80"]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, ensure_ascii=True, indent=0, separators=(",", ":"))
    path.write_text(regex.sub(r"\n(?=[\d\]])", "", text) + "\n")


def replaced(data):
    """UTF-8 text of `data`; one U+FFFD for each byte that is part of no character."""
    out, at = "", 0
    while at < len(data):
        for size in range(1, 5):
            try:
                out += data[at:at + size].decode()
                at += size
                break
            except UnicodeDecodeError:
                continue
        else:
            out += "\ufffd"
            at += 1
    return out


def vectors(folder, vocab, encode, decode, specials, bos, eos, ids_with_text):
    """Writes vectors.json of `encode` (text to ids) and `decode` (ids to text)."""
    texts = list(TEXTS) + random_texts(60)
    for special in specials:
        texts += [special, f"a{special}b", f"{special}Hello", f" {special} x", f"x  {special}\n{special}{special} y "]
    cases = [{"text": text, "ids": encode(text)} for text in texts]
    cases += [{"hex": data.hex(), "ids": encode(replaced(data))} for data in INVALID]
    generator = random.Random(7)
    sequences = [case["ids"] for case in cases[::5]]
    sequences += [[generator.choice(ids_with_text) for _ in range(generator.randrange(1, 12))] for _ in range(120)]
    write(folder / "vectors.json", {
        "vocab": vocab, "bos": bos, "eos": eos, "encode": cases,
        "decode": [{"ids": ids, "text": decode(ids)} for ids in sequences]})


def split(text, specials):
    """Parts of `text`: (special, True) or (text between, False); of several specials the longest."""
    if not specials:
        return [(text, False)] if text else []
    pattern = "(" + "|".join(regex.escape(s) for s in sorted(specials, key=len, reverse=True)) + ")"
    return [(part, part in specials) for part in regex.split(pattern, text) if part]


def make_sentencepiece(folder, config, extra_vocab=0, **options):
    """One SentencePiece folder; `config` is its tokenizer_config.json (None: no such file)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, num_threads=1, minloglevel=2, unk_id=0, bos_id=1,
        eos_id=2, pad_id=-1, hard_vocab_limit=False, **options)
    data = model.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(data)
    first = sentencepiece.SentencePieceProcessor(model_proto=data)
    # A message that comes twice is merged, its later fields stand: normalizer_spec { add_dummy_prefix: false }.
    behind = sentencepiece.SentencePieceProcessor(model_proto=data + b"\x1a\x02\x18\x00")
    size = first.get_piece_size()
    specials = {first.id_to_piece(i): i for i in range(size) if first.is_control(i) or first.is_unknown(i)}
    added = {}
    if config is not None:
        write(folder / "tokenizer_config.json", config)
        for key, token in config.get("added_tokens_decoder", {}).items():
            specials[token["content"]] = int(key)
            if int(key) >= size:
                added[int(key)] = "" if token["special"] else token["content"]
    add_bos = config.get("add_bos_token", True) if config else True

    def encode(text):
        ids = [1] if add_bos else []
        for index, (part, special) in enumerate(split(text, specials)):
            if special:
                ids.append(specials[part])
            else:
                ids += (first if index == 0 or (config and config.get("legacy")) else behind).encode(part)
        return ids

    def decode(ids):
        if not any(i in added for i in ids):
            return first.decode(ids)
        # The library knows nothing of added tokens; parts behind the first keep their space.
        out, part, said = "", [], False
        for i in ids + [None]:
            if i is None or i in added:
                text = first.decode(part)
                if said and part:
                    text = first.decode([first.piece_to_id("a")] + part)[1:]
                said = said or bool(text) or any(first.id_to_piece(p).startswith("\u2581") for p in part)
                out += text + (added[i] if i is not None else "")
                said = said or bool(i is not None and added[i])
                part = []
            else:
                part.append(i)
        return out

    vectors(folder, size + len(added) + extra_vocab, encode, decode, specials, 1 if add_bos else -1, [2],
            list(range(size)) + sorted(added))


def special(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False,
            "special": True, **flags}


def make_all(out):
    llama = {"add_bos_token": True, "add_eos_token": False, "legacy": False, "bos_token": "<s>", "eos_token": "</s>",
             "unk_token": "<unk>", "added_tokens_decoder": {
                 "0": special("<unk>"), "1": special("<s>"), "2": special("</s>")}}
    make_sentencepiece(
        out / "sp-bpe", llama, vocab_size=700, model_type="bpe", byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    chat = {**llama, "legacy": True, "add_bos_token": False, "added_tokens_decoder": {
        **llama["added_tokens_decoder"], "700": special("<|im_start|>"), "701": special("<tool>", special=False)}}
    make_sentencepiece(
        out / "sp-bpe-legacy", chat, extra_vocab=5, vocab_size=700, model_type="bpe", byte_fallback=True,
        split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        control_symbols=["<ctl>"], user_defined_symbols=["<usr>", "  "])
    make_sentencepiece(out / "sp-unigram", None, vocab_size=400, model_type="unigram")
    make_sentencepiece(
        out / "sp-unigram-bytes", {"add_bos_token": False}, vocab_size=600, model_type="unigram", byte_fallback=True,
        normalization_rule_name="nfkc", add_dummy_prefix=False, remove_extra_whitespaces=False)
    byte_level.make_all(out, write, vectors, special, replaced)
    word_piece.make_all(out, write, vectors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--out", type=pathlib.Path, default=here)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not arguments.check:
        make_all(arguments.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder)
        make_all(made)
        files = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
        different = [str(f) for f in files if not (here / f).exists() or not filecmp.cmp(made / f, here / f, False)]
        print(f"{len(files)} files made again, different: {different or 'none'}")
        return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
