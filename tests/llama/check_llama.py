#!/usr/bin/env python3
"""Does llama.cpp compute what tandem computes, from the same GGUF files?

    check_llama.py TANDEM GGUF_LOGITS LIBRARIES [--tokenizers FOLDER]

LIBRARIES is a folder with llama.cpp's shared libraries (libllama*.so, libggml*.so), as the npm package
@node-llama-cpp/linux-x64 has in bins/linux-x64. Random models of several geometries are written by `tandem model random`,
converted by `tandem model convert`, and loaded by both programs: greedy tokens have to be equal, and logits as close as
the format's arithmetic allows (llama.cpp quantises activations to 8 bits for products of quantised weights). With --tokenizers, the
texts of tests/tokenizers are tokenized by both from converted files. Prints a line for each case; exit code 1 if one fails.
"""

import array
import ctypes
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata

PROMPT = [1, 84, 104, 101, 32, 113, 117, 105, 99, 107, 32, 98, 114, 111, 119, 110]
TOKENS = 12

# The largest difference of logits, relative to their standard deviation. Tokens are compared by feeding llama.cpp those of
# tandem, so that one tie does not change all that follows; where the best differ, tandem's has to be within the bound.
# It rounds inputs of products to f16 (not on every processor) or bf16, or to 8 bits in blocks, where weights are in such formats, and has a
# table of F16 for GELU.
BOUNDS = {"f32": 1e-4, "f16": 3e-2, "bf16": 1e-1, "q8_0": 3e-1, "q4_0": 3e-1}
# Of these it is asked with the weights in f32, too, which are the same numbers.
WIDENED = ("f16", "bf16")
# Its inputs of K formats are in blocks of 256, ours of 32, in nine layers: neither is nearer to f32 (decision 0037).
LONG_BOUNDS = {dtype: 6e-1 for dtype in ("q4_k", "q5_k", "q6_k", "q4_k_m", "q5_k_m")}
MIXES = {"q4_k_m": 15, "q5_k_m": 17}  # llama.h's llama_ftype
GELU_BOUND = 5e-3
# With keys and values in F16 it rounds queries and probabilities, too, which tandem leaves in F32.
HALF_CACHE_BOUND = 1e-2

