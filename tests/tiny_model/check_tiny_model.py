"""Checks the models that come with tandem, and `tandem eval` on them.

usage: check_tiny_model.py path/to/tandem path/to/scenarios/models

- They are at most 12 MB without texts and questions, and their held-out text and recall questions are what the corpus's generator makes.
- Every recall question has its fact exactly where it says.
- `tandem eval` gives the bits per byte and the right answers of an independent PyTorch implementation.
"""

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "torch"))

try:
    import sentencepiece
    import torch
except ImportError as error:
    sys.exit(f"check_tiny_model: {error}; install it: apt-get install python3-torch python3-sentencepiece")

import reference

BOS = 1
# How many documents, and questions of each distance, PyTorch repeats.
MODELS = {"tandem-tiny": 2, "tandem-deep": 1}
ANSWER = "Answer:"


def load(path):
    """The module of a Python file outside the path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(good, what):
    """Ends the test unless `good`."""
    if not good:
        sys.exit(f"check_tiny_model: {what}")


def check_questions(questions, tokenizer):
    """A fact's value ends `distance` tokens before the answer begins, and is told once."""
    for question in questions:
        prompt, answer = question["prompt"], question["answer"].strip()
        ids, value = tokenizer.encode(prompt), tokenizer.encode(answer.rstrip("."))
        end = len(ids) - question["distance"] + 1
        check(ids[end - len(value) : end] == value, f"distance {question['distance']}: {answer} is not there: {prompt}")
        asked = prompt[prompt.rindex("Question:") :]
        check(asked.endswith(ANSWER) and prompt.count(asked) == 1, f"asked more than once: {asked}")
        check(1 + len(ids) + len(value) + 1 <= 1024, f"beyond the context: {len(ids)} tokens")


def score(config, weights, prompt, answer):
    """(bits of the answer's tokens, whether each is the likeliest) after `prompt`."""
    logits = reference.logits(config, weights, prompt + answer)[len(prompt) - 1 : -1]
    bits = -torch.log_softmax(logits, -1)[range(len(answer)), answer].sum() / math.log(2)
    return float(bits), logits.argmax(-1).tolist() == answer


def check_scores(program, folder, tokenizer, questions, texts, limit):
    """Compares `tandem eval` with PyTorch, of the first `limit` texts and questions of each distance."""
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    check(size <= 12_000_000, f"{folder}: {size} bytes, expected at most 12 MB")
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "eval.json"
        subprocess.run([program, "eval", "--weights", folder, "--limit", str(limit), "--out", out, "--quiet"], check=True)
        result = json.loads(out.read_text())
    config, weights = reference.read_folder(folder)
    bits = sum(score(config, weights, [BOS], tokenizer.encode(text["text"]))[0] for text in texts)
    per_byte = bits / sum(len(text["text"].encode()) for text in texts)
    check(abs(result["text"]["bits_per_byte"] / per_byte - 1) < 1e-5,
          f"{folder.name}: bits per byte {result['text']['bits_per_byte']}, PyTorch {per_byte}")
    print(f"{folder.name}: bits per byte {per_byte:.5f}")
    for entry in result["recall"]["distances"]:
        asked = [question for question in questions if question["distance"] == entry["distance"]][:limit]
        right = sum(score(config, weights, [BOS] + tokenizer.encode(question["prompt"]),
                          tokenizer.encode(question["answer"].strip()))[1] for question in asked)
        check((entry["right"], entry["questions"]) == (right, len(asked)),
              f"{folder.name}, distance {entry['distance']}: {entry['right']} right of {entry['questions']}, PyTorch {right}")
        print(f"distance {entry['distance']}: {right} of {len(asked)}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, models = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    folder = models / "tandem-tiny"
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    questions, texts = lines(folder / "eval/recall.jsonl"), lines(folder / "eval/heldout.jsonl")
    check_questions(questions, tokenizer)

    train = load(models / "train/train.py")
    distances = [question["distance"] for question in questions]
    with tempfile.TemporaryDirectory() as name:
        train.held_out(tokenizer, Path(name), len(texts), distances.count(distances[0]))
        for model in MODELS:
            for file in ("heldout.jsonl", "recall.jsonl"):
                check((Path(name) / "eval" / file).read_bytes() == (models / model / "eval" / file).read_bytes(),
                      f"{model}/eval/{file}: is not what train.py makes")
    for model, limit in MODELS.items():
        check((models / model / "tokenizer.model").read_bytes() == (folder / "tokenizer.model").read_bytes(),
              f"{model}: its tokenizer is not {folder.name}'s")
        check_scores(program, models / model, tokenizer, questions, texts[:limit], limit)


if __name__ == "__main__":
    main()
