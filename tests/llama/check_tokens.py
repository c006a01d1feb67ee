#!/usr/bin/env python3
"""Does llama.cpp make the tokens that tandem makes, by tokenizers in GGUF files?

    check_tokens.py GGUF_TOKENS LIBRARIES [--vocabularies N] [--seed S] [--goldens FILE]

GGUF_TOKENS is the program tandem_gguf_tokens, LIBRARIES a folder with llama.cpp's shared libraries (check_llama.py). Random
vocabularies of SentencePiece pieces, of all types, with equal and absurd scores, pieces with spaces and with U+2581, tokens that llama.cpp
knows by their texts, of byte-level BPE and of WordPiece, with random settings, are written as GGUF files; random texts are tokenized by both programs, with and without special
tokens. Prints what differs; exit code 1 if anything does. --goldens: writes some vocabularies, texts and llama.cpp's ids as JSON, which
tests/exec/gguf/gguf_pieces_test.cpp reads; --word-goldens: of byte-level BPE and WordPiece, for tests/exec/gguf/gguf_vocabularies_test.cpp.
"""

import ctypes
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import check_llama  # noqa: E402

SPACE = "\u2581"
LETTERS = ["a", "b", "c", SPACE, "\n", "\u00e9", "\u65e5", "<", ">"]
KNOWN = ["<|im_end|>", "</s>", "<end_of_turn>", "<|endoftext|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|fim_prefix|>", "<fim_suffix>", "<PAD>",
         "<|file_sep|>", "<|channel|>", "<|tool_response>", "[EOS]", "_<EOT>", SPACE + "<MID>", "<REPO>"]
BYTES = 3 + 256  # <unk>, <s>, </s> and bytes come first in each vocabulary
GOLDENS = 12
WORD_GOLDENS = 2  # of each pre-tokenizer, and of WordPiece
NAMES = ["m", "m", "Phi-3 m", "phi3"]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    head = text(key)
    if isinstance(value, bool):
        return head + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return head + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return head + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return head + struct.pack("<I", 8) + text(value)
    head += struct.pack("<I", 9)
    if isinstance(value[0], str):
        return head + struct.pack("<IQ", 8, len(value)) + b"".join(map(text, value))
    kind, form = (6, "f") if isinstance(value[0], float) else (5, "i")
    return head + struct.pack(f"<IQ{len(value)}{form}", kind, len(value), *value)


GEOMETRY = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 64, "llama.embedding_length": 32,
            "llama.feed_forward_length": 32, "llama.attention.head_count": 1, "llama.attention.layer_norm_rms_epsilon": 1e-5}


def write(path, vocabulary):
    entries = {**GEOMETRY, **vocabulary}
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entry(*one) for one in entries.items()))


def word(draw, longest):
    return "".join(draw.choice(LETTERS) for _ in range(draw.randint(1, longest)))


def random_vocabulary(draw):
    tokens, types = ["<unk>", "<s>", "</s>"], [2, 3, draw.choice([3, 3, 3, 1])]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [6] * 256
    pieces = set()
    for letter in LETTERS:
        if draw.random() < 0.8:
            pieces.add(letter)
    kinds = draw.choice([[1] * 12 + [4, 5], [1, 1, 4, 5, 3], [1], [1, 1, 1, 4]])
    for _ in range(draw.randint(5, 90)):
        known = sorted(pieces)
        one = draw.choice(known) + draw.choice(known) if len(known) > 1 and draw.random() < 0.7 else word(draw, 4)
        if draw.random() < 0.1:
            one = one.replace(SPACE, " ")
        pieces.add(one)
    pieces |= set(draw.sample(KNOWN, draw.choice([0, 0, 2, 5])))
    name = draw.choice(NAMES)
    if name != "m":  # Without it llama.cpp refuses files of that name.
        pieces.add("<|endoftext|>")
    for one in sorted(pieces - set(tokens)):
        tokens.append(one)
        types.append(draw.choice(kinds))
    scores = [draw.choice([0.0, -1.0, -2.0, -3.0, -3.0, -1000.0, -draw.random() * 9]) for _ in tokens]
    scores[:BYTES] = [0.0] * BYTES
    vocabulary = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [float(struct.unpack("f", struct.pack("f", s))[0]) for s in scores],
                  "tokenizer.ggml.token_type": types, "general.name": name}
    for key, values in {"add_space_prefix": [None, True, False], "add_bos_token": [None, True, False], "add_eos_token": [None, True, False],
                        "remove_extra_whitespaces": [None, True, False], "bos_token_id": [None, 1, 260], "eos_token_id": [None, 2],
                        "pre": [None, "default"], "fim_pre_token_id": [None, None, 259]}.items():
        value = draw.choice(values)
        if value is not None:
            vocabulary["tokenizer.ggml." + key] = value
    return vocabulary


