"""Tables of the papers' pages: what `tandem-study experiment` prints.

    paper_tables.py check|write|markers STUDY [PAGE...]

A part of a page stands between two comments, of which the first names an experiment and what to show of it:

    <!-- experiment: tpi-table1 printed -->
    <!-- end -->

    table      all rows, one line for equal keys: printed / predicted (error)
    printed    the rows that compare with a printed number
    shown      the other rows
    remarks    the constants, assumptions and claims
    notes      why rows are off by more than 15%
    counts     of `papers`: printed numbers by paper, beside those of scenarios/experiments/printed_counts_before.csv

`write` replaces what is between the comments by what the program prints now; `check` names each part that differs;
`markers`, which runs no experiment, names parts without an end, lines or a known experiment. With
FOLDER in the environment variable TANDEM_EXPERIMENTS, reports are read from FOLDER/NAME.json, made with `--json`, if they
are there. Without PAGE: every page of docs/results.
"""

import csv
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ("table", "printed", "shown", "remarks", "notes", "counts")
PART = re.compile(r"(<!-- experiment: (\S+) (\w+) -->\n)(.*?)(<!-- end -->\n)", re.S)


@functools.cache
def report(name, program):
    saved = pathlib.Path(os.environ.get("TANDEM_EXPERIMENTS", "/nowhere"), f"{name}.json")
    if saved.exists():
        return json.loads(saved.read_text())
    done = subprocess.run([program, "experiment", name, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"experiment '{name}' fails; correct the page's marker:\n{done.stderr}")
    return json.loads(done.stdout)


def number(value):
    if not isinstance(value, float) and not isinstance(value, int):
        return value
    text = f"{value:.3g}"
    return f"{value:,.0f}" if "e" in text and abs(value) >= 1 else text


def percent(error):
    return f"{100 * error:+.0f}%"


def cell(row):
    paper, tandem = number(row["paper"]), number(row["tandem"])
    if row["paper"] is None:
        return "" if tandem is None else tandem
    if row["tandem"] is None:
        return f"{paper} / -"
    mark = {"calibrated": "c", "follows": "f", "formula": "=", "quotient": "q"}.get(row["role"])
    if row["error"] is not None:
        mark = "c" if mark == "c" else percent(row["error"]) + (f", {mark}" if mark else "")
    elif mark is None:
        mark = "=" if row["paper"] == row["tandem"] else "differs"
    return f"{paper} / {tandem} ({mark})"


def table(rows):
    names = list(rows[0]["keys"])
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    lines = {}
    for row in rows:
        lines.setdefault(tuple(row["keys"].values()), {})[row["quantity"]] = cell(row)
    head = [*names, *(quantity.replace("_", " ") for quantity in quantities)]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for keys, cells in lines.items():
        yield "| " + " | ".join([*keys, *(cells.get(quantity, "") for quantity in quantities)]) + " |"


def notes(rows):
    by_note = {}
    for row in rows:
        missed = row["paper"] is not None and row["role"] != "calibrated" and (
            abs(row["error"]) > 0.15 if row["error"] is not None else row["paper"] != row["tandem"])
        if missed and row["note"]:
            by_note.setdefault(row["note"], []).append(f"{'/'.join(row['keys'].values())} {row['quantity']}")
    for note, found in by_note.items():
        of = ", ".join(f"`{one}`" for one in found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
        yield f"- {of}: {note}."


def counts(rows):
    with open(ROOT / "scenarios/experiments/printed_counts_before.csv", newline="", encoding="utf-8") as file:
        before = {row["paper"]: row for row in csv.DictReader(file)}
    yield "| paper | printed numbers, before / now | within 15% | within 30% |"
    yield "|---|---|---|---|"
    by_paper = {}
    for row in rows:
        was = before.get(row["keys"]["paper"], {}).get(row["quantity"], "-")
        by_paper.setdefault(row["keys"]["paper"], []).append(f"{was} / {number(row['tandem'])}")
    for paper, cells in by_paper.items():
        yield f"| {paper} | " + " | ".join(cells) + " |"


def part(name, kind, program):
    made = report(name, program)
    rows = made["rows"]
    if kind == "remarks":
        lines = [f"- {remark}." for remark in made["remarks"]]
    elif kind == "notes":
        lines = notes(rows)
    elif kind == "counts":
        lines = counts(rows)
    else:
        wanted = [row for row in rows
                  if kind == "table" or (row["paper"] is None) == (kind == "shown")]
        lines = table(wanted) if wanted else []
    return "\n".join(lines) + "\n"


def marker_faults(page, program):
    listed = subprocess.run([program, "experiment", "list"], capture_output=True, text=True, check=True).stdout
    known = {line.split()[0] for line in listed.splitlines() if line}
    text = page.read_text()
    for found in PART.finditer(text):
        _, name, kind, lines, _ = found.groups()
        if name not in known:
            yield f"{page}: '{name}' is no experiment; see 'tandem-study experiment list'"
        elif kind not in KINDS:
            yield f"{page}: '{kind}' of '{name}': expected one of {', '.join(KINDS)}"
        elif not lines.strip():
            yield f"{page}: '{name} {kind}' is empty; 'make results' writes it"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "write", "markers"):
        raise SystemExit(__doc__)
    pages = [pathlib.Path(page) for page in sys.argv[3:]] or sorted((ROOT / "docs/results").glob("*.md"))
    faults = []
    for page in pages:
        old = page.read_text()
        if len(PART.findall(old)) != old.count("<!-- experiment: "):
            raise SystemExit(f"{page}: a part of an experiment has no line '<!-- end -->'; add it")
        if sys.argv[1] == "markers":
            faults += marker_faults(page, sys.argv[2])
            continue
        new = PART.sub(lambda found: f"{found[1]}\n{part(found[2], found[3], sys.argv[2])}\n{found[5]}", old)
        for before, after in zip(PART.finditer(old), PART.finditer(new)):
            if before[0] != after[0]:
                faults.append(f"{page}: '{before[2]} {before[3]}' prints other lines than the page has")
        if sys.argv[1] == "write" and new != old:
            page.write_text(new)
            print(f"{page}: written")
    if sys.argv[1] != "write":
        print("\n".join([*faults, "'make results' writes them"] if faults else ["all parts are current"]))
        sys.exit(bool(faults))


if __name__ == "__main__":
    main()
