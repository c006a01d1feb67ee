"""Times of prompts with a common beginning, with and without shared prefixes, predicted and on this machine.

    shared_prefixes.py TANDEM

Eight requests with one system prompt of 2,000 tokens, and a chat of ten turns, of a model of 30 million random weights.
A turn's prompt is the one before, its answer and 64 new tokens; a row of 64 tokens alone is beside it.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

CONFIG = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 512, "num_attention_heads": 8,
          "num_key_value_heads": 4, "intermediate_size": 1408, "vocab_size": 4096, "max_position_embeddings": 4096,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}
DRAW = random.Random(7)


def draw(count):
    return [DRAW.randrange(CONFIG["vocab_size"]) for _ in range(count)]


class Bench:
    def __init__(self, tandem, folder):
        self.tandem, self.folder = tandem, folder
        (folder / "config.json").write_text(json.dumps(CONFIG))
        self.do("model", "random", "--config", "config.json", "--dtype", "F16", "--out", "model", "--quiet")

    def do(self, *words):
        done = subprocess.run([self.tandem, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")

    def write(self, name, requests):
        lines = [json.dumps({"id": f"{name}{i + 1}", "arrival_s": 0, "prompt_ids": ids, "new_tokens": count,
                             "ignore_eos": True}) for i, (ids, count) in enumerate(requests)]
        (self.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    def write_lengths(self, name, prompts, count):
        """The same for predictions, which know no answers: each prompt is the beginning of one text."""
        lines = [json.dumps({"id": f"{name}{i + 1}", "arrival_s": 0, "prompt_tokens": prompt, "new_tokens": count,
                             "prefix": [{"group": name, "tokens": prompt + count}]}) for i, prompt in enumerate(prompts)]
        (self.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    def answer(self, ids, count):
        """The tokens that follow."""
        self.write("one", [(ids, count)])
        return self.run("one", "sequential", "off", "whole", "run")["requests"][0]["tokens"]

    def run(self, name, policy, cache, chunk, command):
        self.do("plan", "--platform", "home4", "--devices", "desktop", "--strategy", "local", "--model", "model",
                "--workload", f"{name}.jsonl", "--policy", policy, "--chunk", chunk, "--out", "plan.json", "--quiet")
        words = ["--weights", "model", "--cache", "cache"] if command == "run" else []
        self.do(command, "plan.json", *words, "--prefix-cache", cache, "--quiet", "--out", "result.json")
        return json.loads((self.folder / "result.json").read_text())


def first_token(request):
    return request["ttft_s"] - request["queueing_s"]


def show_system(bench):
    system = draw(2000)
    bench.write("system", [(system + draw(32), 16) for _ in range(8)])
    print("8 requests of 2000 + 32 tokens, continuous, chunks of 256")
    print("command   cache   hits   first token: 1st   mean   last   end")
    for command in ("simulate", "run"):
        for cache in ("off", "on"):
            result = bench.run("system", "continuous", cache, "256", command)
            firsts = [one["ttft_s"] for one in result["requests"]]
            print(f"{command:8}  {cache:5}  {result.get('prefix_hit_rate', 0.0):5.1%}  {firsts[0]:16.2f}"
                  f"  {sum(firsts) / 8:5.2f}  {max(firsts):5.2f}  {max(one['end_s'] for one in result['requests']):5.2f} s")


def show_predicted_chat(bench):
    prompts = [1064 + 80 * turn for turn in range(10)]
    bench.write_lengths("chat", prompts, 16)
    off = bench.run("chat", "sequential", "off", "whole", "simulate")["requests"]
    on = bench.run("chat", "sequential", "on", "whole", "simulate")["requests"]
    bench.write_lengths("alone", [64], 16)
    alone = first_token(bench.run("alone", "sequential", "off", "whole", "simulate")["requests"][0]) * 1e3
    print(f"\nthe chat, predicted; first token, ms; 64 tokens alone take {alone:.1f}")
    print("turn   prompt   cached   off     on")
    for i, prompt in enumerate(prompts):
        print(f"{i + 1:4}   {prompt:6}   {on[i]['cached_tokens']:6}  {first_token(off[i]) * 1e3:4.0f}"
              f"  {first_token(on[i]) * 1e3:5.1f}")


def show_chat(bench):
    text, turns = draw(1000), []
    for _ in range(10):
        text = text + draw(64)
        turns.append((text, 16))
        text = text + bench.answer(*turns[-1])
    bench.write("chat", turns)
    bench.write("alone", [(draw(64), 16) for _ in range(10)])
    off = bench.run("chat", "sequential", "off", "whole", "run")["requests"]
    on = bench.run("chat", "sequential", "on", "whole", "run")["requests"]
    alone = bench.run("alone", "sequential", "off", "whole", "run")["requests"]
    assert [one["tokens"] for one in on] == [one["tokens"] for one in off], "the answers are the same"
    print("\na chat of 10 turns, each of 64 new tokens and 16 of an answer, after 1000 tokens; first token, ms")
    print("turn   prompt   cached   off     on   64 tokens alone")
    for i in range(10):
        print(f"{i + 1:4}   {len(turns[i][0]):6}   {on[i]['cached_tokens']:6}  {first_token(off[i]) * 1e3:4.0f}"
              f"  {first_token(on[i]) * 1e3:5.1f}  {first_token(alone[i]) * 1e3:5.1f}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
        show_system(bench)
        show_predicted_chat(bench)
        show_chat(bench)


if __name__ == "__main__":
    main()
