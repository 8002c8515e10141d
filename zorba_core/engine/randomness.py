"""Random streams by name: the same purpose and key give the same stream in every process, whatever was drawn before.

Keys are hashed, never added or multiplied, so two streams meet only if SHA-256 collides. (PyTorch's CPU generator is
not used: it keeps only the low 32 bits of a seed, and with thousands of seeds times dozens of blocks two keys would
be likely to share a stream.)
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(purpose: str, *key: int) -> np.random.Generator:
    """A generator of its own for ``purpose`` and ``key``, e.g. ``stream("batch", run_seed, round_index, client)``."""
    name = "/".join(["zorba", purpose, *(str(int(part)) for part in key)])
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))
