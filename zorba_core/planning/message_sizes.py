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
from numpy.typing import ArrayLike, NDArray

from zorba_core.errors import InvalidInputError

INDEX_BYTES = 4  # of one weight's place in the model, in a mask
SEED_BYTES = 2  # of one candidate's number among at most 2**16 shared seeds
_ROUND = struct.Struct("<I")
_PLAN = struct.Struct("<IBH")


def pack_plan(round_index: int, asked: bool, seeds_Q: ArrayLike) -> bytes:
    seeds_Q = np.asarray(seeds_Q, "<u4")
    return _PLAN.pack(round_index, asked, len(seeds_Q)) + seeds_Q.tobytes()


def unpack_plan(message: bytes) -> tuple[int, bool, NDArray[np.uint32]]:
    _check(len(message) >= _PLAN.size, "plan")
    round_index, asked, count = _PLAN.unpack_from(message)
    _check(len(message) == _PLAN.size + 4 * count and asked < 2, "plan")
    return round_index, bool(asked), np.frombuffer(message, "<u4", offset=_PLAN.size)


def pack_report(round_index: int, loss: float, rho_Q: ArrayLike) -> bytes:
    return _ROUND.pack(round_index) + np.array([loss, *np.asarray(rho_Q, float)], "<f8").tobytes()


def unpack_report(message: bytes, num_directions: int) -> tuple[int, float, NDArray[np.float64]]:
    _check(len(message) == _ROUND.size + 8 * (1 + num_directions), "report")
    numbers = np.frombuffer(message, "<f8", offset=_ROUND.size)
    return _ROUND.unpack_from(message)[0], float(numbers[0]), numbers[1:]


def pack_averages(round_index: int, rho_bar_DQ: ArrayLike) -> bytes:
    return _ROUND.pack(round_index) + np.asarray(rho_bar_DQ, "<f8").tobytes()


def unpack_averages(message: bytes, num_kinds: int, num_directions: int) -> tuple[int, NDArray[np.float64]]:
    _check(len(message) == _ROUND.size + 8 * num_kinds * num_directions, "averages")
    rho_bar_DQ = np.frombuffer(message, "<f8", offset=_ROUND.size).reshape(num_kinds, num_directions)
    return _ROUND.unpack_from(message)[0], rho_bar_DQ


def pack_scalars(round_index: int, reported_N: ArrayLike, rho_NQ: ArrayLike) -> bytes:
    reported_N = np.asarray(reported_N, bool)
    rho_RQ = np.asarray(rho_NQ, "<f8")[reported_N]
    return _ROUND.pack(round_index) + np.packbits(reported_N).tobytes() + rho_RQ.tobytes()


def unpack_scalars(
    message: bytes, num_clients: int, num_directions: int
) -> tuple[int, NDArray[np.bool_], NDArray[np.float64]]:
    """(round, reported_N, rho_NQ with zeros for the silent)."""
    start = _ROUND.size + -(-num_clients // 8)
    _check(len(message) >= start, "scalars")
    bits = np.frombuffer(message[_ROUND.size : start], np.uint8)
    reported_N = np.unpackbits(bits, count=num_clients).astype(bool)
    _check(len(message) == start + 8 * int(reported_N.sum()) * num_directions, "scalars")
    rho_NQ = np.zeros((num_clients, num_directions))
    rho_NQ[reported_N] = np.frombuffer(message, "<f8", offset=start).reshape(-1, num_directions)
    return _ROUND.unpack_from(message)[0], reported_N, rho_NQ


def pack_setup(own_M: ArrayLike, key: ArrayLike) -> bytes:
    """``key``: the M row numbers (integers) for averages, or A_MN (bool) for scalars."""
    key = np.asarray(key)
    rest = np.packbits(key).tobytes() if key.dtype == bool else key.astype("<u2").tobytes()
    return np.packbits(np.asarray(own_M, bool)).tobytes() + rest


def dense_size(num_numbers: int, bytes_per_number: int) -> int:
    """Bytes of a round, a loss and one number a parameter."""
    return _ROUND.size + 8 + num_numbers * bytes_per_number


def _check(fits: bool, what: str) -> None:
    if not fits:
        raise InvalidInputError(f"a {what} message has a wrong length or content; it was cut short or is another's")
