#!/usr/bin/env python3
"""unwinding.py PROGRAM...: whether an exception finds its way out of every function of these programs; exit code 1 if not.

The unwinder looks a function up in .eh_frame_hdr, a table of addresses. GCC leaves entries of functions without code, and a linker
(lld 14) may keep such an entry in the place of a function at the same address: an exception that passes through that function then
ends the program. Reads x86-64 and AArch64 programs, whose tables are relative, of four bytes.
"""

import bisect
import re
import struct
import subprocess
import sys


def sections(program):
    """{name: (address, bytes)} of the unwinder's sections."""
    text = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    with open(program, "rb") as file:
        data = file.read()
    found = {}
    for name, address, offset, size in re.findall(r"\] (\.eh_frame\w*)\s+\w+\s+(\w+) (\w+) (\w+)", text):
        found[name] = (int(address, 16), data[int(offset, 16):int(offset, 16) + int(size, 16)])
    return found


def functions(address, frames):
    """{address of the entry: (address of the function, its bytes)} of .eh_frame."""
    found = {}
    at = 0
    while at + 8 <= len(frames):
        length, cie = struct.unpack_from("<II", frames, at)
        if length == 0:
            break
        if cie != 0:
            begin, size = struct.unpack_from("<iI", frames, at + 8)
            found[address + at] = (address + at + 8 + begin, size)
        at += 4 + length
    return found


def faults(program):
    found = sections(program)
    known = functions(*found[".eh_frame"])
    base, header = found[".eh_frame_hdr"]
    if header[:4] != b"\x01\x1b\x03\x3b":
        yield f"{program}: .eh_frame_hdr of form {header[:4].hex()}, expected 011b033b"
        return
    count = struct.unpack_from("<I", header, 8)[0]
    table = [struct.unpack_from("<ii", header, 12 + 8 * i) for i in range(count)]
    starts = [base + start for start, _ in table]
    for begin, size in known.values():
        at = slice(bisect.bisect_left(starts, begin), bisect.bisect_right(starts, begin))
        entries = [known[base + frame][1] for _, frame in table[at]]
        if size > 0 and (not entries or 0 in entries):
            yield f"{program}: {size} bytes at {begin:#x}: the table has {'an empty function' if entries else 'nothing'} there"


def main():
    wrong = [fault for program in sys.argv[1:] for fault in faults(program)]
    print("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
