"""Counts of the messages on the wire: for each kind of message, and over a run. No torch.

Three counts stand side by side.

- ``paper``: numbers ("parameters") by the paper's text. Q seeds and Q averages to each client and Q finite differences
  from it in every round, P seeds once; for FedZO and FedIT all d parameters each way. (What its Table II prints is
  another matter: :mod:`zorba_core.study.counts`.)
- ``needed``: numbers that the receiver cannot do without. The paper writes one average a direction, but its weights
  a_mn / c_m depend on the block, so there is one for each *kind* of block, blocks with equal rows of A being of one
  kind: D x Q averages and, once, the kind of each of the M blocks. Or the server passes on the scalars of the clients
  that reported, at most N x Q, and every client averages for itself, which takes all of A, once. The smaller is chosen
  and named (``form``). The P seeds are never sent, since every plan names its Q. FedZO and FedIT send the parameters
  of the blocks only, for nothing else is trained.
- ``wire_bytes``: of a compact form, fixed-width numbers behind a round of four bytes. A transport's framing (Flower's
  records, TLS) comes on top. Scalars are float64, because every replica must apply the same bits that the log keeps;
  estimates and weights travel in the model's own dtype.

    setup      M bits of the client's own blocks, then what tells averages apart (see below); once
    plan       round, asked? (uint8), Q (uint16), Q seeds (uint32)
    report     round, loss (float64), Q finite differences (float64)
    averages   round, D x Q averages (float64), one row for each kind of block; setup has M row numbers (uint16)
    scalars    round, N bits of who reported, their Q finite differences each (float64); setup has the M x N bits of A
    dense      round, loss (float64), one number a parameter

Every client gets every plan and every aggregate, asked or not, for it must follow the weights.

Shapes: M blocks, N clients, Q directions of a round, D kinds of block.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from zorba_core.engine.parts import method_facts

# Bytes of a round, a scalar, a plan without seeds, a seed, and the row number of a kind of block.
_ROUND, _FLOAT, _PLAN, _SEED, _KIND = 4, 8, 7, 4, 2


@dataclass(frozen=True)
class Message:
    """One kind of message over a run; counts are of all of them together."""

    kind: str  # "setup", "plan", "report" or "aggregate"
    direction: Literal["down", "up"]
    messages: int
    paper: int  # numbers
    needed: int  # numbers
    wire_bytes: int


@dataclass(frozen=True)
class Communication:
    """The communication of a run."""

    method: str
    form: Literal["averages", "scalars", "dense"]  # of the aggregate
    kinds_of_block: int  # D
    messages: tuple[Message, ...]

    def total(self, count: str, direction: str | None = None) -> int:
        """``count`` is ``paper``, ``needed``, ``wire_bytes`` or ``messages``; ``direction`` up, down or both."""
        return sum(getattr(m, count) for m in self.messages if direction in (None, m.direction))

    def describe(self) -> dict[str, Any]:
        """As a run's summary keeps it."""
        counts = ("paper", "needed", "wire_bytes", "messages")
        both = {way: {count: self.total(count, way) for count in counts} for way in ("up", "down")}
        facts = {"method": self.method, "form": self.form, "kinds_of_block": self.kinds_of_block}
        return {**facts, **both, "by_message": [asdict(message) for message in self.messages]}


def numbers_a_round(
    method: str, num_clients: int, num_blocks: int, num_directions: int, block_parameters: int
) -> tuple[int, int]:
    """Numbers sent in a round without compression, an average for each block and direction: up by each client that
    reports, and down to all clients (the columns ``scalars_up`` and ``scalars_down``)."""
    facts = method_facts(method)
    if facts.exchanges != "scalars":
        return block_parameters, num_clients * block_parameters
    averages = num_blocks if facts.allocates else 1  # all blocks have the same clients
    return num_directions, num_clients * (averages + 1) * num_directions


def kinds_of_block(A_MN: ArrayLike) -> int:
    """D: how many different rows A has. A block that nobody activates has no average."""
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
        reports: that clients sent in all rounds together (N x rounds when all take part).
        usable_reports: of them, those that entered an average; default: all.
        num_directions, num_seeds: Q and P.
        parameters, block_parameters: d of the whole model, and of its blocks; for FedZO and FedIT.
        bytes_per_number: of a parameter on the wire.
    """
    A_MN, Q = np.asarray(A_MN, bool), num_directions
    num_blocks, num_clients = A_MN.shape
    aggregates = num_clients * rounds
    if method_facts(method).exchanges != "scalars":
        size = _ROUND + _FLOAT + block_parameters * bytes_per_number
        plan = Message("plan", "down", aggregates, 0, 0, aggregates * _PLAN)
        up, down = (
            Message(kind, way, count, count * parameters, count * block_parameters, count * size)
            for kind, way, count in (("report", "up", reports), ("aggregate", "down", aggregates))
        )
        return Communication(method, "dense", 0, (plan, up, down))
    kinds, passed_on = kinds_of_block(A_MN), reports if usable_reports is None else usable_reports
    # Of either form: numbers and bytes of what each client needs once, numbers and bytes of all aggregates.
    averages = num_blocks, num_blocks * _KIND, aggregates * kinds * Q, aggregates * (_ROUND + kinds * Q * _FLOAT)
    scalars = num_clients * passed_on * Q
    heads = aggregates * (_ROUND + _bits(num_clients))
    forms = {"averages": averages, "scalars": (A_MN.size, _bits(A_MN.size), scalars, heads + scalars * _FLOAT)}
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
    """Bytes of so many bits."""
    return -(-count // 8)
