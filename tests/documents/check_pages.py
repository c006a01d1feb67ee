"""What the documents show, held against the program and the tree.

    check_pages.py text PROGRAM...          links, paths, flags, words of all pages; words of comments and messages of
                                            PLAIN_SOURCES; runs nothing but '--help'
    check_pages.py commands TANDEM [PAGE]   runs the ```sh blocks of README, tutorials and how-tos, each page in a
                                            folder of its own, and compares the ```text block behind each

A block marked ```sh is run. One marked ```bash is shown only: it needs another machine, packages or minutes. Its flags are
checked. A ```text block behind a ```sh block is real output: each line up to its first digit has to begin a line of what
the commands print now, or "..." stands for what is left out. Numbers may differ from machine to machine.
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(\S*)\s*$")
README_WORDS = 1000
# Pages whose words are still to be revised, section by section; this list may only shrink.
WORDS_LATER = ("docs/reference/commands.md",)
RETIRED = re.compile(r"\b(whoever|alike|besides|nobody|likewise|dealt|deals out|is told|are told|told of|thereof)\b", re.I)
# Folders whose comments and messages are in plain words; this list may only grow.
PLAIN_SOURCES = ("advice", "exec/compute", "exec/evaluation", "exec/gguf", "exec/kernels", "exec/runtime", "exec/streaming",
                 "exec/tokenizer", "exec/weights", "model/cluster", "model/config", "model/graph", "model/transformer", "planner", "sim",
                 "study")
RETIRED_IN_SOURCES = re.compile(RETIRED.pattern[:-3] + r"|told|deals)\b", re.I)
TEXTS = re.compile(r'R"\((?P<raw>.*?)\)"|"(?P<string>(?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])+\'|//(?P<comment>[^\n]*)', re.S)
TIMEOUT_S = 240


def pages():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in ("build", "out", ".git", "node_modules", "__pycache__"))
        for file in sorted(files):
            if file.endswith(".md"):
                yield pathlib.Path(folder, file)


def name(page):
    return str(page.relative_to(ROOT))


def is_guide(page):
    """Pages that a reader follows, as opposed to records of what was decided or found."""
    return name(page) in ("README.md", "SECURITY.md", "CONTRIBUTING.md") or re.match(
        r"docs/(tutorials|how-to|explanation|reference)/", name(page))


def is_run(page):
    return name(page) == "README.md" or re.match(r"docs/(tutorials|how-to)/", name(page))


def blocks(page):
    """Yields (language, first line's number, text) of fenced blocks, and of indented ones with language 'indented'."""
    language, begin, lines, indented = None, 0, [], []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if fence and language is None:
            language, begin, lines = fence.group(2) or "none", number + 1, []
        elif fence:
            yield language, begin, "\n".join(lines)
            language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("    "):
            indented.append((number, line))
    if language is not None:
        raise SystemExit(f"{name(page)}:{begin}: a block without an end")
    if indented:
        yield "indented", indented[0][0], "\n".join(line for _, line in indented)


def prose(page):
    """The page's lines without fenced blocks, with their numbers."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page):
    found = set()
    for _, line in prose(page):
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.add(slug)
    return found


def check_links(page):
    for number, line in prose(page):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            if not path.exists():
                yield number, f"link to {target}, which does not exist; correct the path"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                yield number, f"link to {target}, but {name(path)} has no heading '#{anchor}'"


def check_paths(page):
    tops = "model|planner|sim|exec|study|cli|tests|bench|plots|scenarios|cmake|docs|\\.ci|include|advice|api|serve"
    for number, line in prose(page):
        for word in re.findall(r"`([^`]+)`", line):
            word = re.sub(r"/NAME(?![A-Z]).*", "/", word)  # a file that the reader writes
            if re.fullmatch(rf"(?:{tops})/[\w.*/{{}},-]*", word) and not list(ROOT.glob(word.rstrip("/"))):
                yield number, f"'{word}' is no file or folder of the tree; correct the path"


def helps(path):
    """Flags of a program by command."""
    flags = {}

    def ask(words):
        text = subprocess.run([path, *words, "--help", "--all"], capture_output=True, text=True, check=True).stdout
        flags[" ".join(words)] = set(re.findall(r"^ +(--[a-z-]+)", text, re.M))
        return text

    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  ([a-z]+) +\S", text, re.M):
        explained = ask([command])
        actions = re.findall(r"^  ([a-z]+) +\S", explained, re.M) + re.findall(
            rf"'{pathlib.Path(path).name} {command} ([a-z]+)'", explained)
        for action in actions:
            ask([command, action])
    return flags


def check_commands(number, text, flags):
    """Flags of the 'tandem COMMAND' in a text of the shell; `flags`: by program, of its commands."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line)
        for program, call in re.findall(rf"(?:^|[\s/(;&|])\"?\$?({'|'.join(flags)})\"? +([a-z][^;&|#`]*)", line):
            words = call.split()
            known = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in flags[program]), None)
            if known is None:
                if words[0] != "help":
                    yield number, f"'{program} {words[0]}' is no command"
                continue
            for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", call):
                if flag not in flags[program][known] | {"--help"}:
                    yield number, f"'{program} {known}' has no flag {flag}; see '{program} help {known}'"


def check_flags(page, flags):
    for language, number, text in blocks(page):
        if language in ("sh", "bash", "indented", "none"):
            yield from check_commands(number, text, flags)
    for number, line in prose(page):
        for word in re.findall(r"`([^`]*)`", line):
            yield from check_commands(number, word, flags)


