"""A compact form of every message, in bytes: fixed-width little-endian numbers behind a four-byte round.

What crosses a network in practice adds a transport's framing to it (Flower's records, TLS); this is the payload that
:mod:`zorba_core.planning.communication` weighs. Scalars are float64, because every replica must apply the same bits
that the log keeps; estimates and weights travel in the model's own dtype.

    setup      M bits of the client's own blocks, then what tells averages apart (see below); once
    plan       round, asked? (uint8), Q (uint16), Q seeds (uint32)
    report     round, loss (float64), Q finite differences (float64)
    averages   round, D x Q averages (float64), one row for each kind of block; setup has M row numbers (uint16)
    scalars    round, N bits of who reported, their Q finite differences each (float64); setup has the M x N bits of A
    dense      round, loss (float64), one number a parameter

Shapes: M blocks, N clients, Q directions of a round, D kinds of block, R clients that reported.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import ArrayLike

INDEX_BYTES = 4  # of one weight's place in the model, in a mask
SEED_BYTES = 2  # of one candidate's number among at most 2**16 shared seeds
_ROUND = struct.Struct("<I")
_PLAN = struct.Struct("<IBH")


def pack_plan(round_index: int, asked: bool, seeds_Q: ArrayLike) -> bytes:
    seeds_Q = np.asarray(seeds_Q, "<u4")
    return _PLAN.pack(round_index, asked, len(seeds_Q)) + seeds_Q.tobytes()


def pack_report(round_index: int, loss: float, rho_Q: ArrayLike) -> bytes:
    return _ROUND.pack(round_index) + np.array([loss, *np.asarray(rho_Q, float)], "<f8").tobytes()


def pack_averages(round_index: int, rho_bar_DQ: ArrayLike) -> bytes:
    return _ROUND.pack(round_index) + np.asarray(rho_bar_DQ, "<f8").tobytes()


def pack_scalars(round_index: int, reported_N: ArrayLike, rho_NQ: ArrayLike) -> bytes:
    reported_N = np.asarray(reported_N, bool)
    rho_RQ = np.asarray(rho_NQ, "<f8")[reported_N]
    return _ROUND.pack(round_index) + np.packbits(reported_N).tobytes() + rho_RQ.tobytes()


def pack_setup(own_M: ArrayLike, key: ArrayLike) -> bytes:
    """``key``: the M row numbers (integers) for averages, or A_MN (bool) for scalars."""
    key = np.asarray(key)
    rest = np.packbits(key).tobytes() if key.dtype == bool else key.astype("<u2").tobytes()
    return np.packbits(np.asarray(own_M, bool)).tobytes() + rest


def dense_size(num_numbers: int, bytes_per_number: int) -> int:
    """Bytes of a round, a loss and one number a parameter."""
    return _ROUND.size + 8 + num_numbers * bytes_per_number
