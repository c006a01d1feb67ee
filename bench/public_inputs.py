#!/usr/bin/env python3
"""How many published platform files and model configs `tandem` reads and plans, and why it refuses the others.

    public_inputs.py --tandem build/release/bin/tandem [--platforms DIR] [--models DIR] [--published models.csv] [--out DIR]

Files are DIR/OWNER+REPO/.../NAME.xml and DIR/OWNER+REPO/MODEL/config.json: OWNER+REPO is the repository that they are from;
a MODEL has + for the / of its name.
A platform is read by `tandem platform`. If that proposes --hosts, both `tandem platform` and `tandem plan` get the proposal. A small
model is planned on each platform, and each model on one large platform in f16. --published: CSV with the columns model and
kv_cache_bytes_per_token_f16, which is compared with `tandem model inspect`. Prints counts by repository and by reason, and
writes platforms.csv and models.csv, one row a file, to --out.
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import time

SMALL_MODEL = ["--model", "tinyllama-1.1b", "--dtype", "q4_0", "--seconds", "1", "--default", "memory=8GiB"]
INFEASIBLE = 3
REASONS = [
    (r"has no route from", "no route between some hosts"),
    (r"routes between \d+ hosts", "more than 1,024 hosts"),
    (r"state_file|availability_file", "hosts or links fail"),
    (r"periodicity|neither repeat nor are random", "profiles that repeat"),
    (r"is given twice", "a route is given twice"),
    (r"SimGrid refuses it", "SimGrid refuses the file"),
    (r"SimGrid \S+ cannot load this file", "SimGrid aborts or crashes"),
    (r"expected a model without (.+?), which (?:is|are) not supported", None),
    (r"more than \d+ s$", "no answer in time"),
]


def ask(tandem, words, timeout):
    """Exit code, standard output, and the first line of the error."""
    try:
        done = subprocess.run([tandem, *words], capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, "", f"tandem {words[0]}: more than {timeout:.0f} s"
    lines = (done.stderr or done.stdout).strip().splitlines() if done.returncode else []
    return done.returncode, done.stdout, lines[0] if lines else "" if done.returncode == 0 else f"exit code {done.returncode}, no message"


def reason_of(error):
    for pattern, label in REASONS:
        found = re.search(pattern, error)
        if found:
            return label or found[1]
    return re.sub(r"^tandem \w+: ", "", error)


def named(root, file):
    """The repository and the path in it."""
    parts = file.relative_to(root).parts
    return {"source": parts[0].replace("+", "/", 1), "file": "/".join(parts[1:])}


def shortened(error, file):
    return re.sub(r"0x[0-9a-f]+", "0x...", error.replace(str(file), file.name))


def platform_row(tandem, root, file, timeout):
    row = named(root, file)
    code, text, error = ask(tandem, ["platform", str(file), "--json"], timeout)
    row |= {"read": "yes" if code == 0 else "refused", "reason": reason_of(error) if code else "", "error": shortened(error, file)}
    hosts = []
    proposal = re.search(r"--hosts '([^']+)'", error)
    if code and proposal:
        hosts = ["--hosts", proposal[1]]
        code, text, error = ask(tandem, ["platform", str(file), *hosts, "--json"], timeout)
        if code == 0:
            row["read"] = "with --hosts" if len(json.loads(text)["devices"]) > 1 else "one host alone"
        else:
            row |= {"reason": "the proposed --hosts is refused", "error": shortened(error, file)}
    if code:
        return row | {"planned": "refused"}
    row["hosts"] = len(json.loads(text)["devices"])
    begin = time.monotonic()
    code, _, error = ask(tandem, ["plan", "--platform", str(file), *SMALL_MODEL, *hosts, "--quiet"], timeout)
    row |= {"planned": {0: "yes", INFEASIBLE: "infeasible"}.get(code, "refused"), "plan_s": f"{time.monotonic() - begin:.1f}"}
    return row if code == 0 else row | {"reason": f"not planned: {reason_of(error)}", "error": shortened(error, file)}


def model_row(tandem, root, file, platform, published, timeout):
    row = named(root, file)
    config = json.loads(file.read_text(encoding="utf-8"))
    row |= {"model_type": config.get("model_type", ""), "published_cache_bytes": published.get(file.parent.name.replace("+", "/"), "")}
    code, text, error = ask(tandem, ["model", "inspect", str(file.parent), "--json"], timeout)
    if code:
        return row | {"read": "refused", "planned": "refused", "reason": reason_of(error), "error": shortened(error, file)}
    row |= {"read": "yes", "cache_bytes": f"{json.loads(text)['kv_bytes_per_token_f16']:.0f}"}
    begin = time.monotonic()
    words = ["plan", "--platform", platform, "--model", str(file.parent), "--dtype", "f16", "--seconds", "1", "--quiet"]
    code, _, error = ask(tandem, words, timeout)
    row |= {"planned": {0: "yes", INFEASIBLE: "infeasible"}.get(code, "refused"), "plan_s": f"{time.monotonic() - begin:.1f}"}
    return row if code == 0 else row | {"reason": f"not planned: {reason_of(error)}", "error": shortened(error, file)}


def print_counts(title, rows, group_of):
    print(f"\n{title}: {len(rows)} files")
    for source in sorted({group_of(row) for row in rows}):
        of = [row for row in rows if group_of(row) == source]
        read, planned = (collections.Counter(row[what] for row in of) for what in ("read", "planned"))
        parts = [f"{kind} {', '.join(f'{key} {n}' for key, n in sorted(counts.items()))}"
                 for kind, counts in (("read:", read), ("planned:", planned))]
        print(f"  {source}: {len(of)} files; {'; '.join(parts)}")
    for (read, reason), n in sorted(collections.Counter((row["read"], row["reason"]) for row in rows if row.get("reason")).items()):
        print(f"  {n:4} {read}: {reason}")


def written(path, columns, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def files_of(root, pattern, word):
    return [file for file in sorted(root.rglob(pattern)) if word in str(file)]


def reported(row):
    print(" ".join(row.get(key, "-") for key in ("read", "planned", "plan_s", "source", "file")), flush=True)
    return row


def study_platforms(arguments):
    rows = [reported(platform_row(arguments.tandem, arguments.platforms, file, arguments.timeout))
            for file in files_of(arguments.platforms, "*.xml", arguments.only)]
    print_counts("platforms", rows, lambda row: f"{row['source']} {row['file'].split('/')[0]}")
    if arguments.out:
        written(arguments.out / "platforms.csv", ["source", "file", "read", "hosts", "planned", "plan_s", "reason", "error"], rows)


def study_models(arguments):
    published = {}
    if arguments.published:
        with arguments.published.open(encoding="utf-8", newline="") as file:
            published = {row["model"]: row["kv_cache_bytes_per_token_f16"] for row in csv.DictReader(file)}
    rows = [reported(model_row(arguments.tandem, arguments.models, file, arguments.platform, published, arguments.timeout))
            for file in files_of(arguments.models, "config.json", arguments.only)]
    print_counts("models", rows, lambda row: row["source"])
    compared = [row for row in rows if row["published_cache_bytes"] and row.get("cache_bytes")]
    different = [row["file"] for row in compared if row["published_cache_bytes"] != row["cache_bytes"]]
    print(f"  cache bytes a token: {len(compared) - len(different)} of {len(compared)} as published", *different, sep="\n    different: ")
    absent = sorted(set(published) - {pathlib.PurePath(row["file"]).parent.name.replace("+", "/") for row in rows})
    if absent and not arguments.only:
        print(f"  published models without a file: {', '.join(absent)}")
    if arguments.out:
        written(arguments.out / "models.csv", ["source", "file", "model_type", "read", "planned", "plan_s", "cache_bytes",
                                               "published_cache_bytes", "reason", "error"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--platforms", type=pathlib.Path, help="folder of platform files")
    parser.add_argument("--models", type=pathlib.Path, help="folder of model configs")
    parser.add_argument("--platform", default="a100-8x8", help="where models are planned")
    parser.add_argument("--published", type=pathlib.Path, help="CSV of models and their cache bytes a token in f16")
    parser.add_argument("--only", default="", help="files with this word in their path alone")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of one command")
    parser.add_argument("--out", type=pathlib.Path, help="folder for platforms.csv and models.csv")
    arguments = parser.parse_args()
    if not arguments.platforms and not arguments.models:
        sys.exit("public_inputs.py: no input, expected files to read; name a folder with --platforms or --models")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.platforms:
        study_platforms(arguments)
    if arguments.models:
        study_models(arguments)


if __name__ == "__main__":
    main()
