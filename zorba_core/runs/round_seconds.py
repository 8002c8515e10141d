"""Seconds of a round, from what a calibration says of a block (:mod:`zorba_core.runs.rates`).

A client's round is the base pass through all M blocks; for each of Q directions the blocks from its first active one
on, of which the active ones are moved and put back; then the update, which every replica computes for all blocks.
Streaming also reads and writes every block that does not stay in memory, once a round, while it computes.

A process that simulates many clients passes all their rows at once, those who activate a block apart from those who do
not. Where clients have directions of their own it takes one after another. Exact scalars go once forward and back, and
multiply each share's gradients with every direction; FedIT goes once forward and back.

Shapes: M blocks of D parameters, N clients, B rows of a client, L positions, Q directions, H hidden size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from zorba_core.planning.engine_memory import Load
from zorba_core.planning.gradient_plan import GradientPlan
from zorba_core.planning.methods import MethodFacts, method_facts
from zorba_core.planning.shapes import ModelShape
from zorba_core.runs.rates import BlockSeconds, Calibration, seconds_of_rows


@dataclass(frozen=True)
class RoundSeconds:
    """Seconds of a round by what they are spent on. Reading goes on while the rest is computed."""

    passes: float
    noise: float  # drawn, and weights moved along it and back
    update: float
    backward: float = 0.0
    reading: float = 0.0

    @property
    def computing(self) -> float:
        return self.passes + self.noise + self.update + self.backward

    @property
    def total(self) -> float:
        return max(self.computing, self.reading)

    @property
    def slowest_part(self) -> str:
        """What most of the time goes to."""
        if self.reading > self.computing:
            return "reading weights"
        parts = {"forward passes": self.passes, "noise": self.noise + self.update, "backward passes": self.backward}
        return max(parts, key=parts.__getitem__)


@dataclass(frozen=True)
class _Round:
    """What all rounds of a model and load are counted from."""

    shape: ModelShape
    load: Load
    block: BlockSeconds
    copy_bytes_per_second: float

    @classmethod
    def of(cls, shape: ModelShape, load: Load, calibration: Calibration, direction: str) -> _Round:
        return cls(shape, load, calibration.block(shape, load, direction), calibration.copy_bytes_per_second)

    @property
    def along(self) -> bool:
        """Whether weights stay where they are: low-rank directions of wide blocks go beside the rows."""
        return self.load.directions_at_once(self.shape.hidden) is not None

    def passes(self, rows: int, blocks: int) -> float:
        """Of rows through so many blocks, none of them the last."""
        return blocks * seconds_of_rows(self.block.passed, rows, self.load.rows_at_once(self.shape.hidden))

    def ends(self, rows: int) -> float:
        """Through the last block, and the loss."""
        return seconds_of_rows(self.block.ended, rows, self.load.rows_at_once(self.shape.hidden))

    def of_directions(self, seconds: Callable[[int], float], rows: int) -> float:
        """Of all Q; several may share a batch where no weight is moved."""
        together = self.load.directions_at_once(self.shape.hidden) or 1
        return self.load.num_perturbations / together * seconds(together * rows)

    def restarts(self, rows: int) -> float:
        """Every direction begins with the states that the base pass kept."""
        numbers = self.load.num_perturbations * rows * self.load.seq_len * self.shape.hidden
        return numbers * self.load.number_bytes / self.copy_bytes_per_second

    def alone(self, first: int, held: int) -> RoundSeconds:
        """A client on its own, without the update; it activates ``held`` blocks, from ``first`` on."""
        rows, M, Q = self.load.client_rows, self.shape.num_blocks, self.load.num_perturbations
        base, end = self.passes(rows, M - 1), self.ends(rows)
        if not held:
            return RoundSeconds(base + end, 0.0, 0.0)
        onward = M - 1 - first
        if self.load.estimator == "jvp":  # the last block as any other
            return RoundSeconds(base + end, 0.0, 0.0, Q * (onward + 1) * self.block.differentiated)
        noise = 0.0 if self.along else Q * held * self.block.moved
        directed = self.of_directions(lambda together: self.passes(together, onward) + self.ends(together), rows)
        return RoundSeconds(base + end + directed + self.restarts(rows), noise, 0.0)

    def together(self, A_MN: NDArray[np.bool_]) -> RoundSeconds:
        """All clients in the cohort's passes, without the update."""
        rows, M, Q = self.load.client_rows, self.shape.num_blocks, self.load.num_perturbations
        everyone = rows * A_MN.shape[1]
        started_MN = np.logical_or.accumulate(A_MN, axis=0)
        passes = self.passes(everyone, M - 1) + self.ends(everyone)
        for m in range(M):
            for clients in (A_MN[m].sum(), (started_MN[m] & ~A_MN[m]).sum()):
                taking_part = rows * int(clients)
                passes += self.of_directions(partial(self.passes, blocks=1) if m < M - 1 else self.ends, taking_part)
        moved = 0.0 if self.along else Q * int(A_MN.any(axis=1).sum()) * self.block.moved
        return RoundSeconds(passes + self.restarts(everyone), moved, 0.0)

    def backward(self, A_MN: NDArray[np.bool_], *, own_directions: bool) -> RoundSeconds:
        """All clients once forward and back, and every share's gradients along every direction."""
        rows, (M, N), Q = self.load.client_rows, A_MN.shape, self.load.num_perturbations
        shares = [[n] for n in range(N)] if own_directions else GradientPlan.of_load(self.shape, self.load, A_MN).shares
        draws = sum(int(A_MN[:, share].any(axis=1).sum()) for share in shares)
        # Of a client's blocks from the first active one on half a backward pass, and of the active ones the other half.
        back_MN = np.logical_or.accumulate(A_MN, axis=0)[:-1]
        back = (back_MN.sum() + A_MN[:-1].sum()) / 2 * self.block.differentiated
        forward = self.passes(rows * N, M - 1) + self.ends(rows * N)
        return RoundSeconds(forward, Q * draws * self.block.multiplied, 0.0, float(back))


