#!/usr/bin/env python3
"""Bytes that each pass over a file reads from the disk when the file exceeds the memory limit.

A decoder reads its weights once a token, always in the same order. Each case runs a process in a memory cgroup of its
own (version 1 or 2; needs root) that reads or maps a file again and again. Bytes are counted, not time: read_bytes of
/proc/self/io, bytes that the process caused to be fetched from storage, read-ahead included. Nothing here passes or
fails.

  bench/page_cache.py --folder /var/tmp --out out/bench/page_cache.csv [--only how] [--passes 8]
"""

import argparse
import csv
import json
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 2**20
SETTLED = 3  # the last passes, whose mean is the steady state
BUFFER = MIB
ADVICE = {"mmap-sequential": mmap.MADV_SEQUENTIAL, "mmap-random": mmap.MADV_RANDOM,
          "mmap-willneed": mmap.MADV_WILLNEED}
FIELDS = ("how", "file_mib", "files", "limit_mib", "anonymous_mib", "warm_mib", "cache_mib", "active_mib",
          "first_read_mib", "read_mib", "lowest_read_mib", "highest_read_mib", "major_faults", "refaulted_mib", "passes_mib")


def cases():
    ways = ("read", "mmap")
    every = ways + ("read-layer",) + tuple(ADVICE) + ("mmap-ahead",)
    for ratio in (0.8, 0.95, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0):
        for how in every if ratio == 1.25 else ways:
            yield {"how": how, "file_mib": 256, "limit_mib": round(256 / ratio)}
    for how in ways:
        yield {"how": how, "file_mib": 512, "limit_mib": 410}  # twice as large, the ratio 1.25
        yield {"how": how, "file_mib": 256, "limit_mib": 405, "anonymous_mib": 200}  # beside other memory
        yield {"how": how, "file_mib": 256, "limit_mib": 205, "files": 32}  # a file a block
        yield {"how": how, "file_mib": 256, "limit_mib": 205, "warm_mib": 100}  # a part that was used before
        yield {"how": how, "file_mib": 512, "limit_mib": 205, "warm_mib": 100}


class Group:
    """A memory cgroup with a limit."""

    def __init__(self, limit):
        root = pathlib.Path("/sys/fs/cgroup")
        self.old = (root / "memory").is_dir()
        base = root / "memory" if self.old else root
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tandem-page-cache-", dir=base))
        name = "memory.limit_in_bytes" if self.old else "memory.max"
        (self.path / name).write_text(str(limit))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def stat(self):
        pairs = (line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        return {name: int(value) for name, value in pairs}

    def remove(self):
        self.path.rmdir()


def write_files(folder, mib, files):
    paths = [folder / f"{mib}-{files}-{i}" for i in range(files)]
    for path in paths:
        if not path.exists():
            with open(path, "wb") as out:
                for _ in range(mib // files):
                    out.write(os.urandom(MIB))
        with open(path, "rb") as written:  # the next reader is charged for the pages
            os.fsync(written.fileno())
            os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return [str(path) for path in paths]


class Reader:
    """Reads every page of files in order, through the page cache."""

    def __init__(self, how, paths):
        self.how = how
        self.files = [open(path, "rb", buffering=0) for path in paths]
        self.block = 16 * MIB if how == "read-layer" else BUFFER
        self.buffer = bytearray(self.block)
        self.maps = []
        if how.startswith("mmap"):
            self.maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in self.files]
            for mapped in self.maps:
                if how in ADVICE:
                    mapped.madvise(ADVICE[how])

    def read(self, limit=1 << 62):
        for i, file in enumerate(self.files):
            size = min(limit, os.fstat(file.fileno()).st_size)
            limit -= size
            for offset in range(0, size, self.block):
                end = min(offset + self.block, size)
                if not self.maps:
                    os.preadv(file.fileno(), [memoryview(self.buffer)[:end - offset]], offset)
                    continue
                if self.how == "mmap-ahead" and end < size:
                    self.maps[i].madvise(mmap.MADV_WILLNEED, end, min(self.block, size - end))
                self.buffer[:end - offset] = self.maps[i][offset:end]  # touches each page


def counters():
    lines = (line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())
    faults = int(pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[9])
    return int(dict(lines)["read_bytes"]), faults


def child(case):
    other = bytearray(case["anonymous_mib"] * MIB)
    reader = Reader(case["how"], case["paths"])
    for _ in range(3 if case["warm_mib"] else 0):
        reader.read(case["warm_mib"] * MIB)
    for _ in range(case["passes"]):
        before = counters()
        reader.read()
        for page in range(0, len(other), mmap.PAGESIZE):
            other[page] = 1
        after = counters()
        print(json.dumps([now - then for now, then in zip(after, before)]), flush=True)
        sys.stdin.readline()  # the parent looks at the group


def measure(case, folder):
    case = {"files": 1, "anonymous_mib": 0, "warm_mib": 0, **case}
    case["paths"] = write_files(folder, case["file_mib"], case["files"])
    group = Group(case["limit_mib"] * MIB)
    try:
        process = subprocess.Popen([sys.executable, __file__, "--child", json.dumps(case)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
        passes, stats = [], [group.stat()]
        for line in process.stdout:
            passes.append(json.loads(line))
            stats.append(group.stat())
            process.stdin.write("\n")
            process.stdin.flush()
        if process.wait() != 0 or len(passes) != case["passes"]:
            sys.exit(f"page_cache: {case}: the reader ended with {process.returncode} after {len(passes)} passes")
    finally:
        group.remove()
    read = [bytes_read / MIB for bytes_read, _ in passes]
    last = read[-SETTLED:]
    refaults = [stat.get("workingset_refault_file", 0) * mmap.PAGESIZE / MIB for stat in stats[-SETTLED - 1:]]
    return {**case, "cache_mib": round(stats[-1]["cache" if group.old else "file"] / MIB, 1),
            "active_mib": round(stats[-1]["active_file"] / MIB, 1), "first_read_mib": round(read[0], 1),
            "read_mib": round(sum(last) / SETTLED, 1), "lowest_read_mib": round(min(last), 1),
            "highest_read_mib": round(max(last), 1), "major_faults": passes[-1][1],
            "refaulted_mib": round((refaults[-1] - refaults[0]) / SETTLED, 1),
            "passes_mib": " ".join(f"{mib:.0f}" for mib in read)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="/var/tmp", help="on the disk to be read; takes 1 GiB")
    parser.add_argument("--out", default="page_cache.csv")
    parser.add_argument("--only", help="a way of reading")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--case", help="a JSON object, instead of the cases")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(json.loads(args.child))
    chosen = [json.loads(args.case)] if args.case else [c for c in cases() if args.only in (None, c["how"])]
    with tempfile.TemporaryDirectory(prefix="tandem-page-cache-", dir=args.folder) as folder, \
            open(args.out, "w", newline="") as out:
        table = csv.DictWriter(out, FIELDS, extrasaction="ignore")
        table.writeheader()
        for case in chosen:
            row = measure({"passes": args.passes, **case}, pathlib.Path(folder))
            table.writerow(row)
            out.flush()
            print(" ".join(str(row[name]) for name in FIELDS), flush=True)


if __name__ == "__main__":
    main()
