#!/usr/bin/env python3
"""What `tandem plan` answers to a few dozen questions: predicted seconds, the strategy, and how long the search took.

    answers.py --tandem build/release/bin/tandem [--out answers.csv] [--before bench/answers.csv] [--only WORD] [--search ...]

A question is a platform, a model and flags, as a user types them, with the default budget of ten seconds. With --before, a change of the
predicted time of more than 0.1% or of the strategy is marked, so that a change of the search shows. Search times are of this machine at
this moment: compare them within one run. The exit code is 1 if a question has no answer that had one before.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

# platform, model, flags
QUESTIONS = [
    ("klonet8", "llama-3.1-70b", "--dtype q4_k_m --prompt-tokens 256 --new-tokens 128"),
    ("klonet8", "llama-3.1-8b", "--dtype q4_0"),
    ("klonet8", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 4000 --new-tokens 8 --objective ttft"),
    ("klonet8", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 30000 --new-tokens 8"),
    ("klonet8", "tinyllama-1.1b", "--prompt-tokens 2000 --new-tokens 16 --strategy tensor"),
    ("klonet8", "qwen3-30b-a3b", "--dtype q4_k_m"),
    ("four-boxes", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 512 --new-tokens 128"),
    ("four-boxes", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 512 --new-tokens 128 --samples 16 --objective throughput"),
    ("four-boxes", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 512 --new-tokens 128 --samples 4"),
    ("four-boxes", "llama-3.1-70b", "--dtype q4_k_m"),
    ("four-boxes", "gpt-oss-20b", ""),
    ("four-boxes", "llama-3.1-8b", "--dtype q4_0 --objective latency"),
    ("home4", "tinyllama-1.1b", "--dtype q4_0 --prompt-tokens 512 --new-tokens 128"),
    ("home4", "llama-3.1-8b", "--dtype q4_0 --prompt-tokens 512 --new-tokens 128"),
    ("home4", "llama-3.1-8b", "--dtype q8_0 --prompt-tokens 64 --new-tokens 256"),
    ("home4", "llama-3.1-8b", "--dtype q4_0 --objective ttft"),
    ("home4", "gemma-3-4b", "--dtype q4_0"),
    ("laptops4", "llama-2-7b", "--dtype q4_0"),
    ("laptops4", "llama-3.1-70b", "--dtype q4_k_m --prompt-tokens 32 --new-tokens 16"),
    ("laptops4", "llama-3.2-3b", "--dtype f16 --objective ttft"),
    ("laptops4", "qwen2.5-14b", "--dtype q4_k_m"),
    ("raspberry-pi-5x4", "llama-3.2-1b", "--dtype q4_0 --prompt-tokens 32 --new-tokens 64"),
    ("raspberry-pi-5x4", "llama-3.1-8b", "--dtype q4_0"),
    ("raspberry-pi-4x8", "llama-2-7b", "--dtype q4_0 --prompt-tokens 32 --new-tokens 32"),
    ("raspberry-pi-4x8", "tinyllama-1.1b", "--dtype q4_0 --samples 8 --objective throughput"),
    ("jetson-tx2x3", "gpt2-xl", ""),
    ("jetson-tx2x3", "bert-l", ""),
    ("shelf4", "gemma-3-1b", "--prompt-tokens 200 --new-tokens 32 --dtype f16 --objective ttft"),
    ("shelf4", "qwen3-8b", "--dtype q4_k_m"),
    ("flat3", "tinyllama-1.1b", "--dtype q8_0"),
    ("single", "tinyllama-1.1b", "--dtype q8_0"),
    ("a100-8x8", "llama-3.1-70b", "--dtype f16"),
]


def ask(tandem, question, search):
    platform, model, flags = question
    words = [tandem, "plan", "--platform", platform, "--model", model, *flags.split(), "--json"]
    if "--strategy" not in flags:
        words += search
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:  # an answer has predictions beside a plan that is written
        made = subprocess.run([*words, f"--out={folder}/plan.json"], capture_output=True, text=True, check=False)
    row = {"platform": platform, "model": model, "flags": flags, "search_s": f"{time.monotonic() - begin:.1f}"}
    if made.returncode != 0:
        reason = (made.stderr or made.stdout).strip().splitlines() or ["no output"]
        return row | {"strategy": "", "devices": "", "chunk": "", "wire": "", "predicted_s": "", "per": "", "ended": "", "reason": reason[0]}
    answer = json.loads(made.stdout)
    choice = answer["choice"]
    value, per = predicted(answer, choice)
    devices = [one for one in answer["devices"] if one["layers"][0] != one["layers"][-1]]
    return row | {"strategy": answer["strategy"], "devices": len(devices), "chunk": answer["chunk"] or "", "wire": answer["wire_type"],
                  "predicted_s": f"{value:.6g}" if value else "", "per": per,
                  "ended": "" if choice is None else "yes" if choice["to_the_end"] else "no", "reason": ""}


def predicted(answer, choice):
    """The objective's seconds, and what they are of."""
    if choice is None:
        return (answer.get("predicted") or {}).get("request_s"), "request"
    first = choice["contenders"][0]
    if "throughput_per_s" in first:
        return 1.0 / first["throughput_per_s"], "token at the highest rate"
    for key, per in (("request_s", "request"), ("ttft_s", "first token"), ("token_latency_s", "new token")):
        if key in first:
            return first[key], per
    return None, ""


def compare(row, before):
    if before is None:
        return "new"
    if not row["predicted_s"]:
        return "LOST" if before["predicted_s"] else ""
    if not before["predicted_s"]:
        return "answered now"
    change = float(row["predicted_s"]) / float(before["predicted_s"]) - 1.0
    words = [f"{100 * change:+.1f}%"] if abs(change) > 1e-3 else []
    if row["strategy"] != before["strategy"]:
        words.append(f"was {before['strategy']}")
    return ", ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--only", default="", help="questions with this word alone")
    parser.add_argument("--search", nargs="*", default=[], help="flags without dashes for each search, as: --search evaluations=300")
    arguments = parser.parse_args()
    search = [part for word in arguments.search for part in ("--" + word.split("=")[0], *word.split("=")[1:])]
    known = {}
    if arguments.before:
        with arguments.before.open(encoding="utf-8", newline="") as file:
            known = {(row["platform"], row["model"], row["flags"]): row for row in csv.DictReader(file)}
    rows = []
    lost = False
    for question in QUESTIONS:
        if arguments.only not in " ".join(question):
            continue
        row = ask(arguments.tandem, question, search)
        rows.append(row)
        change = compare(row, known.get(question)) if arguments.before else ""
        lost = lost or change == "LOST"
        chunk = f" in chunks of {row['chunk']}" if row["chunk"] else ""
        found = f"{row['predicted_s']} s a {row['per']}, {row['strategy']} on {row['devices']}{chunk}" if row["predicted_s"] else row["reason"]
        print(f"{' '.join(question)}\n    {found}; searched {row['search_s']} s{'' if row['ended'] != 'no' else ', cut'}"
              f"{'; ' + change if change else ''}", flush=True)
    if arguments.out:
        with arguments.out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
