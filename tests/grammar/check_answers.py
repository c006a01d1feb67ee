"""Answers to random schemas conform to them, as Python's json and jsonschema find.

usage: check_answers.py path/to/tandem_grammar_answers path/to/tokenizers SCHEMAS SEED [path/to/tandem path/to/tandem-tiny]

A model without knowledge (random logits) writes texts of random schemas through the sampler and real tokenizers. What it finishes must
be JSON without duplicate keys in listed objects, conform to its schema, and have its properties in their order. With the last two
arguments, `tandem run --json-schema` with that model does the same.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import jsonschema
except ImportError as error:
    sys.exit(f"check_answers: {error}; install it: apt-get install python3-jsonschema")

NAMES = ["a", "ab", "abc", "name", "é", 'q"uote', "back\\slash", "{", "line\nend", "", "日本", "x y", "\u007f"]
VALUES = [1, -2, 0.5, True, False, None, "", "a", "ab", 'say "hi"', "ü", "tab\t", [1, "x"], {"k": [None]}, "\u0085"]
TOKENIZERS = {"bpe-llama3": 4096, "bpe-gpt2": 4096, "sp-bpe": 4096, "tandem-tiny": 4096}


def random_schema(rng, depth, names):
    """A schema of the supported subset; `names`: of definitions that it may refer to."""
    kinds = ["string", "number", "integer", "boolean", "null", "enum", "const", "types", "free"]
    if names:
        kinds.append("ref")
    if depth > 0:
        kinds += ["object"] * 5 + ["array"] * 3 + ["anyOf"] * 2 + ["map"]
    kind = rng.choice(kinds)
    schema = {}
    if kind == "ref":
        return {"$ref": "#/$defs/" + rng.choice(names)}
    if kind == "enum":
        schema["enum"] = rng.sample(VALUES, rng.randint(1, 5))
    elif kind == "const":
        schema["const"] = rng.choice(VALUES)
    elif kind == "types":
        schema["type"] = rng.sample(["string", "number", "integer", "boolean", "null", "array", "object"], rng.randint(1, 3))
    elif kind == "free":
        return rng.choice([True, {}, {"type": "object"}, {"type": "array"}])
    elif kind == "anyOf":
        schema["anyOf"] = [random_schema(rng, depth - 1, names) for _ in range(rng.randint(1, 3))]
    elif kind == "map":
        schema = {"type": "object", "additionalProperties": random_schema(rng, depth - 1, names)}
    elif kind == "array":
        schema["type"] = "array"
        if rng.random() < 0.8:
            schema["items"] = random_schema(rng, depth - 1, [])
        least = rng.randint(0, 3)
        if rng.random() < 0.5:
            schema["minItems"] = least
        if rng.random() < 0.5:
            schema["maxItems"] = least + rng.randint(0, 3)
    elif kind == "object":
        keys = rng.sample(NAMES, rng.randint(0, 5))
        schema["type"] = "object"
        # Only what may be left out refers to a definition, so that every text may end.
        required = [key for key in keys if rng.random() < 0.5]
        schema["properties"] = {key: random_schema(rng, depth - 1, [] if key in required else names) for key in keys}
        if required:
            schema["required"] = required
        if rng.random() < 0.5:
            schema["additionalProperties"] = False
    else:
        schema["type"] = kind
    if rng.random() < 0.2:
        schema["description"] = "some text"
    return schema


def whole_schema(rng):
    names = ["one", "two"] if rng.random() < 0.4 else []
    schema = random_schema(rng, 3, [])
    while not isinstance(schema, dict):
        schema = random_schema(rng, 3, [])
    if names:
        definitions = {name: {"type": "object", "properties": {key: random_schema(rng, 1, names) for key in rng.sample(NAMES, 3)}}
                       for name in names}
        schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/one"}, "rest": schema}, "required": ["first"],
                  "$defs": definitions}
    return schema


def unique(pairs):
    return {"pairs": pairs}


def check_order(schema, root, value):
    """Listed properties come once, in the order of the schema. `value` has lists of pairs for objects."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        return check_order(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, value)
    if isinstance(value, dict) and schema.get("properties") and "anyOf" not in schema:
        keys = [key for key, _ in value["pairs"]]
        order = [key for key in schema["properties"] if key in keys]
        assert keys == order, (keys, order)
        for key, part in value["pairs"]:
            check_order(schema["properties"][key], root, part)
    if isinstance(value, list) and "items" in schema:
        for part in value:
            check_order(schema["items"], root, part)


def check(schema, text):
    value = json.loads(text, parse_constant=lambda name: sys.exit(f"check_answers: {name} in {text!r}"))
    text.encode("utf-8")
    jsonschema.Draft202012Validator(schema).validate(value)
    check_order(schema, schema, json.loads(text, object_pairs_hook=unique))


def check_random(program, tokenizers, count, seed):
    for name, vocabulary in TOKENIZERS.items():
        rng = random.Random(f"{seed} {name}")
        folder = next(path / name for path in tokenizers if (path / name).exists())
        schemas, lines = [], []
        for _ in range(count):
            schema = whole_schema(rng)
            jsonschema.Draft202012Validator.check_schema(schema)
            schemas.append(schema)
            lines.append(json.dumps({"schema": json.dumps(schema), "seed": rng.getrandbits(32), "tokens": 120,
                                     "hurry": rng.choice([0.0, 0.1, 0.4]), "temperature": rng.choice([0, 0.7, 1.5])}))
        run = subprocess.run([program, folder, str(vocabulary)], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in run.stdout.splitlines()]
        assert len(answers) == len(schemas)
        finished = 0
        for schema, answer in zip(schemas, answers):
            assert "error" not in answer, (schema, answer)
            if not answer["finished"]:
                continue
            finished += 1
            try:
                check(schema, answer["text"])
            except (ValueError, AssertionError, jsonschema.ValidationError) as error:
                sys.exit(f"check_answers: {name}: {answer['text']!r} of {json.dumps(schema)}: {error}")
        print(f"{name}: {finished} of {count} answers finished, all conform")
        assert finished > count / 2, (name, finished)


def check_run(tandem, model, seed):
    rng = random.Random(f"{seed} run")
    with tempfile.TemporaryDirectory() as folder:
        finished = 0
        for i in range(12):
            schema = whole_schema(rng)
            path = Path(folder) / "schema.json"
            path.write_text(json.dumps(schema))
            # The model has learnt to answer with words; most of its answers end within the limit all the same.
            run = subprocess.run([tandem, "run", "--weights", model, "--prompt", "Question: what is there? Answer:", "--quiet",
                                  "--json-schema", path, "--new-tokens", "200", "--temperature", "2", "--seed", str(i), "--out",
                                  Path(folder) / "result.json", "--cache", Path(folder) / "cache"],
                                 capture_output=True, text=True)
            assert run.returncode == 0, (schema, run.stderr)
            text = run.stdout[len("Question: what is there? Answer:"):].strip()
            tokens = json.loads((Path(folder) / "result.json").read_text())["tokens"]
            if len(tokens) == 200:
                continue
            finished += 1
            check(schema, text)
        print(f"run: {finished} of 12 answers finished, all conform")
        assert finished > 3, finished


def main():
    program, tokenizers, count, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    models = Path(__file__).parents[2] / "scenarios" / "models"
    check_random(program, [tokenizers, models], count, seed)
    if len(sys.argv) > 5:
        check_run(sys.argv[5], sys.argv[6], seed)


main()
