"""Complete a run whose folder is ready: the rounds, then the summary. Every run uses it: new, resumed or federated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.engine.callbacks import Callback, RoundRecord
from zorba_core.engine.loop import LocalRounds, Rounds, run_rounds
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.records import RoundEntry
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import RunError
from zorba_core.runs.checkpoint import ROUNDS_APART, Checkpoint
from zorba_core.runs.memory_meter import MemoryMeter, memory_errors
from zorba_core.runs.replaying import records_of
from zorba_core.runs.summary import CountReports, summarise
from zorba_core.runs.trajectory import Trajectory
from zorba_core.runs.writer import RunWriter


@dataclass(frozen=True)
class Earlier:
    """What a run had done before this process resumed it; nothing for a new run."""

    rounds: Sequence[RoundEntry] = ()
    records: Sequence[RoundRecord] = ()
    resumed_after: Sequence[int] = ()  # rounds done at each resume, this one included

    @classmethod
    def of(cls, trajectory: Trajectory, settings: Settings) -> Earlier:
        resumed_after = (*trajectory.resumed_after, trajectory.rounds_done)
        return cls(trajectory.rounds, records_of(trajectory, settings), resumed_after)


def complete_run(
    path: Path,
    writer: RunWriter,
    rounds: Rounds,
    evaluation: Rows,
    callbacks: Sequence[Callback],
    *,
    earlier: Earlier | None = None,
    finish: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Train to the end and write the summary.

    Args:
        writer: of the run's folder; it is closed.
        rounds: the state after the ``earlier`` rounds.
        finish: called after the last round; what it returns is added to the summary.

    Raises:
        RunError: the run diverged; its folder keeps the metrics and has no summary.
    """
    settings, network, earlier = rounds.settings, rounds.network, earlier or Earlier()
    reports, meter = CountReports(rounds.allocation.num_clients, earlier.rounds), MemoryMeter(settings.device)
    try:
        for callback in callbacks:
            callback.on_start(path)
        listening: list[Callback] = [writer, reports]
        checkpoint = None
        if method_facts(settings.method).first_order:
            checkpoint = Checkpoint(path, network)
            listening.append(checkpoint)  # after the writer: the log knows of the weights before they are on disk
        elif isinstance(rounds, LocalRounds):
            listening.append(Checkpoint(path, network, ROUNDS_APART))
        meter.begin()
        with memory_errors():
            outcome = run_rounds(rounds, evaluation, [*listening, *callbacks], earlier.records)
        measured = meter.describe()
        added = finish()
        summary = summarise(
            network,
            rounds.allocation,
            settings,
            outcome,
            reports,
            measured,
            earlier.resumed_after,
        )
        writer.finish({**summary, **added})
        if checkpoint is not None and outcome.stopped_by != "interrupt":
            checkpoint.remove()
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk: the log has them too
            writer.flush()
        if isinstance(error, RunError):
            raise RunError(f"{error}; the metrics so far are in {path}") from None
        raise
    finally:
        writer.close()
