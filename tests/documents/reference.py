"""Parts of pages that programs print: flag tables, the table of strategies.

    reference.py check|write PROGRAM...

A part stands between two comments, of which the first names the command that prints it:

    <!-- generated: tandem help plan --markdown -->
    <!-- end -->

`write` (make reference) replaces what is between them by what the command prints now; `check` prints each part that
differs. Every command of the programs must have its part in docs/reference/commands.md; `write` appends those that it
lacks, as sections at the end of the page, to be moved to where they belong.
"""

import pathlib
import re
import shlex
import subprocess
import sys

import check_pages

COMMANDS = check_pages.ROOT / "docs/reference/commands.md"
PART = re.compile(r"(<!-- generated: (.*?) -->\n)(.*?)(<!-- end -->\n)", re.S)


def output(command, programs):
    """What a marker's command prints. The program is one of `programs`, whose other commands than these are not run."""
    words = shlex.split(command)
    if words[0] not in programs or "--markdown" not in words or (words[1] not in ("help", "strategies")):
        raise SystemExit(f"'{command}': not a command that prints Markdown; expected 'PROGRAM help ... --markdown'")
    done = subprocess.run([programs[words[0]], *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"'{command}' fails; remove its part, or correct it:\n{done.stderr}")
    return done.stdout


def missing(text, programs):
    """Commands of which the page of commands lacks the flags."""
    for program, path in programs.items():
        for words in check_pages.helps(path):
            command = f"{program} help {words} --markdown"
            parent = f"{program} help {words.partition(' ')[0]} --markdown"
            if f"<!-- generated: {command} -->" not in text and output(command, programs) != (
                    output(parent, programs) if parent != command else ""):
                yield f"{program} {words}", command


def readme_strategies(programs):
    """How the strategies of README's table, whose words are its own, differ from those of the program."""
    row = re.compile(r"^\| `(\w+)` \|", re.M)
    table = re.search(r"^\| `--strategy` .*\n(?:\|.*\n)+", (check_pages.ROOT / "README.md").read_text(), re.M)
    shown = row.findall(table[0]) if table else []
    known = row.findall(output("tandem strategies --markdown", programs))
    if shown != known:
        yield f"README.md: its table has the strategies {', '.join(shown) or 'none'}, expected {', '.join(known)}"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "write"):
        raise SystemExit(__doc__)
    programs = {pathlib.Path(path).name: path for path in sys.argv[2:]}
    faults = list(readme_strategies(programs))
    for page in check_pages.pages():
        old = page.read_text()
        text = old
        if page == COMMANDS:
            for title, command in missing(old, programs):
                faults.append(f"{check_pages.name(page)}: has no flags of '{title}'")
                text += f"\n## {title}\n\n<!-- generated: {command} -->\n<!-- end -->\n"
        if len(PART.findall(text)) != text.count("<!-- generated: "):
            raise SystemExit(f"{check_pages.name(page)}: a generated part has no line '<!-- end -->'; add it")
        new = PART.sub(lambda part: f"{part[1]}\n{output(part[2], programs)}\n{part[4]}", text)
        if new == old:
            continue
        for before, after in zip(PART.finditer(text), PART.finditer(new)):
            if before[0] != after[0]:
                faults.append(f"{check_pages.name(page)}: '{before[2]}' prints other lines than the page has")
        if sys.argv[1] == "write":
            page.write_text(new)
            print(f"{check_pages.name(page)}: written")
    if sys.argv[1] == "check":
        print("\n".join([*faults, "'make reference' writes generated parts"] if faults else ["all parts are current"]))
        sys.exit(bool(faults))


main()