LLAMA = {"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 128, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 320, "vocab_size": 320,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2}
LONG = {**LLAMA, "num_hidden_layers": 9, "hidden_size": 256, "head_dim": 64, "intermediate_size": 768}
LONG_CASES = {
    "llama, rows of 256": LONG,
    "llama, rows of 256, tied": {**LONG, "tie_word_embeddings": True},
    "llama, some rows of no 256": {**LONG, "intermediate_size": 800},
    "qwen2, rows of 256": {**LONG, "model_type": "qwen2"},
}
PHI3 = {**LLAMA, "model_type": "phi3", "num_key_value_heads": 4}
CASES = {
    "llama": LLAMA,
    "llama, tied, as many key heads": {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 4},
    "llama, heads wider than hidden": {**LLAMA, "head_dim": 64, "rope_theta": 500000.0},
    "llama, linear scaling": {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "llama, Llama 3.1's scaling": {**LLAMA, "rope_theta": 500000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}},
    "mistral3": {**LLAMA, "model_type": "ministral3", "rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "rope_theta": 1000000.0}, "rope_theta": 1000000.0},
    "qwen2": {**LLAMA, "model_type": "qwen2", "rope_theta": 1000000.0},
    "qwen2, YaRN": {**LLAMA, "model_type": "qwen2", "rope_scaling": {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    "qwen3": {**LLAMA, "model_type": "qwen3", "head_dim": 48, "tie_word_embeddings": True},
    "gemma2": {**LLAMA, "model_type": "gemma2", "sliding_window": 9, "query_pre_attn_scalar": 32,
               "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "tie_word_embeddings": True},
    "gemma3": {**LLAMA, "model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 9, "head_dim": 64,
               "query_pre_attn_scalar": 64, "rope_theta": 1000000.0, "tie_word_embeddings": True,
               "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "granite": {**LLAMA, "model_type": "granite", "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
                "attention_multiplier": 0.0625, "logits_scaling": 8.0},
    "smollm3": {**LLAMA, "model_type": "smollm3", "num_hidden_layers": 5, "tie_word_embeddings": True},
    "phi3": {**PHI3},
    "phi3, a part of each head, long factors": {**PHI3, "partial_rotary_factor": 0.75, "num_key_value_heads": 2,
        "tie_word_embeddings": True, "original_max_position_embeddings": 8, "rope_scaling": {
            "type": "longrope", "attention_factor": 1.1, "short_factor": [1.0 + 0.01 * i for i in range(12)],
            "long_factor": [1.0 + 0.5 * i for i in range(12)]}},
    "phi3, short factors": {**PHI3, "max_position_embeddings": 1024, "original_max_position_embeddings": 256,
        "rope_scaling": {"type": "su", "short_factor": [1.0 + 0.03 * i for i in range(16)],
                         "long_factor": [1.0 + 0.5 * i for i in range(16)]}},
    "gpt2": {"model_type": "gpt2", "n_layer": 3, "n_embd": 128, "n_head": 4, "vocab_size": 320, "n_positions": 128,
             "bos_token_id": 1, "eos_token_id": 2},
}

# What the mixes are of each family: rows of 256, and 80 layers, which llama.cpp takes for a model of 70B in some.
MIXED = {name: {**config, **({"n_embd": 256, "n_layer": 9} if config["model_type"] == "gpt2" else
                             {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 9})}
         for name, config in CASES.items() if "," not in name}
MIXED.update({f"{name}, 80 layers": {**config, "n_layer" if name == "gpt2" else "num_hidden_layers": 80} for name, config in [*MIXED.items()]})
MIXED["llama, 80 layers, as many key heads"] = {**MIXED["llama, 80 layers"], "num_key_value_heads": 4}
MIXED["qwen2, 80 layers, as many key heads"] = {**MIXED["qwen2, 80 layers"], "num_key_value_heads": 4}
MIXED["phi3, 80 layers, grouped heads"] = {**MIXED["phi3, 80 layers"], "num_key_value_heads": 2}


class Params(ctypes.Structure):
    """llama.cpp's parameters by value: larger than any version's, whose fields the defaults fill."""
    _fields_ = [("bytes", ctypes.c_uint8 * 512)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p),
                ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.c_void_p)]


class Llama:
    def __init__(self, folder):
        def load(pattern):
            found = sorted(folder.glob(pattern))
            if not found:
                sys.exit(f"{folder}: no {pattern}, expected llama.cpp's shared libraries")
            return ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
        load("libggml-base*.so*")
        ggml = load("libggml.*so*")
        self.lib = load("libllama.*so*")
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self.messages = []
        self.log = log(lambda level, text, _: self.messages.append(text.decode(errors="replace")))
        self.lib.llama_log_set(self.log, None)
        self.lib.llama_backend_init()
        for name, result in (("llama_model_default_params", Params), ("llama_context_default_params", Params), ("llama_model_quantize_default_params", Params),
                             ("llama_model_load_from_file", ctypes.c_void_p), ("llama_init_from_model", ctypes.c_void_p),
                             ("llama_model_get_vocab", ctypes.c_void_p), ("llama_get_logits_ith", ctypes.c_void_p),
                             ("llama_batch_get_one", Batch)):
            getattr(self.lib, name).restype = result
        self.lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
        self.lib.llama_init_from_model.argtypes = [ctypes.c_void_p, Params]
        self.lib.llama_decode.argtypes = [ctypes.c_void_p, Batch]
        self.lib.llama_batch_get_one.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        self.lib.llama_get_logits_ith.argtypes = [ctypes.c_void_p, ctypes.c_int32]

    def model(self, path):
        self.messages.clear()
        model = self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params())
        if not model:
            raise RuntimeError("llama.cpp refuses it: " + "".join(self.messages)[-400:].strip())
        return model

    def context_parameters(self, positions, threads, exact, half_cache=False):
        """Of a context. `exact`: attention in F32, and the cache unless `half_cache`, as tandem's, where its own defaults are a
        cache in F16 and flash attention."""
        params = self.lib.llama_context_default_params()
        # Found by their defaults, as versions differ in what lies between: threads (4, 4), flash attention, the last of the
        # choices that are left to the program (-1: off, as it computes in F16), the cache's types (F16, 1: F32, 0).
        words = (ctypes.c_int32 * 128).from_buffer(params)
        words[0] = positions
        found = [i for i in range(1, 12) if words[i] == 4 and words[i + 1] == 4]
        choices = [i for i in range(4, 20) if words[i] == -1]
        types = [i for i in range(16, 60) if words[i] == 1 and words[i + 1] == 1]
        if len(found) != 1 or not choices or len(types) != 1:
            raise RuntimeError("the parameters of this version of llama.cpp are not known")
        words[found[0]] = words[found[0] + 1] = threads
        if exact:
            words[choices[-1]] = 0
            words[types[0]] = words[types[0] + 1] = 1 if half_cache else 0
        return params

    def decode(self, context, ids):
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        if self.lib.llama_decode(context, self.lib.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama_decode fails")
        return ctypes.cast(self.lib.llama_get_logits_ith(context, -1), ctypes.POINTER(ctypes.c_float))

    def logits(self, path, prompt, fed, vocab, half_cache=False):
        model = self.model(path)
        context = self.lib.llama_init_from_model(model, self.context_parameters(256, 1, exact=True, half_cache=half_cache))
        rows = []
        for ids in [prompt] + [[token] for token in fed]:
            rows.append(self.decode(context, ids)[:vocab])
        self.lib.llama_free(ctypes.c_void_p(context))
        self.lib.llama_model_free(ctypes.c_void_p(model))
        return rows

    def quantize(self, source, target, number):
        """As llama-quantize does, into the llama_ftype of that number."""
        params = self.lib.llama_model_quantize_default_params()
        words = (ctypes.c_int32 * 2).from_buffer(params)  # threads, the type
        words[0], words[1] = 1, number
        self.messages.clear()
        if self.lib.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
            raise RuntimeError("llama.cpp does not quantise: " + "".join(self.messages)[-400:].strip())

    def tokenize(self, vocab, text, special=True):
        self.lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p,
                                            ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
        data = text.encode()
        room = 3 * len(data) + 16  # a space may be three bytes
        ids = (ctypes.c_int32 * room)()
        count = self.lib.llama_tokenize(vocab, data, len(data), ids, room, True, special)
        return list(ids[:max(count, 0)])


def best(row):
    return max(range(len(row)), key=row.__getitem__)


def deviation(row):
    mean = sum(row) / len(row)
    return math.sqrt(sum((x - mean) ** 2 for x in row) / len(row))


def check_model(llama, programs, folder, name, config, dtype, half_cache=False, widened=False):
    tandem, gguf_logits = programs
    home = folder / "model"
    shutil.rmtree(home, ignore_errors=True)
    (folder / "model.json").write_text(json.dumps(config))
    run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout
    run(tandem, "model", "random", "--config", folder / "model.json", "--out", home, "--seed", "5", "--quiet")
    path = folder / "model.gguf"
    run(tandem, "model", "convert", "--weights", home, "--out", path, "--dtype", dtype, "--quiet")
    ours = [int(x) for x in run(gguf_logits, *(["--half-cache"] if half_cache else []), path, str(TOKENS), folder / "logits.f32", *map(str, PROMPT)).split()]
    values = array.array("f")
    values.frombytes((folder / "logits.f32").read_bytes())
    vocab = config["vocab_size"]
    bound = max({**BOUNDS, **LONG_BOUNDS}["f32" if widened else dtype], GELU_BOUND if name in ("gpt2", "gemma2", "gemma3") else 0, HALF_CACHE_BOUND if half_cache else 0)
    if widened:
        path = folder / "widened.gguf"
        run(tandem, "model", "convert", "--weights", folder / "model.gguf", "--out", path, "--dtype", "f32", "--quiet")
    theirs = llama.logits(path, PROMPT, ours[:-1], vocab, half_cache)
    worst = 0.0
    different = 0
    off = 0
    for step, row in enumerate(theirs):
        mine = values[step * vocab:(step + 1) * vocab]
        scale = deviation(mine)
        worst = max(worst, max(abs(a - b) for a, b in zip(mine, row)) / scale)
        if best(row) != ours[step]:
            different += 1
            off += row[best(row)] - row[ours[step]] > 2 * bound * scale
    good = worst <= bound and off == 0
    print(f"{'ok ' if good else 'BAD'} {name}, {dtype}{', cache in f16' if half_cache else ''}{', widened there' if widened else ''}: {TOKENS - different} of {TOKENS} tokens equal, logits differ by at most "
          f"{worst:.1e} of their deviation (bound {bound:.0e})", flush=True)
    return good


def tensor_types(path):
    """The types of a GGUF file's tensors, by name."""
    data = path.read_bytes()
    at = 8
    def number(size, signed=False):
        nonlocal at
        at += size
        return int.from_bytes(data[at - size:at], "little", signed=signed)
    def text():
        nonlocal at
        size = number(8)
        at += size
        return data[at - size:at].decode()
    def skip(kind):
        nonlocal at
        sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
        if kind == 8:
            text()
        elif kind == 9:
            of = number(4)
            for _ in range(number(8)):
                skip(of)
        else:
            at += sizes[kind]
    tensors, pairs = number(8), number(8)
    for _ in range(pairs):
        text()
        skip(number(4))
    types = {}
    for _ in range(tensors):
        name = text()
        for _ in range(number(4)):
            number(8)
        types[name] = number(4)
        number(8)
    return types


def check_mix(llama, programs, folder, name, config, dtype, number):
    """Whether llama.cpp's own quantiser gives each tensor the format that ours does, and reads as the same model."""
    tandem = programs[0]
    home, ours, plain, theirs = folder / "model", folder / "ours.gguf", folder / "plain.gguf", folder / "theirs.gguf"
    shutil.rmtree(home, ignore_errors=True)
    (folder / "model.json").write_text(json.dumps(config))
    run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout
    run(tandem, "model", "random", "--config", folder / "model.json", "--out", home, "--seed", "5", "--quiet")
    run(tandem, "model", "convert", "--weights", home, "--out", ours, "--dtype", dtype, "--quiet")
    run(tandem, "model", "convert", "--weights", home, "--out", plain, "--dtype", "f32", "--quiet")
    llama.quantize(plain, theirs, number)
    wrong = {n: (t, tensor_types(ours).get(n)) for n, t in tensor_types(theirs).items() if tensor_types(ours).get(n) != t}
    read = subprocess.run([programs[1], theirs, "2", folder / "theirs.f32", *map(str, PROMPT)], capture_output=True, text=True)
    good = not wrong and read.returncode == 0
    print(f"{'ok ' if good else 'BAD'} {name}, {dtype} by llama.cpp: formats that differ (theirs, ours): {wrong} {read.stderr.strip()}", flush=True)
    return good


def check_tokenizer(llama, programs, folder, source):
    cases = json.loads((source / "vectors.json").read_text())
    home = folder / "words"
    shutil.rmtree(home, ignore_errors=True)
    config = {**LLAMA, "num_hidden_layers": 1, "vocab_size": cases["vocab"]}
    (folder / "words.json").write_text(json.dumps(config))
    subprocess.run([programs[0], "model", "random", "--config", folder / "words.json", "--out", home, "--quiet"], check=True)
    for file in source.iterdir():
        if file.name != "vectors.json":
            shutil.copy(file, home)
    # What GGUF cannot say of added tokens is said of none.
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (home / name).exists():
            text = (home / name).read_text()
            for key in ("lstrip", "rstrip", "single_word"):
                text = text.replace(f'"{key}":true', f'"{key}":false').replace(f'"{key}": true', f'"{key}": false')
            (home / name).write_text(text)
    path = folder / "words.gguf"
    done = subprocess.run([programs[0], "model", "convert", "--weights", home, "--out", path, "--quiet"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"--  {source.name}: not converted ({done.stderr.strip()[-160:]})")
        return True
    model = llama.model(path)
    vocab = llama.lib.llama_model_get_vocab(ctypes.c_void_p(model))
    wrong = []
    special = [token["content"] for token in json.loads((home / "tokenizer_config.json").read_text()).get(
        "added_tokens_decoder", {}).values()] if (home / "tokenizer_config.json").exists() else []
    # The vectors were made with what was cleared above.
    if (home / "tokenizer.json").exists():
        special += [token["content"] for token in json.loads((home / "tokenizer.json").read_text()).get("added_tokens", [])]
    count = 0
    for case in cases["encode"]:
        # NFC is lost in GGUF.
        if "text" in case and not unicodedata.is_normalized("NFC", case["text"]):
            continue
        if "text" not in case or any(token in case["text"] for token in special) or "\0" in case["text"]:
            continue
        count += 1
        if llama.tokenize(vocab, case["text"]) != case["ids"]:
            wrong.append(case["text"])
    print(f"{'ok ' if not wrong else 'BAD'} tokenizer {source.name}: {count - len(wrong)} of {count} texts alike {wrong[:3]}", flush=True)
    return not wrong


def main():
    words = sys.argv[1:]
    tokenizers = None
    if "--tokenizers" in words:
        at = words.index("--tokenizers")
        tokenizers = pathlib.Path(words[at + 1])
        del words[at:at + 2]
    if len(words) != 3:
        sys.exit(__doc__)
    programs, llama = words[:2], Llama(pathlib.Path(words[2]).resolve())
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case, config in CASES.items():
            for dtype in BOUNDS:
                good = check_model(llama, programs, folder, case, config, dtype) and good
            for dtype in WIDENED:
                good = check_model(llama, programs, folder, case, config, dtype, widened=True) and good
            good = check_model(llama, programs, folder, case, config, "f32", half_cache=True) and good
        for case, config in LONG_CASES.items():
            for dtype in LONG_BOUNDS:
                if dtype in MIXES or "no 256" not in case:
                    good = check_model(llama, programs, folder, case, config, dtype) and good
            for dtype, number in MIXES.items():
                good = check_mix(llama, programs, folder, case, config, dtype, number) and good
        for case, config in MIXED.items():
            for dtype, number in MIXES.items():
                good = check_mix(llama, programs, folder, case, config, dtype, number) and good
        if tokenizers:
            for kind in ("sp-bpe", "bpe-gpt2", "bpe-llama3", "bpe-files-gpt2", "bpe-qwen2"):
                good = check_tokenizer(llama, programs, folder, tokenizers / kind) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
