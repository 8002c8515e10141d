"""Counts of the messages between server and clients, for each kind of message and for a run. Imports no torch.

There are three counts.

- ``paper``: numbers ("parameters") by the paper's text. In every round each client gets Q seeds and Q averages and
  sends Q finite differences; it gets the P seeds once. FedZO and FedIT send all d parameters each way.
  (``notebooks/reproduction/counts.py`` has the numbers of the paper's Table II.)
- ``needed``: the fewest numbers that suffice. The paper writes one average a direction, but its weights a_mn / c_m
  depend on the block. Blocks with equal rows of A have equal averages, and are of one *kind*. The server sends either
  D x Q averages and, once, the kind of each of the M blocks; or the scalars of the clients that reported, at most
  N x Q, and, once, all of A, and each client averages. ``form`` is the smaller one. The P seeds are not sent, since
  every plan has its Q seeds. FedZO and FedIT send only the parameters of the blocks, because no others are trained.
- ``wire_bytes``: bytes of a compact form, which has numbers of fixed width after the round's number of four bytes.
  Flower's records and TLS add more. Scalars are float64, because every replica must apply the bits that are in the
  log; estimates and weights have the model's dtype.

    setup      M bits of the client's blocks, then the key of the form (see below); once
    plan       round, asked? (uint8), Q (uint16), Q seeds (uint32)
    report     round, loss (float64), Q finite differences (float64)
    averages   round, D x Q averages (float64), one row for each kind of block; key: M row numbers (uint16)
    scalars    round, N bits of who reported, Q finite differences of each (float64); key: the M x N bits of A
    dense      round, loss (float64), one number a parameter

Every client gets every plan and every aggregate, because its replica needs all updates.

Shapes: M blocks, N clients, Q directions of a round, D kinds of block.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from zorba_core.engine.parts import method_facts

# Bytes of a round's number, a scalar, a plan without seeds, a seed, and the row number of a kind of block.
_ROUND, _FLOAT, _PLAN, _SEED, _KIND = 4, 8, 7, 4, 2


Way = Literal["down", "up"]
Form = Literal["averages", "scalars", "dense"]


@dataclass(frozen=True)
class Message:
    """All messages of one kind in a run."""

    kind: str  # "setup", "plan", "report" or "aggregate"
    direction: Way
    messages: int
    paper: int  # numbers
    needed: int  # numbers
    wire_bytes: int


@dataclass(frozen=True)
class Communication:
    """The communication of a run."""

    method: str
    form: Form  # of the aggregate
    kinds_of_block: int  # D
    messages: tuple[Message, ...]

    def total(self, count: str, direction: str | None = None) -> int:
        """The sum of ``paper``, ``needed``, ``wire_bytes`` or ``messages``, over one direction or, if None, both."""
        return sum(getattr(m, count) for m in self.messages if direction in (None, m.direction))

    def describe(self) -> dict[str, Any]:
        """The content for a run's summary."""
        counts = ("paper", "needed", "wire_bytes", "messages")
        both = {way: {count: self.total(count, way) for count in counts} for way in ("up", "down")}
        facts = {"method": self.method, "form": self.form, "kinds_of_block": self.kinds_of_block}
        return {**facts, **both, "by_message": [asdict(message) for message in self.messages]}


def numbers_a_round(
    method: str, num_clients: int, num_blocks: int, num_directions: int, block_parameters: int
) -> tuple[int, int]:
    """Numbers sent in a round without compression, with one average for each block and direction: by each client that
    reports, and by the server to all clients (for the columns ``scalars_up`` and ``scalars_down``)."""
    facts = method_facts(method)
    if facts.exchanges != "scalars":
        return block_parameters, num_clients * block_parameters
    averages = num_blocks if facts.allocates else 1  # without an allocation all blocks have the same clients
    return num_directions, num_clients * (averages + 1) * num_directions


def kinds_of_block(A_MN: ArrayLike) -> int:
    """D: the number of different rows of A, except a row of zeros, whose block has no average."""
    A_MN = np.asarray(A_MN, bool)
    return len(np.unique(A_MN[A_MN.any(axis=1)], axis=0))


def run_communication(
    method: str,
    A_MN: ArrayLike,
    *,
    rounds: int,
    reports: int,
    usable_reports: int | None = None,
    num_directions: int,
    num_seeds: int = 0,
    parameters: int = 0,
    block_parameters: int = 0,
    bytes_per_number: int = 4,
) -> Communication:
    """Count a run.

    Args:
        reports: number of reports in all rounds (N x rounds if all clients take part).
        usable_reports: number of reports that entered an average; default: all.
        num_directions, num_seeds: Q and P.
        parameters, block_parameters: d of the whole model, and of its blocks; for FedZO and FedIT.
        bytes_per_number: bytes of a parameter.
    """
    A_MN, Q = np.asarray(A_MN, bool), num_directions
    num_blocks, num_clients = A_MN.shape
    aggregates = num_clients * rounds
    if method_facts(method).exchanges != "scalars":
        size = _ROUND + _FLOAT + block_parameters * bytes_per_number
        plan = Message("plan", "down", aggregates, 0, 0, aggregates * _PLAN)
        each = (parameters, block_parameters, size)
        up = Message("report", "up", reports, *(reports * numbers for numbers in each))
        down = Message("aggregate", "down", aggregates, *(aggregates * numbers for numbers in each))
        return Communication(method, "dense", 0, (plan, up, down))
    kinds, passed_on = kinds_of_block(A_MN), reports if usable_reports is None else usable_reports
    # For each form: numbers and bytes of a client's key, numbers and bytes of all aggregates.
    averages = num_blocks, num_blocks * _KIND, aggregates * kinds * Q, aggregates * (_ROUND + kinds * Q * _FLOAT)
    scalars = num_clients * passed_on * Q
    heads = aggregates * (_ROUND + _bits(num_clients))
    forms: dict[Form, tuple[int, int, int, int]] = {
        "averages": averages,
        "scalars": (A_MN.size, _bits(A_MN.size), scalars, heads + scalars * _FLOAT),
    }
    form = min(forms, key=lambda name: num_clients * forms[name][0] + forms[name][2])
    key, key_bytes, numbers, aggregate_bytes = forms[form]
    setup = (num_clients * each for each in (num_seeds, key, _bits(num_blocks) + key_bytes))
    plan, report = _PLAN + Q * _SEED, _ROUND + _FLOAT + Q * _FLOAT
    messages = (
        Message("setup", "down", num_clients, *setup),
        Message("plan", "down", aggregates, aggregates * Q, aggregates * Q, aggregates * plan),
        Message("report", "up", reports, reports * Q, reports * Q, reports * report),
        Message("aggregate", "down", aggregates, aggregates * Q, numbers, aggregate_bytes),
    )
    return Communication(method, form, kinds, messages)


def _bits(count: int) -> int:
    """Bytes that hold ``count`` bits."""
    return -(-count // 8)
