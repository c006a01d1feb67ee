"""Random chat templates, rendered by Jinja2 and by tandem: `compare_random.py PROGRAM [COUNT [SEED]]`.

PROGRAM is tests/chat/render_template.cpp. Where Jinja2 makes a text, tandem makes the same one or refuses by one of the faults in
INTENDED; where Jinja2 fails, tandem does.
"""
import json
import random
import signal
import subprocess
import sys
import warnings

import random_templates
import jinja_reference as reference

# What tandem refuses by intent (docs/decisions/0047-chat.md).
INTENDED = ["writes an address", "'safe' or 'escape' made", "beyond 64 bits", "beyond 2^53"]
# Faults of Jinja2's own that depend on what it computes ahead: a slice of a constant without elements is undefined, and
# a constant that is not a number cannot be compiled.
JINJA = ["a slice of", "name 'nan' is not defined", "name 'inf' is not defined"]
MESSAGES = [{"role": "user", "content": "Hi b\n"}, {"role": "assistant", "content": "yo"}]
SECONDS = 20


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rendered(self, template):
        self.process.stdin.write(json.dumps({"template": template, "messages": MESSAGES}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"tandem stopped at the template {template!r}")
        made = json.loads(line)
        return made.get("text"), made.get("error")


def too_long(*_):
    raise TimeoutError


def compared(program, template):
    """Whether both make a text, and a fault or None."""
    signal.alarm(SECONDS)
    try:
        text, fault = reference.rendered(template, MESSAGES)
    except TimeoutError:
        return False, None
    finally:
        signal.alarm(0)
    own, own_fault = program.rendered(template)
    if text == own:
        return text is not None, None
    if own is None and any(part in own_fault for part in INTENDED + JINJA):
        return False, None
    if text is None and any(part in fault for part in JINJA):
        return False, None
    if text is not None and " at 0x" in text.lower():
        return False, "an address is written"
    return False, f"{template!r}\n  Jinja2: {text!r} {fault}\n  tandem: {own!r} {own_fault}"


def main():
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_long)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(10**9)
    program = Program(sys.argv[1])
    texts = 0
    faults = []
    for at in range(seed, seed + count):
        both, fault = compared(program, random_templates.template(at))
        texts += both
        if fault:
            faults.append(f"seed {at}: {fault}")
    print(f"{count} templates from seed {seed}: {texts} texts are equal, {len(faults)} faults")
    if faults or texts * 10 < count:
        sys.exit("\n".join(faults[:10]) or "fewer texts than one in ten, expected more")


main()
