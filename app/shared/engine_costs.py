"""What the engine itself needs of a scenario's fleet: true memory, and seconds a round. No Streamlit here.

Rates come from the file that ``ZORBA_CALIBRATION`` names (``zorba plan --calibration FILE`` writes one), else from the
benchmark that is stored with the project, and are then those of its machine.

Shapes: N clients, E points of a sweep.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from zorba_core.allocation import AllocationMetrics
from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.fleets import Fleet
from zorba_core.planning.memory import Workload
from zorba_core.planning.models import ModelSpec
from zorba_core.planning.shapes import ModelShape, model_shape
from zorba_core.runs.fleet_plan import ClientPlan, plan_modes, with_seconds
from zorba_core.runs.rates import Calibration, calibration_of, read_calibration
from zorba_core.runs.round_seconds import round_seconds

VARIABLE = "ZORBA_CALIBRATION"
_STORED = Path(__file__).resolve().parents[2] / "artifacts" / "benchmarks" / "plan.json"
DIRECTIONS_A_ROUND = 10  # Q of the paper's ZorBA
DIRECTION = "gaussian"


@functools.lru_cache(maxsize=2)
def _calibration(named: str | None) -> Calibration:
    if named:
        return read_calibration(Path(os.path.expanduser(named)))
    return stored_calibration(_STORED)


def stored_calibration(path: Path) -> Calibration:
    """The one that the benchmark measured.

    Raises:
        InvalidInputError: its file is damaged.
    """
    try:
        return calibration_of(read_sealed(path)["calibration"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, InvalidInputError) as error:
        raise InvalidInputError(
            f"{path}: the benchmark's rates cannot be read ({error}); restore the file from the repository, or: "
            "python -m tests.benchmarks.bench_plan"
        ) from None


def calibration() -> Calibration:
    """
    Raises:
        MissingDataError, InvalidInputError: ``ZORBA_CALIBRATION`` names no calibration.
    """
    return _calibration(os.environ.get(VARIABLE))


def whose_rates() -> str:
    """Where the rates were measured, for a caption."""
    if os.environ.get(VARIABLE):
        return f"the machine of the file that {VARIABLE} names"
    return "the machine of the project's benchmark; `zorba plan --calibration FILE` measures this one"


def load_of(workload: Workload) -> Load:
    """A client's round: the paper's number of directions."""
    return Load(workload.batch_size, workload.seq_len, DIRECTIONS_A_ROUND, workload.dtype)


def shape_of(model: ModelSpec) -> ModelShape:
    """
    Raises:
        InvalidInputError: a model of whose blocks nothing is known.
    """
    return model_shape(model.name)


def modes(fleet: Fleet, model: ModelSpec, workload: Workload, budget_N: np.ndarray) -> list[ClientPlan]:
    """How each client can hold the model: in memory, streamed, or not at all."""
    return plan_modes(fleet, shape_of(model), load_of(workload), budget_N)


def timed(
    plans: Sequence[ClientPlan], model: ModelSpec, workload: Workload, allocation: AllocationMetrics
) -> list[ClientPlan]:
    """The plans with seconds a round. A column of the allocation for each client of the plans."""
    able = [plan.fits for plan in plans]
    A_MN = allocation.A_MN[:, able]
    return with_seconds(plans, shape_of(model), load_of(workload), calibration(), direction=DIRECTION, A_MN=A_MN)


def seconds_of(
    plans: Sequence[ClientPlan], model: ModelSpec, workload: Workload, allocation: AllocationMetrics
) -> float:
    """Seconds a round of the slowest client under one allocation; NaN where a client cannot take part."""
    if not all(plan.fits for plan in plans):
        return float("nan")
    shape, load, rates = shape_of(model), load_of(workload), calibration()
    clients = zip(plans, allocation.blocks_held_N.tolist(), allocation.first_block_N.tolist(), strict=True)
    alike: dict[tuple[int | None, int, int], float] = {}  # the least speed of clients with an equal round
    for plan, held, first in clients:
        key = (plan.resident_blocks if plan.mode == "streamed" else None, held, first)
        alike[key] = min(plan.relative_speed, alike.get(key, np.inf))
    return max(
        round_seconds(
            shape,
            load,
            rates,
            direction=DIRECTION,
            active_blocks=held,
            forward_work=shape.num_blocks - first,
            resident_blocks=resident,
        ).total
        / speed
        for (resident, held, first), speed in alike.items()
    )


def slowest_seconds(
    plans: Sequence[ClientPlan], model: ModelSpec, workload: Workload, allocations: Iterable[AllocationMetrics]
) -> list[float]:
    """Seconds a round of the slowest client, for whom all wait, under each allocation; NaN where a client cannot take
    part. A round depends on a client's blocks by their number and the first of them: each pair is timed once."""
    if not all(plan.fits for plan in plans):
        return [float("nan") for _ in allocations]
    shape, load, rates = shape_of(model), load_of(workload), calibration()
    kinds = sorted({(plan.mode, plan.resident_blocks) for plan in plans})
    kind_N = np.array([kinds.index((plan.mode, plan.resident_blocks)) for plan in plans])
    speed_N = np.array([plan.relative_speed for plan in plans])
    M = shape.num_blocks
    table = np.full((len(kinds), M + 1, M), np.nan)
    for kind, (mode, resident) in enumerate(kinds):
        for held in range(1, M + 1):
            for first in range(M - held + 1):
                table[kind, held, first] = round_seconds(
                    shape,
                    load,
                    rates,
                    direction=DIRECTION,
                    active_blocks=held,
                    forward_work=M - first,
                    resident_blocks=resident if mode == "streamed" else None,
                ).total
    return [
        float((table[kind_N, allocation.blocks_held_N, allocation.first_block_N] / speed_N).max())
        for allocation in allocations
    ]
