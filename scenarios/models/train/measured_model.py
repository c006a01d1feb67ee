"""What the measurements of a model's losses have in common: its weights, and runs of `tandem`."""

import hashlib
import subprocess
import sys

TAIL = 1 << 20


def weights_of(folder, program):
    """Returns what tells the model's weights from others: of each file the digest of its last bytes."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        sys.exit(f"{program}: {folder}: no *.safetensors, expected a model folder; check the path")
    found = []
    for file in files:
        data = file.read_bytes()[-TAIL:]
        found.append({"file": file.name, "bytes": file.stat().st_size, "tail_sha256": hashlib.sha256(data).hexdigest()})
    return found


def run(words, program, **more):
    """Returns what a command prints; ends with its message if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{program}: {' '.join(str(word) for word in words)}: {done.stdout}{done.stderr}")
    return done.stdout
