"""Which clients of a fleet can take part, in which mode, and how long a round takes: ``zorba plan``.

Memory is derived (:mod:`zorba_core.planning.engine_memory`), seconds follow from measured rates
(:mod:`zorba_core.runs.round_seconds`). A client holds the model in memory where it fits, streams it block after
block where that fits, with as many blocks kept as there is room for, and else cannot take part.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zorba_core.planning.engine_memory import (
    LEAST_RESIDENT,
    Footprint,
    Load,
    footprint,
    most_resident_blocks,
)
from zorba_core.planning.estimate_terms import Term
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import DTYPE_BYTES, GIB
from zorba_core.planning.methods import method_facts
from zorba_core.planning.shapes import ModelShape
from zorba_core.runs.rates import Calibration
from zorba_core.runs.round_seconds import RoundSeconds, process_seconds, round_seconds, update_draws

Mode = Literal["in-memory", "streamed", "cannot"]
# What a plan says of itself, beside its numbers.
MEASURED = (
    "seconds of the model's own block at its own length of rows, where that takes seconds and at most 1 GiB; else of "
    "OPT's blocks of several widths",
    "noise drawn and added to weights, and weights copied",
    "a file read from and written to the disk, bytes a second",
)
ASSUMED = (
    "every client computes as fast as the calibrated machine times its relative_speed (1 where the fleet has no such "
    "column), reads and writes its disk as fast as it, and has no other work",
    "rows are as long as seq_len; shorter ones take less memory and time",
    "streaming reads and writes while it computes",
    "where the model's own block was not measured, 16-bit weights compute as fast as float32",
    "sending scalars and waiting for the server take no time",
    "peak_gib is of tensors alone, without the process itself, a kernel's own buffers and an allocator's holes",
)


@dataclass(frozen=True)
class ClientPlan:
    """One client: whether the model fits, in which mode, and what a round costs it."""

    client: str
    vram_gib: float
    mode: Mode
    resident_blocks: int  # M in memory; kept while streaming; 0 where it cannot take part
    peak: Footprint  # of the mode; where it cannot take part, of the smallest streaming there is
    relative_speed: float
    budget_paper: int  # blocks that the paper's psi allows, 0 to M
    active_blocks: int = 0
    first_block: int = 0
    seconds: RoundSeconds | None = None
    would_fit: str = ""  # what would let it take part

    @property
    def fits(self) -> bool:
        return self.mode != "cannot"

    @property
    def seconds_per_round(self) -> float | None:
        return None if self.seconds is None else self.seconds.total / self.relative_speed

    def describe(self) -> dict[str, object]:
        return {
            "client": self.client,
            "vram_gib": self.vram_gib,
            "fits": self.fits,
            "mode": self.mode,
            "resident_blocks": self.resident_blocks,
            "peak_gib": self.peak.peak / GIB,
            "seconds_per_round": self.seconds_per_round,
            "active_blocks": self.active_blocks if self.fits else 0,
            "budget_paper": self.budget_paper,
            "relative_speed": self.relative_speed,
            "slowest_part": None if self.seconds is None else self.seconds.slowest_part,
            "would_fit": self.would_fit or None,
        }


def needs(shape: ModelShape, load: Load, method: str, **options: Any) -> Footprint:
    """:func:`zorba_core.planning.engine_memory.footprint` of these options, and what the method itself holds."""
    along, weights = method_facts(method).along, shape.num_blocks * shape.trained_parameters
    held = {
        "scaled": Term("always", "a scale of every weight", weights * load.number_bytes, "scaled_directions: scale_M"),
        "picked": Term("estimate", "weights before local steps", weights * load.kept_bytes, "fedkseed: before_M"),
    }
    return Footprint((*footprint(shape, load, **options).terms, *([held[along]] if along in held else [])))


def plan_modes(
    fleet: Fleet, shape: ModelShape, load: Load, budget_N: NDArray[np.int64], method: str = "zorba"
) -> list[ClientPlan]:
    """Each client's mode and memory. Time is not in it yet: that needs to know who activates what.

    Args:
        budget_N: whole blocks by the paper's psi, at least 0, for comparison.
    """
    in_memory = needs(shape, load, method)
    streams = not load.first_order and load.estimator == "cohort" and not shape.adapter_parameters and not load.widens
    streams = streams and method_facts(method).along in ("shared", "own")  # the others hold all blocks
    cures: dict[float, str] = {}
    streamed: dict[int, Footprint] = {}  # by resident blocks: clients share them
    plans = []
    speed_N = fleet.relative_speed_N
    for n, (name, capacity) in enumerate(zip(fleet.names, fleet.capacity_N_bytes, strict=True)):
        holds = in_memory.peak <= capacity
        resident = most_resident_blocks(shape, load, capacity) if streams and not holds else None
        if holds:
            mode, resident, peak = "in-memory", shape.num_blocks, in_memory
        elif resident is not None:
            if resident not in streamed:
                streamed[resident] = footprint(shape, load, resident_blocks=resident)
            mode, peak = "streamed", streamed[resident]
        else:
            mode, resident = "cannot", 0
            peak = footprint(shape, load, resident_blocks=LEAST_RESIDENT) if streams else in_memory
            if capacity not in cures:
                cures[capacity] = _what_would_fit(shape, load, float(capacity), peak, streams, method)
        plans.append(
            ClientPlan(
                client=name,
                vram_gib=float(capacity) / GIB,
                mode=mode,
                resident_blocks=resident,
                peak=peak,
                relative_speed=float(speed_N[n]),
                budget_paper=int(min(budget_N[n], shape.num_blocks)),
                would_fit=cures[capacity] if mode == "cannot" else "",
            )
        )
    return plans


def with_seconds(
    plans: Sequence[ClientPlan],
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str,
    A_MN: NDArray[np.bool_],
    method: str = "zorba",
) -> list[ClientPlan]:
    """The plans with what a round takes. ``A_MN`` has a column for each client that fits, in their order."""
    held_N, first_N, facts = A_MN.sum(axis=0), A_MN.argmax(axis=0), method_facts(method)
    draws = update_draws(facts, load.num_perturbations, A_MN)
    column, timed = 0, []
    for plan in plans:
        if not plan.fits:
            timed.append(plan)
            continue
        held, first = int(held_N[column]), int(first_N[column])
        column += 1
        seconds = round_seconds(
            shape,
            load,
            calibration,
            direction=direction,
            active_blocks=held,
            forward_work=shape.num_blocks - first,
            method=method,
            # Whose clients send estimates draws its own directions alone, for what it sends.
            update_draws=load.num_perturbations * held if facts.exchanges == "estimates" else draws,
            resident_blocks=plan.resident_blocks if plan.mode == "streamed" else None,
        )
        timed.append(replace(plan, active_blocks=held, first_block=first, seconds=seconds))
    return timed


def bottleneck(plans: Sequence[ClientPlan]) -> ClientPlan | None:
    """The client that the others wait for; None where nobody can take part."""
    able = [plan for plan in plans if plan.seconds_per_round is not None]
    return max(able, key=lambda plan: plan.seconds_per_round, default=None)


def alike(plans: Sequence[ClientPlan]) -> bool:
    """Whether all clients that can take part, two at least, take the same time for a round: nobody waits for one."""
    seconds = [plan.seconds_per_round for plan in plans if plan.seconds_per_round is not None]
    return len(seconds) > 1 and len(set(seconds)) == 1


def simulated(
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str,
    A_MN: NDArray[np.bool_],
    method: str = "zorba",
) -> tuple[Footprint, RoundSeconds]:
    """Memory and time of one process that simulates all clients of the allocation, as ``zorba train`` does."""
    seconds = process_seconds(shape, load, calibration, direction=direction, A_MN=A_MN, method=method)
    one_by_one = method_facts(method).along in ("own", "picked")
    together = replace(load, num_clients=1 if one_by_one else A_MN.shape[1])
    active_blocks = [int(A_MN.sum(axis=0).max())] if one_by_one else A_MN.sum(axis=0).tolist()
    return needs(shape, together, method, active_blocks=active_blocks, evaluates=True), seconds


def _what_would_fit(
    shape: ModelShape, load: Load, capacity: float, least: Footprint, streams: bool, method: str
) -> str:
    """What would let a client of that capacity take part, the smallest change first."""

    def fits(changed: Load) -> bool:
        resident = LEAST_RESIDENT if streams and not changed.widens else None
        return needs(shape, changed, method, resident_blocks=resident).peak <= capacity

    cures = []
    for name, value, words in (
        ("batch_size", load.batch_size, "batch size"),
        ("seq_len", load.seq_len, "sequence length"),
        ("num_perturbations", load.num_perturbations, "perturbations"),
    ):
        smaller = value // 2
        while smaller >= 1 and not fits(replace(load, **{name: smaller})):
            smaller //= 2
        if smaller >= 1:
            cures.append(f"{words} {smaller}")
    if DTYPE_BYTES[load.dtype] > 2 and fits(replace(load, dtype="bfloat16")):
        cures.append("bfloat16 weights")
    return " or ".join([f"{least.peak / GIB:.3f} GiB", *cures])
