"""What a run's log says of the blocks: energy and noise of each, from the clients' scalars alone. No torch, no model.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import os

from zorba_core.allocation import Allocation
from zorba_core.allocation.importance import RESAMPLES, Importance, ScalarRound, importance_of
from zorba_core.errors import InvalidInputError
from zorba_core.planning.methods import METHODS
from zorba_core.runs.folder import (
    TRAJECTORY,
    Request,
    Run,
    check_written_under,
    last_recorded_round,
    read_request,
    read_summary,
)
from zorba_core.runs.trajectory import Trajectory, lacking, read_trajectory


def importance(
    run: Run | str | os.PathLike[str],
    *,
    first_round: int = 1,
    last_round: int | None = None,
    resamples: int = RESAMPLES,
) -> Importance:
    """Energy G_m and noise s_m^2 of every block, with 95 % intervals, from a run's seeds and scalars.

    The run may be in progress. ``--vary permute`` and ``--replan`` make runs whose blocks can be told apart; in others,
    what always stands together is not identifiable.

    Args:
        run: a run, or its folder.
        first_round, last_round: the rounds to read; the last one that there is by default.
        resamples: of the bootstrap that makes the intervals.

    Raises:
        MissingDataError: no such run, or it has no log.
        InvalidInputError: its clients sent no scalars along shared directions, the log has
            no such rounds, or nobody reported in them; or its config is not the one that its log was written under.
    """
    path = run.path if isinstance(run, Run) else run
    request = read_request(path)
    _check(request)
    summary, recorded = read_summary(request.path), last_recorded_round(request.path)
    trajectory = read_trajectory(request.path / TRAJECTORY)
    if trajectory.header is not None:
        check_written_under(request, trajectory.header)  # the scales of its blocks count below
    lacks = lacking(trajectory, summary, recorded)
    if lacks and last_round is None:
        raise InvalidInputError(
            f"the end of the log of {request.path} is damaged: {lacks}; restore {TRAJECTORY}, or name the last round"
        )
    last = trajectory.rounds_done if last_round is None else last_round
    if not 1 <= first_round <= last <= trajectory.rounds_done:
        raise InvalidInputError(
            f"{request.path}: rounds {first_round} to {last} are not in its log ({TRAJECTORY}), which has "
            f"{trajectory.rounds_done}"
        )
    found = importance_of(scalar_rounds(trajectory, request.allocation)[first_round - 1 : last], resamples=resamples)
    scales = request.config.get("block_scales")
    return found if not scales else found.along_unit_directions([float(scale) for scale in scales.split(",")])


def scalar_rounds(trajectory: Trajectory, own: Allocation) -> list[ScalarRound]:
    """Every round of a log with its allocation. (Logs of federations that are older than that field name a new plan in
    a note.)"""
    rounds, plans = [], [note for note in trajectory.notes if note.what == "plan" and "budgets" in note.content]
    for entry in trajectory.rounds:
        A_MN = entry.A_MN
        if A_MN is None:
            made = [note for note in plans if note.after_round < entry.round]
            blocks = made[-1].content["blocks_per_client"] if made else None
            A_MN = own.A_MN if blocks is None else Allocation.from_blocks(blocks, own.num_blocks).A_MN
        rounds.append(ScalarRound(A_MN, entry.rho_NQ, entry.reported_N))
    return rounds


def _check(request: Request) -> None:
    method = request.config.get("method", "zorba")
    if method not in METHODS or METHODS[method].along != "shared" or METHODS[method].first_order:
        raise InvalidInputError(
            f"{request.path}: its method is {method}; importance is read of scalars along plain directions that all "
            "clients share, such as zorba's"
        )
