#!/usr/bin/env python3
"""How soon `tandem plan` has a first plan and its last one, and how good that is.

    search.py --tandem build/release/bin/tandem [--seconds 10] [--case WORD] [--timeout 600] [--out search.csv]

One row a question, as CSV: wall and processor seconds to the first plan (of a search that may take a millisecond: it
ends with the first plan), of a fifth of the limit (`soon`) and within the limit, the predicted objective of each, that of
the fifth over that of the limit, and the latter over the reference: the plan of --seconds 0 or, if that takes longer than
--timeout, of six times the limit. `bound_gap`: what could be gained by the
lower bound (docs/explanation/search.md). Processor seconds are those to compare on a machine with other work.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time

CASES = {
    "home4-tinyllama": "--platform home4 --model tinyllama-1.1b --dtype q4_0 --prompt-tokens 512 --new-tokens 128",
    "home4-8b": "--platform home4 --model llama-3.1-8b --dtype q4_k_m --prompt-tokens 2000 --new-tokens 16",
    "klonet8-70b": "--platform klonet8 --model llama-3.1-70b --dtype q4_k_m --prompt-tokens 256 --new-tokens 128",
    "klonet8-8b-ttft": "--platform klonet8 --model llama-3.1-8b --dtype q4_0 --prompt-tokens 4000 --new-tokens 8 --objective ttft",
    "klonet8-8b-galaxy-ttft": "--platform klonet8 --model llama-3.1-8b --dtype q4_0 --prompt-tokens 4000 --new-tokens 8 "
                              "--objective ttft --strategy galaxy",
    "laptops4-gemma": "--platform laptops4 --model gemma-3-1b --dtype q8_0 --prompt-tokens 1000 --new-tokens 100",
    "laptops4-8b": "--platform laptops4 --model llama-3.1-8b --dtype q8_0",
    "shelf4-8b": "--platform shelf4 --model llama-3.1-8b --dtype q4_0",
    "shelf4-gemma": "--platform shelf4 --model gemma-3-1b --dtype f16 --prompt-tokens 200 --new-tokens 32 --objective ttft",
    "four-boxes-8b": "--platform four-boxes --model llama-3.1-8b --dtype q4_0",
    "four-boxes-70b": "--platform four-boxes --model llama-3.1-70b --dtype q4_k_m",
    "four-boxes-70b-csps": "--platform four-boxes --model llama-3.1-70b --dtype q4_k_m --strategy csps",
    "raspberry-pi-tinyllama": "--platform raspberry-pi-5x4 --model tinyllama-1.1b --dtype q4_0 --prompt-tokens 128 --new-tokens 64",
    "a100-8x8-70b": "--platform a100-8x8 --model llama-3.1-70b --dtype f16",
    "a100-8x8-405b": "--platform a100-8x8 --model llama-3.1-405b --dtype q8_0",
}


def measured(tandem, words, seconds, timeout):
    """Wall and processor seconds, and the answer; nothing after `timeout`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tandem, "plan", *words.split(), "--seconds", str(seconds), "--json", "--out", f"{folder}/plan.json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"search.py: {' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.loads(done.stdout)


def predicted(answer):
    choice = answer.get("choice")
    if not choice:
        return answer["predicted"]["request_s"], None
    return choice["contenders"][0][{"ttft": "ttft_s"}.get(choice["objective"], "request_s")], choice["lower_bound_s"]


def row_of(tandem, name, arguments):
    words = CASES[name]
    row = {"question": name}
    values = {}
    for what, limit in (("first", 0.001), ("soon", arguments.seconds / 5), ("final", arguments.seconds)):
        found = measured(tandem, words, limit, arguments.timeout)
        if not found:
            return row
        seconds, bound = predicted(found[2])
        values[what] = seconds
        row |= {f"{what}_s": f"{found[0]:.2f}", f"{what}_cpu_s": f"{found[1]:.2f}", f"{what}_predicted_s": f"{seconds:.6g}"}
    row |= {"strategy": found[2]["strategy"], "soon_over_final": f"{values['soon'] / values['final']:.4f}"}
    if bound:
        row["bound_gap"] = f"{1 - bound / seconds:.3f}"
    reference, kind = measured(tandem, words, 0, arguments.timeout), "to the end"
    if not reference:
        reference, kind = measured(tandem, words, 6 * arguments.seconds, 2 * arguments.timeout), "6 x"
    if reference:
        row |= {"reference": kind, "reference_cpu_s": f"{reference[1]:.2f}", "over_reference": f"{seconds / predicted(reference[2])[0]:.4f}"}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--seconds", type=float, default=10.0, help="the limit")
    parser.add_argument("--case", default="", help="questions with this word alone")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of one search")
    parser.add_argument("--out", help="write the rows there, too")
    arguments = parser.parse_args()
    columns = ["question", *(f"{what}_{of}" for what in ("first", "soon", "final") for of in ("s", "cpu_s", "predicted_s")), "strategy",
               "soon_over_final", "over_reference", "reference", "reference_cpu_s", "bound_gap"]
    files = [sys.stdout] + ([open(arguments.out, "w", encoding="utf-8", newline="")] if arguments.out else [])
    writers = [csv.DictWriter(file, columns, restval="", lineterminator="\n") for file in files]
    for writer in writers:
        writer.writeheader()
    for name in CASES:
        if arguments.case not in name:
            continue
        row = row_of(arguments.tandem, name, arguments)
        for file, writer in zip(files, writers):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
