"""What a trajectory log's records hold (:mod:`zorba_core.runs.trajectory`), and their plain form for JSON.

Arrays are base64 of little-endian numbers: float64 values return exactly, those that are not numbers too.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from zorba_core.engine.reports import NOT_ASKED, REPORTED, SILENT, STATUSES

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


@dataclass(frozen=True, eq=False)
class RoundEntry:
    """One round: all that an update needs, and what the round's metrics are made of. Totals are since the start."""

    round: int  # 1 is the first
    seeds_Q: np.ndarray  # uint32
    rho_NQ: np.ndarray  # float64; a client that was not asked has zeros
    status_N: np.ndarray  # uint8, places in zorba_core.engine.reports.STATUSES
    loss_N: np.ndarray  # float64, F_n at the round's start
    allocation: str  # the first digits of the allocation's sha256
    lr: float
    mu: float
    seconds: float
    forward_passes: int
    scalars_up: int
    scalars_down: int
    backward_passes: int = 0
    rho_bar_MQ: np.ndarray | None = None  # float64; what was applied, where it need not be the plain average of rho_NQ

    @property
    def reported_N(self) -> np.ndarray:
        """Whose scalars entered the update."""
        return self.status_N == REPORTED

    @property
    def refused_N(self) -> np.ndarray:
        """Who reported what could not be used."""
        return (self.status_N > NOT_ASKED) & (self.status_N != SILENT)

    @property
    def train_loss(self) -> float:
        """Mean of F_n over the clients that reported."""
        return float(self.loss_N[self.reported_N].mean())


@dataclass(frozen=True)
class EvaluationEntry:
    """The model after ``round`` rounds. Its weights' fingerprint lets a replay prove itself."""

    round: int
    loss: float
    accuracy: float
    weights_sha256: str


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
    if record["rho_bar_MQ"] is None:
        del record["rho_bar_MQ"]
    for name, dtype in _ARRAYS.items():
        if name in record:
            record[name] = base64.b64encode(np.ascontiguousarray(record[name], dtype).tobytes()).decode("ascii")
    return record


def round_from_record(record: dict[str, Any], header: Header) -> RoundEntry:
    """
    Raises:
        KeyError, TypeError, ValueError: not a round of the header's clients and blocks.
    """
    for name, dtype in _ARRAYS.items():
        if name != "rho_bar_MQ" or name in record:
            record[name] = np.frombuffer(base64.b64decode(record[name], validate=True), dtype)
    N, Q = header.num_clients, len(record["seeds_Q"])
    if not len(record["loss_N"]) == len(record["status_N"]) == N:
        raise ValueError(f"it is not about {N} clients")
    if record["status_N"].max() >= len(STATUSES):
        raise ValueError("a client's status is unknown")
    record["rho_NQ"] = record["rho_NQ"].reshape(N, Q)
    if "rho_bar_MQ" in record:
        record["rho_bar_MQ"] = record["rho_bar_MQ"].reshape(header.num_blocks, Q)
    return RoundEntry(**record)
