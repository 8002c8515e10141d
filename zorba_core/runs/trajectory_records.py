"""What a trajectory log's records hold (:mod:`zorba_core.runs.trajectory`), and their plain form for JSON.

Arrays are base64 of little-endian numbers: float64 values return exactly, NaN included.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from zorba_core.engine.records import RoundEntry
from zorba_core.engine.reports import STATUSES

VERSION = 1
_FORMAT = "zorba-trajectory"
_ARRAYS = {"seeds_Q": "<u4", "rho_NQ": "<f8", "status_N": "u1", "loss_N": "<f8", "rho_bar_MQ": "<f8"}


@dataclass(frozen=True)
class Header:
    """What the log belongs to."""

    config_sha256: str
    allocation_sha256: str
    base_weights_sha256: str
    num_clients: int
    num_blocks: int


@dataclass(frozen=True)
class Note:
    """What happened beside the rounds: a new plan, a client that joined, left or was refused. ``what`` names the kind,
    ``content`` is plain JSON."""

    after_round: int
    what: str
    content: dict[str, Any]


def header_to_record(header: Header) -> dict[str, Any]:
    return {"format": _FORMAT, "version": VERSION, **asdict(header)}


def header_from_record(record: dict[str, Any]) -> Header:
    """
    Raises:
        KeyError, TypeError, ValueError: not a header, or one of another version.
    """
    if record.pop("format") != _FORMAT:
        raise ValueError("not a trajectory log")
    version = record.pop("version")
    if version != VERSION:
        raise ValueError(f"version {version}; this program reads version {VERSION}")
    return Header(**record)


def round_to_record(entry: RoundEntry) -> dict[str, Any]:
    record = {name: getattr(entry, name) for name in RoundEntry.__dataclass_fields__}
    for name in ("rho_bar_MQ", "A_MN"):
        if record[name] is None:
            del record[name]
    if "A_MN" in record:  # a bit a cell
        record["A_MN"] = _to_text(np.packbits(record["A_MN"]), "u1")
    for name, dtype in _ARRAYS.items():
        if name in record:
            record[name] = _to_text(record[name], dtype)
    state = record.pop("method_state")
    if state:
        record["method_state"] = {
            name: [list(np.shape(value)), _to_text(value, "<f8")] for name, value in state.items()
        }
    return record


def round_from_record(record: dict[str, Any], header: Header) -> RoundEntry:
    """
    Raises:
        KeyError, TypeError, ValueError: not a round of the header's clients and blocks.
    """
    for name, dtype in _ARRAYS.items():
        if name != "rho_bar_MQ" or name in record:
            record[name] = _from_text(record[name], dtype)
    N, Q = header.num_clients, len(record["seeds_Q"])
    if not len(record["loss_N"]) == len(record["status_N"]) == N:
        raise ValueError(f"it is not about {N} clients")
    if record["status_N"].max() >= len(STATUSES):
        raise ValueError("a client's status is unknown")
    record["rho_NQ"] = record["rho_NQ"].reshape(N, Q)
    if "rho_bar_MQ" in record:
        record["rho_bar_MQ"] = record["rho_bar_MQ"].reshape(header.num_blocks, -1)
    if "A_MN" in record:
        cells = header.num_blocks * N
        packed = _from_text(record["A_MN"], "u1")
        if len(packed) != -(-cells // 8):
            raise ValueError(f"its allocation is not of {header.num_blocks} blocks and {N} clients")
        record["A_MN"] = np.unpackbits(packed, count=cells).astype(bool).reshape(header.num_blocks, N)
    if "method_state" in record:
        record["method_state"] = {
            name: _from_text(text, "<f8").reshape(shape) for name, (shape, text) in record["method_state"].items()
        }
    return RoundEntry(**record)


def _to_text(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode("ascii")


def _from_text(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)