def retired_in(text):
    """(line, word) of each retired word in the comments and string literals of C++; words between backticks are names."""
    for part in TEXTS.finditer(text):
        kind = part.lastgroup
        if kind is not None:
            plain = re.sub(r"`[^`\n]*`", lambda name: " " * len(name[0]), part[kind])
            for word in RETIRED_IN_SOURCES.finditer(plain):
                yield text.count("\n", 0, part.start(kind) + word.start()) + 1, word[0]


def check_sources():
    """Faults of the folders in PLAIN_SOURCES."""
    kinds = list(retired_in('int told = 1;  // Who is told? `told` is not.\nf("nobody", R"(alike)");'))
    if kinds != [(1, "is told"), (2, "nobody"), (2, "alike")]:
        yield f"tests/documents/check_pages.py: retired_in() finds {kinds}"
    for folder in PLAIN_SOURCES:
        sources = sorted(file for file in (ROOT / folder).rglob("*") if file.suffix in (".cpp", ".hpp"))
        if not sources:
            yield f"{folder}: no sources; correct PLAIN_SOURCES"
        for file in sources:
            for number, word in retired_in(file.read_text()):
                yield f"{name(file)}:{number}: '{word}': use plain words (docs/reference/glossary.md)"


def check_text(programs):
    flags = {pathlib.Path(path).name: helps(path) for path in programs}
    faults = []
    for page in pages():
        found = list(check_links(page))
        if not name(page).startswith(("docs/decisions/", "CHANGELOG")):
            found += check_flags(page, flags)
        if is_guide(page):
            found += check_paths(page)
            found += [(number, f"'{m.group(0)}': use plain words (docs/reference/glossary.md)")
                      for number, line in prose(page) if name(page) not in ("docs/reference/glossary.md", *WORDS_LATER)
                      for m in RETIRED.finditer(re.sub(r"`[^`]*`", "", line))]
        faults += [f"{name(page)}:{number}: {what}" for number, what in found]
    words = sum(len(re.findall(r"[^\s|]*\w[^\s|]*", re.sub(r"\]\([^)]*\)", "]", line))) for _, line in prose(ROOT / "README.md"))
    if words >= README_WORDS:
        faults.append(f"README.md: {words} words outside of blocks, expected fewer than {README_WORDS}; move some to docs/")
    index = (ROOT / "docs/decisions/README.md").read_text()
    for record in sorted((ROOT / "docs/decisions").glob("0*.md")):
        if f"({record.name})" not in index:
            faults.append(f"docs/decisions/README.md: lacks {record.name}; add a row with its status and date")
    faults += check_sources()
    print("\n".join(faults) or f"README.md has {words} words; no faults")
    return 1 if faults else 0


def runnable(page):
    """[(number of the first line, script, expected text or None)]"""
    found = []
    for language, number, text in blocks(page):
        if language == "sh":
            found.append([number, text, None])
        elif language == "text" and found and found[-1][2] is None:
            found[-1][2] = text
    return found


def unmet(expected, printed):
    """Lines of `expected` whose beginning nothing printed has."""
    begins = [re.sub(r"\s+", " ", line.strip()) for line in printed.splitlines()]
    for line in expected.splitlines():
        begin = re.sub(r"\s+", " ", re.split(r"\d", line.strip(), maxsplit=1)[0]).rstrip(" -+")
        if begin and begin != "..." and not any(b.startswith(begin) for b in begins):
            yield line


def free_port():
    """A port that nothing else on this machine, another run of this check included, listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_page(page, tandem):
    steps = runnable(page)
    if not steps:
        return []
    mark = "@@@ block "
    with tempfile.TemporaryDirectory(prefix="tandem-page-") as folder:
        work = pathlib.Path(folder, "work")
        programs = pathlib.Path(folder, "bin")
        work.mkdir()
        programs.mkdir()
        (programs / "tandem").symlink_to(pathlib.Path(tandem).resolve())
        script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "".join(
            f"echo '{mark}{i}'\n{text}\n" for i, (_, text, _) in enumerate(steps)) + f"echo '{mark}end'\n"
        for port in set(re.findall(r"127\.0\.0\.1:(\d+)", script)):
            script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": folder,
                       "TANDEM_SCENARIOS": str(ROOT / "scenarios"), "COLUMNS": "200"}
        with open(pathlib.Path(folder, "log"), "w+") as log:
            try:
                code = subprocess.run(["bash", "-c", script], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=subprocess.STDOUT, timeout=TIMEOUT_S).returncode
            except subprocess.TimeoutExpired:
                code = f"none after {TIMEOUT_S} s"
            log.seek(0)
            printed = [block.partition("\n")[2] for block in log.read().split(mark)[1:]]
    faults = []
    for i, (number, _, expected) in enumerate(steps):
        if i + 1 >= len(printed):
            faults.append(f"{name(page)}:{number}: the block fails (exit code {code}):\n{printed[-1] if printed else ''}")
            break
        for line in unmet(expected or "", printed[i]):
            faults.append(f"{name(page)}:{number}: no output begins like the line\n  {line}\nof\n{printed[i]}")
    return faults


def check_runs(tandem, chosen):
    faults = []
    for page in pages():
        if is_run(page) and (not chosen or name(page) in chosen):
            found = run_page(page, tandem)
            print(f"{name(page)}: {len(runnable(page))} blocks, {len(found)} faults", flush=True)
            faults += found
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("text", "commands"):
        raise SystemExit(__doc__)
    sys.exit(check_text(sys.argv[2:]) if sys.argv[1] == "text" else check_runs(sys.argv[2], sys.argv[3:]))