def byte_letters():
    """GPT-2's letter of each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte if byte in shown else 256 + others.index(byte)) for byte in range(256)}


LETTER = byte_letters()
WORDS = ["it's", "don't", "hello", " the", "world", "123", "1234 ", "  ", "\n\n", "\u00e9", "\u65e5\u672c", "!!", "a1", " ..", "\t\t", "\r\n"]
MARKS = ["<|im_end|>", "<s>", "</s>", "<|x|>", "<x", "x|>y", "<unk>", "<|endoftext|>", "[a]"]
OTHERS = ["DON'T", " world", "1234567", " ", "   ", "\n", "'ll", "'S", "x", "|>y", "\u0663", "\u00bd", "\U0001f642", "_", "\u03a9", "\u00df", "\u00a0", "\u3000",
          "e\u0301", "^", "$", "`", "-"]


# Not tekken and gpt-4o, whose words llama.cpp cuts in another way than their models' own pattern where letters have marks or are not ASCII.
PRES = ["gpt-2", "llama-bpe", "qwen2", "smollm", "default", "dbrx", "deepseek-llm", "deepseek-coder", "falcon"]


def random_byte_pairs(draw):
    """A vocabulary of byte-level BPE."""
    words = ["".join(LETTER[byte] for byte in one.encode()) for one in WORDS]
    tokens, merges = [LETTER[byte] for byte in range(256)], []
    for _ in range(draw.randint(5, 120)):
        word = draw.choice(words)
        parts = sorted({token for token in tokens if token in word})
        left, right = draw.choice(parts), draw.choice(parts)
        if left + right not in tokens and any(left + right in one for one in words):
            merges.append(f"{left} {right}")
            tokens.append(left + right)
    if not merges:
        merges, tokens = ["a b"], [*tokens, "ab"]
    types = [1] * len(tokens)
    for mark in draw.sample([*MARKS, "  ", "\u65e5", "\n\n"], draw.randint(0, 8)):
        if mark not in tokens:
            tokens.append(mark)
            types.append(draw.choice([3, 3, 4, 4, 5]))
    vocabulary = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
                  "tokenizer.ggml.pre": draw.choice(PRES), "general.name": "m",
                  "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1}
    for key in ("add_space_prefix", "add_bos_token", "add_eos_token"):
        if draw.random() < 0.5:
            vocabulary["tokenizer.ggml." + key] = draw.random() < 0.5
    return vocabulary


SPELT = ["a", "b", "ab", "the", "run", "ning", "s", "12", "1", "\u00e9", "e", "\u4e2d", "\u6587", "!", ".", "\u3042", "ss", "\u03c9", "\u0438"]
BERT_MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Without Hangul, of which llama.cpp keeps the first letter of a syllable alone, and without unassigned characters, which it keeps.
BERT_TEXTS = [*SPELT, "A", "RUN", "The", "\u00c9", "E\u0301", "e\u0301", "\u0130", "\u1e9e", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "-", "$", "^", "\u2014", "\u00ad", "\u200b",
              "\x07", "\ufffd", "\U0001f642", "\U0002b8ff", "\U00020000", "\uac00", "\u03a9", "q", "running", *BERT_MARKS, "[mask]"]


def random_word_pieces(draw):
    """A vocabulary of WordPiece."""
    tokens, types = list(BERT_MARKS), [3] * len(BERT_MARKS)
    if draw.random() < 0.3:
        types[0] = 1
    for one in draw.sample(SPELT, draw.randint(3, len(SPELT))):
        for token in {SPACE + one, one} if draw.random() < 0.7 else {draw.choice([SPACE + one, one])}:
            tokens.append(token)
            types.append(1)
    vocabulary = {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "general.name": "m",
                  "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.seperator_token_id": 3}
    lower = draw.choice([None, None, True, False])
    if lower is not None:
        vocabulary["tokenizer.ggml.normalizer.lowercase"] = lower
    return vocabulary


def random_spelt(draw):
    return "".join(draw.choice(BERT_TEXTS) for _ in range(draw.randint(0, 14)))


def random_words(draw):
    return "".join(draw.choice(WORDS + MARKS + OTHERS) for _ in range(draw.randint(0, 14)))


def random_text(draw, tokens):
    parts = []
    for _ in range(draw.randint(0, 14)):
        kind = draw.random()
        if kind < 0.35:
            parts.append(draw.choice(tokens[BYTES:] + tokens[:3]))
        elif kind < 0.5:
            parts.append(draw.choice([" ", "  ", "   ", "\n\n", "\t", "\u00a0", "\u3000", "\v", "\r\n"]))
        elif kind < 0.55:
            parts.append(draw.choice(tokens))
        else:
            parts.append(word(draw, 6).replace(SPACE, SPACE if draw.random() < 0.1 else " "))
    return "".join(parts)


class Words:
    """llama.cpp's tokenizer of a file."""

    def __init__(self, llama, path):
        self.llama = llama
        params = llama.lib.llama_model_default_params()
        # The flags stand behind the last of the pointers, the first of them is vocab_only.
        first = next(i for i in range(64, 128) if params.bytes[i])
        params.bytes[first // 8 * 8] = 1
        llama.messages.clear()
        self.model = llama.lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise RuntimeError("llama.cpp refuses it: " + "".join(llama.messages)[-400:].strip())
        self.vocab = llama.lib.llama_model_get_vocab(ctypes.c_void_p(self.model))

    def ids(self, value, special):
        return self.llama.tokenize(self.vocab, value, special)

    def close(self):
        self.llama.lib.llama_model_free(ctypes.c_void_p(self.model))


def tandem_ids(program, path, count, cases):
    given = b"".join((b"+" if special else b"-") + value.encode() + b"\0" for value, special in cases)
    done = subprocess.run([program, path, str(count)], input=given, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode().strip())
    return [[int(one) for one in line.split()] for line in done.stdout.decode().splitlines()]


def golden(vocabulary, cases, expected):
    lists = {key: vocabulary.pop("tokenizer.ggml." + key) for key in ("tokens", "scores", "token_type")}
    return {"settings": vocabulary, "end_type": lists["token_type"][2], **{key: one[BYTES:] for key, one in lists.items()},
            "cases": [{"text": case[0], "special": case[1], "ids": ids} for case, ids in zip(cases, expected)]}


def golden_words(vocabulary, cases, expected):
    """Of byte-level BPE without the bytes, or of WordPiece."""
    lists = {key: vocabulary.pop("tokenizer.ggml." + key, []) for key in ("tokens", "token_type", "merges")}
    first = 256 if lists["merges"] else 0
    return {"settings": vocabulary, "tokens": lists["tokens"][first:], "token_type": lists["token_type"][first:], "merges": lists["merges"],
            "cases": [{"text": case[0], "special": case[1], "ids": ids} for case, ids in zip(cases, expected)]}


def main():
    words = sys.argv[1:]
    options = {"--vocabularies": "200", "--seed": "1", "--goldens": "", "--word-goldens": ""}
    for name in options:
        if name in words:
            at = words.index(name)
            options[name] = words[at + 1]
            del words[at:at + 2]
    if len(words) != 2:
        sys.exit(__doc__)
    llama = check_llama.Llama(pathlib.Path(words[1]).resolve())
    draw = random.Random(int(options["--seed"]))
    wrong = count = made = 0
    goldens, word_goldens, kinds = [], [], {}
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "words.gguf"
        for number in range(int(options["--vocabularies"])):
            scored = number % 4 < 2 or options["--goldens"]
            spelt = not scored and number % 4 == 3
            vocabulary = random_vocabulary(draw) if scored else random_word_pieces(draw) if spelt else random_byte_pairs(draw)
            tokens = vocabulary["tokenizer.ggml.tokens"]
            write(path, vocabulary)
            cases = [(random_text(draw, tokens) if scored else random_spelt(draw) if spelt else random_words(draw), draw.random() < 0.7)
                     for _ in range(40)]
            theirs = Words(llama, path)
            expected = [theirs.ids(*case) for case in cases]
            theirs.close()
            try:
                ours = tandem_ids(words[0], path, len(tokens), cases)
            except RuntimeError as error:
                print(f"vocabulary {number}: {error}")
                wrong += 1
                continue
            types = vocabulary["tokenizer.ggml.token_type"]
            count += len(cases)
            for case, ids, got in zip(cases, expected, ours):
                # Where special tokens are text, merges make some in llama.cpp, none in tandem.
                commands = not case[1] and not spelt and any(types[one] in (2, 3) or tokens[one] in KNOWN + MARKS for one in ids)
                if ids != got and commands:
                    made += 1
                elif ids != got:
                    wrong += 1
                    if wrong <= 10:
                        print(f"vocabulary {number}, {case}: {ids}, tandem {got}", {i: (tokens[i], vocabulary["tokenizer.ggml.token_type"][i]) for i in set(ids + got)},
                              {key: value for key, value in vocabulary.items() if not isinstance(value, list)})
            if scored and len(goldens) < GOLDENS:
                same = [i for i in range(len(cases)) if expected[i] == ours[i]]
                goldens.append(golden(vocabulary, [cases[i] for i in same], [expected[i] for i in same]))
            kind = vocabulary.get("tokenizer.ggml.pre", "")
            if not scored and kinds.get(kind, 0) < WORD_GOLDENS:
                kinds[kind] = kinds.get(kind, 0) + 1
                same = [i for i in range(len(cases)) if expected[i] == ours[i]][:20]
                word_goldens.append(golden_words(vocabulary, [cases[i] for i in same], [expected[i] for i in same]))
    if options["--word-goldens"]:
        pathlib.Path(options["--word-goldens"]).write_text(json.dumps(word_goldens, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")
    if options["--goldens"]:
        pathlib.Path(options["--goldens"]).write_text(json.dumps(goldens, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")
    print(f"{'ok ' if not wrong else 'BAD'} tokens of {count} texts, {wrong} differ, {made} have special tokens from merges", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
