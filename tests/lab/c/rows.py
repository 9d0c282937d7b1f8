"""Tokenizers in C, compiled and called."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Tokenizer

from bertc.lab.c.tokenizer import tokenizer_parts

ERRORS = {"DAMAGED": 1, "NO_MEMORY": 2, "TOO_LONG": 3, "NOT_UTF8": 4}
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-g")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PIECES = [
    "[MASK]", "<mask>", "[SEP]", "</s>", "Quagga", "QuaggaQuagga", " ", "  ", "    ", "\n", " \n ",
    "\r\n", "``", "''", "'s", "'LL", "don't", "\u2581", "\u0120", "a", "12,000", "e\u0301", "鶏",
]  # fmt: skip
BLOCKS = [
    (0x20, 0x7F), (0x00, 0x20), (0x7F, 0x250), (0x300, 0x370), (0x370, 0x700), (0x900, 0xA00),
    (0xE00, 0xE80), (0x1100, 0x1200), (0xAC00, 0xAD00), (0x2000, 0x2070), (0x2460, 0x2500),
    (0x3040, 0x3100), (0x4E00, 0x4F00), (0xF900, 0xFB50), (0xFE00, 0x10000), (0x1D100, 0x1D800),
    (0x1F1E6, 0x1F700), (0xE0000, 0xE0200), (0x10000, 0x110000), (0x80, 0xD800),
]  # fmt: skip
"""First and end of ranges of code points whose characters are drawn next to one another."""
Row = tuple[int, list[int], list[int]]


def strange_texts(count: int, seed: int) -> list[str]:
    """Texts of random characters of all planes, and of what tokenizers treat as special."""
    random = Random(seed)

    def part() -> str:
        if random.random() < 0.3:
            return random.choice(PIECES)
        blocks = random.sample(BLOCKS, 2)
        drawn = (random.randrange(*random.choice(blocks)) for _ in range(random.randint(1, 6)))
        return "".join(chr(point) for point in drawn)

    return ["".join(part() for _ in range(random.randint(1, 6))) for _ in range(count)]


def compiled(folder: Path, tokenizer: Tokenizer, *flags: str, cut_left: bool = False) -> Path:
    """The program of a tokenizer, and its data next to it as ``.bin``."""
    source, data = tokenizer_parts(tokenizer.to_str(), cut_left)
    errors = ", ".join(f"{name} = {value}" for name, value in ERRORS.items())
    main = Path(__file__).with_name("rows.c").read_text()
    path, program = folder / "tokenizer.c", folder / "tokenizer"
    path.write_text(f"enum {{ {errors} }};\n{source}\n{main}")
    program.with_suffix(".bin").write_bytes(data)
    subprocess.run(["gcc", *STRICT, *flags, path, "-o", program], check=True)
    return program


def rows(
    program: Path, texts: Sequence[str | bytes | tuple[str, str]], most: int = 4096
) -> list[Row]:
    """Count or error, ids and segments of each text or pair."""
    sent, received, at = bytearray(), list[Row](), 0
    for text in texts:
        parts = text if isinstance(text, tuple) else (text,)
        written = [part.encode() if isinstance(part, str) else part for part in parts]
        sent += struct.pack("<2i", len(written[0]), len(written[1]) if written[1:] else -1)
        sent += b"".join(written)
    command = [program, program.with_suffix(".bin"), str(most)]
    got = subprocess.run(command, input=bytes(sent), stdout=subprocess.PIPE, check=True).stdout
    while at < len(got):
        (count,) = struct.unpack_from("<q", got, at)
        both = np.frombuffer(got, "<i4", 2 * max(0, count), at + 8).tolist()
        received.append((count, both[: len(both) // 2], both[len(both) // 2 :]))
        at += 8 + 4 * len(both)
    return received
