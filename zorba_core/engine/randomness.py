"""Random streams by name: the same purpose and key give the same stream in every process, independent of other draws.

Keys are hashed, never added or multiplied, so two streams are equal only if SHA-256 collides. (PyTorch's CPU generator
is not used: it keeps only the low 32 bits of a seed, and with thousands of seeds and dozens of blocks two keys would
probably share a stream.)
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np


def stream(purpose: str, *key: int) -> np.random.Generator:
    """A new generator for ``purpose`` and ``key``, e.g. ``stream("batch", run_seed, round_index, client)``."""
    name = "/".join(["zorba", purpose, *(str(int(part)) for part in key)])
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))


@functools.lru_cache(maxsize=8)
def shared_seeds(run_seed: int, count: int) -> np.ndarray:
    """The P seeds that all replicas of a run share, all different: (P,) uint32. Cached: do not change them."""
    return stream("shared-seeds", run_seed).choice(2**32, size=count, replace=False).astype(np.uint32)


def round_seeds(run_seed: int, round_index: int, seeds_P: np.ndarray, count: int) -> np.ndarray:
    """The seeds of round t, Q different ones of the shared seeds: (Q,) uint32."""
    return stream("round-seeds", run_seed, round_index).choice(seeds_P, count, replace=False)