def round_seconds(
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str,
    active_blocks: int,
    forward_work: int,
    method: str = "zorba",
    update_draws: int | None = None,
    resident_blocks: int | None = None,
) -> RoundSeconds:
    """A round of one client.

    Args:
        active_blocks: how many it has perturbed for each direction, its own.
        forward_work: blocks that a direction computes anew: M less its first active block.
        update_draws: blocks that the round's update draws noise for, summed over its directions
            (:func:`update_draws`); default: all M for each of Q.
        resident_blocks: as for :func:`zorba_core.planning.engine_memory.footprint`.
    """
    counted = _Round.of(shape, load, calibration, direction)
    if load.first_order:
        return _first_order(counted, 1)
    reading = 0.0
    if resident_blocks is not None:
        moved = max(0, shape.num_blocks - resident_blocks) * shape.block_parameters * load.number_bytes
        reading = moved / calibration.read_bytes_per_second + moved / calibration.write_bytes_per_second
    draws = load.num_perturbations * shape.num_blocks if update_draws is None else update_draws
    estimate = counted.alone(shape.num_blocks - forward_work, active_blocks)
    if method_facts(method).along == "picked":
        estimate = _in_local_steps(counted, estimate, 1, active_blocks)
    return replace(estimate, update=estimate.update + draws * counted.block.updated, reading=reading)


def process_seconds(
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str,
    A_MN: NDArray[np.bool_],
    method: str = "zorba",
) -> RoundSeconds:
    """A round of one process that simulates all clients of an allocation."""
    facts, clients = method_facts(method), A_MN.shape[1]
    counted = _Round.of(shape, replace(load, num_clients=clients), calibration, direction)
    if load.first_order:
        return _first_order(counted, clients)
    by_itself = facts.along in ("own", "picked")
    if load.estimator == "exact":
        estimate = counted.backward(A_MN, own_directions=by_itself)
    elif by_itself or load.estimator in ("reference", "jvp"):
        counted = _Round.of(shape, replace(load, num_clients=1), calibration, direction)
        estimate = _one_by_one(counted, A_MN)
    else:
        estimate = counted.together(A_MN)
    if facts.along == "picked":
        estimate = _in_local_steps(counted, estimate, clients, int(A_MN.sum()))
    draws = update_draws(facts, load.num_perturbations, A_MN)
    return replace(estimate, update=estimate.update + draws * counted.block.updated)


def _in_local_steps(counted: _Round, estimate: RoundSeconds, clients: int, held: int) -> RoundSeconds:
    """FedKSeed's: of Q steps each begins with the loss of its own rows, and moves the client's own blocks."""
    Q = counted.load.num_perturbations
    update = Q * held * counted.block.updated
    if counted.load.estimator == "exact":
        return replace(estimate, passes=Q * estimate.passes, backward=Q * estimate.backward, update=update)
    rows = counted.load.client_rows
    again = (Q - 1) * clients * (counted.passes(rows, counted.shape.num_blocks - 1) + counted.ends(rows))
    return replace(estimate, passes=estimate.passes + again, update=update)


def update_draws(facts: MethodFacts, num_perturbations: int, A_MN: NDArray[np.bool_]) -> int:
    """Blocks that a round's update draws noise for, summed over its directions: those of every client, where they are
    not shared."""
    moved = A_MN.sum() if facts.along in ("own", "picked") else A_MN.any(axis=1).sum()
    return num_perturbations * int(moved)


def _one_by_one(counted: _Round, A_MN: NDArray[np.bool_]) -> RoundSeconds:
    first_N = np.where(A_MN.any(axis=0), A_MN.argmax(axis=0), len(A_MN))
    alike = Counter(zip(first_N.tolist(), A_MN.sum(axis=0).tolist(), strict=True))
    passes = noise = backward = 0.0
    for (first, held), count in alike.items():
        own = counted.alone(first, held)
        passes, noise = passes + count * own.passes, noise + count * own.noise
        backward += count * own.backward
    return RoundSeconds(passes, noise, 0.0, backward)


def _first_order(counted: _Round, clients: int) -> RoundSeconds:
    """One forward and one backward pass, and a step of all weights: read, and written."""
    M = counted.shape.num_blocks
    step = 3 * M * counted.shape.trained_parameters * counted.load.number_bytes / counted.copy_bytes_per_second
    return RoundSeconds(
        counted.passes(counted.load.client_rows * clients, M - 1) + counted.ends(counted.load.client_rows * clients),
        0.0,
        step,
        clients * (M - 1) * counted.block.differentiated,
    )
