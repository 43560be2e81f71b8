"""Values that break readers, and changes of raw bytes that every mutator shares."""

from __future__ import annotations

import math
from random import Random

INTEGERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        4,
        5,
        7,
        8,
        16,
        17,
        64,
        127,
        128,
        255,
        256,
        1000,
        4096,
        32767,
        65535,
        65536,
        2**20,
        2**24,
    ),
    *(2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), -2, -3, -128),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-300, 3.4e38, 1e308, math.nan, math.inf, -math.inf)
TEXTS = (
    *("", " ", ".", "..", "/", "a", "x" * 3000, "\0", "\x1b[31m", "\n", "\r\n", "\u202e", "\ufeff", "é" * 50),
    *("../../../etc/passwd", "/etc/passwd", "/dev/zero", "/proc/self/mem", "C:\\x", "a/../b", "{0}", "%s%n"),
    *(
        "**/**/**/**/*",
        "[!-]*",
        "[[",
        "*" * 40,
        "(a+)+$",
        "NaN",
        "-1",
        "1e999",
        "9" * 400,
        "batch",
        "#0",
        "#-1",
    ),
)


def integer(random: Random) -> int:
    """A small number, an extreme one or any."""
    chance = random.random()
    if chance < 0.6:
        return random.choice(INTEGERS)
    if chance < 0.9:
        return random.randint(-3, 12)
    return random.getrandbits(random.choice((8, 16, 32, 63))) * random.choice((1, -1))


def number(random: Random) -> float:
    """A float: special, or of any size."""
    if random.random() < 0.7:
        return random.choice(FLOATS)
    return random.uniform(-2, 2) * 10.0 ** random.randint(-40, 38)


def changed_bytes(content: bytes, random: Random) -> bytes:
    """A copy with bytes flipped, overwritten, moved, inserted, removed or cut off."""
    mutant = bytearray(content or b"\0")
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at = random.randrange(len(mutant))
        choice = random.randrange(8)
        if choice <= 1:
            mutant[at] ^= 1 << random.randrange(8)
        elif choice == 2:
            mutant[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif choice == 3:
            mutant[at : at + 4] = (integer(random) & 0xFFFFFFFF).to_bytes(4, "little")
        elif choice == 4:
            other, size = random.randrange(len(mutant)), random.choice((1, 4, 8, 32))
            mutant[at : at + size] = mutant[other : other + size]
        elif choice == 5:
            mutant[at:at] = random.randbytes(random.choice((1, 2, 4, 8)))
        elif choice == 6:
            del mutant[at : at + random.choice((1, 2, 4, 16))]
        else:
            del mutant[at + 1 :]
        mutant = mutant or bytearray(b"\0")
    return bytes(mutant)
