"""Keys of random choices: a function of the seed and the purpose, never of earlier draws."""

import hashlib


def key(seed: int, *address: str | int) -> int:
    """A 63-bit key for one purpose, such as ``key(seed, "init", "encoder.pooler.weight")``."""
    text = "\0".join([str(seed), *(f"{type(part).__name__}:{part}" for part in address)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
