"""How long ``zorba train`` will take here, before it is started: the way to its first round, rounds, evaluations.

Rounds are those of :func:`zorba_core.runs.round_seconds.process_seconds`; an evaluation is forward passes. What comes
before the first round (libraries, model, rows, the check of the settings) was measured once and is nearly the same for
every small model. Runs that ended on this machine correct the rest: ``pace_of`` says by how much.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.planning.engine_memory import EVALUATION_ROWS, Load
from zorba_core.planning.memory import Workload
from zorba_core.planning.methods import method_facts
from zorba_core.planning.shapes import ModelShape
from zorba_core.runs.rates import Calibration
from zorba_core.runs.round_seconds import process_seconds

START_SECONDS = 6.5  # until the rows are ready (artifacts/benchmarks/startup.json), one CPU thread
CHECK_SECONDS = 1.2  # of the settings, there
_PACES = 5  # runs that count
_PACE_BOUNDS = (0.2, 5.0)


@dataclass(frozen=True)
class RunEstimate:
    """Seconds of a run's parts. ``pace`` is how many times as long as counted runs take here."""

    start: float
    round: float
    evaluation: float
    rounds: int
    evaluations: int
    pace: float = 1.0

    @property
    def busy(self) -> float:
        """What comes before the first round is never quicker than measured."""
        return max(1.0, self.pace)

    @property
    def first_accuracy(self) -> float:
        """Seconds until the first accuracy is known."""
        return self.busy * self.start + self.pace * self.evaluation

    @property
    def total(self) -> float:
        return self.busy * self.start + self.pace * (self.rounds * self.round + self.evaluations * self.evaluation)


def estimate_run(
    shape: ModelShape,
    workload: Workload,
    calibration: Calibration,
    *,
    A_MN: NDArray[np.bool_],
    num_perturbations: int,
    rounds: int,
    eval_every: int,
    eval_rows: int,
    eval_len: float | None = None,
    direction: str = "gaussian",
    method: str = "zorba",
    estimator: str = "cohort",
    pace: float = 1.0,
) -> RunEstimate:
    """A run of ``zorba train`` with these settings, at the calibration's rates.

    Args:
        workload: its seq_len is the length of the longest row of a round: batches are cut to it.
        eval_rows: rows that an evaluation reads.
        eval_len: their mean length; rows of like length are read together. Default: as long as the longest.
        pace: of :func:`pace_of`.
    """
    load = Load(
        workload.batch_size,
        workload.seq_len,
        max(1, num_perturbations),
        workload.dtype,
        estimator=estimator,
        first_order=method_facts(method).first_order,
        signs=DIRECTIONS[direction].signs,
    )
    seconds = process_seconds(shape, load, calibration, direction=direction, A_MN=A_MN, method=method)
    calls, speed = calibration.block_rate(shape.block_parameters)

    def a_pass(length: float) -> float:  # of a row and block
        return length * (shape.block_parameters + length * shape.query) / speed

    pieces = -(-eval_rows // EVALUATION_ROWS)
    parts = replace(load, batch_size=EVALUATION_ROWS)
    evaluation = eval_rows * shape.num_blocks * a_pass(eval_len or workload.seq_len)
    evaluation += calls * shape.num_blocks * pieces * -(-EVALUATION_ROWS // parts.rows_at_once(shape.hidden))
    return RunEstimate(
        START_SECONDS + CHECK_SECONDS,
        seconds.total,
        evaluation,
        rounds,
        1 + -(-rounds // max(1, eval_every)),
        pace,
    )


def pace_of(ratios: Iterable[float], load: float = 0.0, cores: int = 1) -> float:
    """How many times as long as counted a run will take on this machine now.

    Args:
        ratios: of runs that ended here, newest first: seconds they took over seconds counted. The quickest of the
            latest five counts: the others had other work beside them.
        load: processes that want a core now, without the run.
        cores: of the machine.
    """
    latest = [ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0][:_PACES]
    own = float(np.clip(min(latest), *_PACE_BOUNDS)) if latest else 1.0
    return own * max(1.0, (load + 1.0) / max(1, cores))
