#!/usr/bin/env python3
"""What llama.cpp reads in blocks of bytes: the golden files of tests/data/golden/blocks.

    make_goldens.py LIBRARIES [FOLDER]

LIBRARIES is a folder with llama.cpp's shared libraries, as of check_llama.py. Of each format of blocks a file, FORMAT.bin:
blocks of random bytes, with scales that are denormal, infinite, NaN or zero among them, then the numbers (f32) that ggml
decodes; of q4_1, q5_0 and q5_1 also FORMAT.encoded.bin, ggml's blocks of the numbers in normal.f32. Without FOLDER the files
of the tests are compared with what would be written; exit code 1 if one differs.
"""

import array
import ctypes
import pathlib
import random
import struct
import sys

# name: numbers and bytes of a block, where its halves stand
FORMATS = {"q8_0": (32, 34, [0]), "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
           "q2_k": (256, 84, [80, 82]), "q3_k": (256, 110, [108]), "q4_k": (256, 144, [0, 2]), "q5_k": (256, 176, [0, 2]),
           "q6_k": (256, 210, [208]), "iq4_nl": (32, 18, [0]), "iq4_xs": (256, 136, [0])}
ENCODED = ("q4_1", "q5_0", "q5_1")
NUMBERS = 4096
# Halves of every kind, for as many blocks; the others have random ones.
HALVES = (0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfc00, 0x7c00, 0x7e00, 0xfe01)


def ggml_name(name):
    return name[:-1] + "K" if name.endswith("_k") else name


def same(a, b):
    """The same numbers, any NaN for any NaN."""
    if len(a) != len(b):
        return False
    for x, y in zip(struct.unpack(f"<{len(a) // 4}I", a), struct.unpack(f"<{len(b) // 4}I", b)):
        if x != y and not (x & 0x7fffffff > 0x7f800000 and y & 0x7fffffff > 0x7f800000):
            return False
    return True


def files_of(ggml):
    made = {}
    for seed, (name, (numbers, size, halves)) in enumerate(FORMATS.items()):
        rng = random.Random(seed)
        blocks = bytearray()
        for i in range(NUMBERS // numbers):
            block = bytearray(rng.randbytes(size))
            for place, at in enumerate(halves):
                if i < len(HALVES):
                    block[at:at + 2] = struct.pack("<H", HALVES[(i + 3 * place) % len(HALVES)])
                elif i % 2:  # of a size that weights have
                    block[at:at + 2] = struct.pack("<e", rng.uniform(-0.01, 0.01))
            blocks += block
        out = (ctypes.c_float * NUMBERS)()
        decode = getattr(ggml, "dequantize_row_" + ggml_name(name))
        decode.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        decode(bytes(blocks), out, NUMBERS)
        made[name + ".bin"] = (bytes(blocks), bytes(out))
    rng = random.Random(100)
    normal = array.array("f", [rng.gauss(0, 1) * 2.0 ** rng.randrange(-20, 4) if i % 32 == 0 else rng.gauss(0, 1)
                               for i in range(1024)])
    for i in range(32):
        normal[64 + i] = 0.0
        normal[96 + i] = 0.5
    made["normal.f32"] = (b"", normal.tobytes())
    for name in ENCODED:
        numbers, size, _ = FORMATS[name]
        out = ctypes.create_string_buffer(1024 // numbers * size)
        encode = getattr(ggml, f"quantize_row_{name}_ref")
        encode.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        encode(normal.tobytes(), out, 1024)
        made[name + ".encoded.bin"] = (out.raw, b"")
    return made


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    library = next(pathlib.Path(sys.argv[1]).resolve().glob("libggml-base*.so*"), None)
    if library is None:
        sys.exit(f"{sys.argv[1]}: no libggml-base, expected llama.cpp's shared libraries")
    made = files_of(ctypes.CDLL(str(library)))
    if len(sys.argv) == 3:
        folder = pathlib.Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for name, (blocks, floats) in made.items():
            (folder / name).write_bytes(blocks + floats)
        return
    folder = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden" / "blocks"
    wrong = [name for name, (blocks, floats) in made.items()
             if not (have := (folder / name).read_bytes()).startswith(blocks) or not same(have[len(blocks):], floats)]
    print(f"{'BAD' if wrong else 'ok '} blocks: {len(made) - len(wrong)} of {len(made)} golden files as llama.cpp has them {wrong}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
