"""Experiments: settings x seeds, one row for each evaluation, one Parquet table for each experiment.

A plan (``plans.py``) has cells, and a cell has arms. Trials choose the rate of each arm on a grid that grows until the
best rate has a worse one on either side. Then the arm's seeds run at that rate. Runs in the table are skipped and
interrupted runs resume, so the same call continues a sweep after any stop, from the table alone.

    artifacts/experiments/NAME.parquet   the table (:data:`COLUMNS`), tracked
    artifacts/experiments/work/NAME/     run folders, each named by the hash of its config; not tracked, and removed
                                         when the run is in the table

Processes can sweep different experiments at the same time; an experiment has one at a time.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from notebooks.reproduction.coupling import coupled_noise, direction_coupling
from notebooks.reproduction.frames import where
from zorba_core.allocation import Allocation
from zorba_core.engine.communication import run_communication
from zorba_core.engine.course import Course
from zorba_core.engine.parts import method_facts
from zorba_core.errors import InvalidInputError, MissingDataError, RunError, ZorbaError
from zorba_core.files import fingerprint, to_json, write_json, write_parquet

COMMAND = "python -m notebooks.reproduction"
FOLDER, SCRATCH = Path("artifacts/experiments"), Path("artifacts/experiments/work")
STEP = 2**0.5  # between two rates of a grid, where a cell gives none
MOST_RATES = 7  # of one arm; a best rate on the edge of so many is reported as such
MEASURES: Mapping[str, Callable[[Allocation], float]] = {  # of an allocation, by column
    "lambda": attrgetter("bias_lambda"),
    "V": attrgetter("mean_inverse_popularity"),
    "E": coupled_noise,
    "D": direction_coupling,
    "N_eff": attrgetter("effective_clients"),
    "T": attrgetter("total_blocks"),
    "min_c": attrgetter("min_popularity"),
}
COLUMNS: Mapping[str, str] = {
    "experiment": "string",
    "arm": "string",
    "placebo_of": "string",  # the arm that is equal in theory; empty: no placebo
    "role": "string",  # "trial": chooses a rate; "measure": counts as a result
    "base": "string",  # the base model
    "task": "string",
    "num_clients": "int64",
    "alpha": "float64",  # of the Dirichlet division of rows
    "seed": "int64",
    "lr": "float64",  # NaN: auto
    "rounds": "int64",  # of the whole run
    "round": "int64",  # of this evaluation; 0: the base model
    "accuracy": "float64",
    "loss": "float64",  # nats
    "forward_passes": "int64",  # of one client's batch, that real clients compute, since the start
    "backward_passes": "int64",
    "bytes": "float64",  # on the wire, up and down, since the start
    "psi_gib": "float64",  # VRAM of all clients by the paper's model
    **dict.fromkeys(MEASURES, "float64"),
    "difference_error": "float64",  # relative error of finite differences at the run's mu, before training
    "update_lost": "float64",  # share of a round's step that float32 weights lose to rounding, before training
    "status": "string",  # of the run: "finished"; "returned": a loss far above the first one sent it back; "diverged":
    # and its result is the base model
    "seconds": "float64",  # since the start, evaluations not counted
    "weights_sha256": "string",  # after this round; empty where the log has none
    "config_sha256": "string",
    "config": "string",  # JSON, enough to repeat the run
    "commit": "string",  # of this repository; "+" where the checkout had changes
}


class BusyError(RunError):
    """Another process sweeps the experiment."""


@dataclass(frozen=True)
class Arm:
    """One side of a comparison within a cell: runs that differ only in their seed."""

    name: str
    matrix: Callable[[int], Allocation] | None = None  # by seed; None: the method trains every block
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of Settings that replace the cell's
    lr: float | str = 1e-2  # the middle of the grid; the rate itself, or "auto", where there are no trials
    placebo_of: str = ""
    rate_of: str = ""  # the arm whose trials decide its rate; empty: its own


@dataclass(frozen=True)
class Cell:
    """One base model on one task with one fleet: the sample of a claim about several."""

    base: str
    task: str
    num_clients: int
    settings: Mapping[str, Any]  # fields of Settings; ``rounds`` among them
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    trial_seeds: tuple[int, ...] = (1000, 1001)  # if empty, every arm uses its own lr
    prompt: str = ""  # instead of the task's own
    label_words: tuple[str, ...] = ()
    alpha: float = 1.0
    rate_step: float = STEP  # between two rates of the grid
    near: float = 0.0  # nats: the lowest rate whose trials are within it of the best ones is taken
    target: float = math.nan  # nats: the loss that counts as reached


@dataclass(frozen=True)
class Plan:
    """A question and the runs that answer it, written down before they were made."""

    name: str
    question: str
    cells: tuple[Cell, ...]
    target: float = 0.75  # accuracy that counts as reached
    margin: float = 0.0  # nats of late loss that count as no difference


@dataclass(frozen=True)
class PlannedRun:
    """One run: ``config`` decides its bits, the other fields label its rows."""

    experiment: str
    arm: Arm
    role: str
    config: Mapping[str, Any]

    @property
    def sha256(self) -> str:
        return fingerprint(self.config)

    def __str__(self) -> str:
        at = self.config
        seed, lr = at["settings"]["seed"], at["settings"]["lr"]
        return f"{self.experiment} {at['base']} {at['task']} {self.arm.name} {self.role} seed {seed} lr {lr}"


def run_plan(
    plan: Plan,
    *,
    folder: str | os.PathLike[str] = FOLDER,
    scratch: str | os.PathLike[str] = SCRATCH,
    most: int | None = None,
    until: float = math.inf,
    notice: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> pd.DataFrame:
    """Make the missing runs of ``plan``, at most ``most``, and return its table. Each finished run is written at once.

    Args:
        until: no run begins after this time, in seconds of ``time.time()``.

    Raises:
        RunError: Ctrl-C, after the current round.
        BusyError: another process sweeps this experiment.
        InvalidInputError, MissingDataError: a run cannot be made here.
    """
    from zorba_core.runs.load import rows_reused

    scratch = Path(scratch) / plan.name
    with _alone(scratch), rows_reused():
        table, made = read_table(plan.name, folder, missing_ok=True), 0
        while (todo := missing(plan, table)) and (most is None or made < most) and time.time() < until:
            notice(f"{time.strftime('%H:%M:%S')} {plan.name}: at least {len(todo)} runs are missing; next: {todo[0]}")
            rows = run_one(todo[0], scratch)
            table = pd.concat([table, rows], ignore_index=True) if len(table) else rows
            write_table(table, plan.name, folder)
            shutil.rmtree(scratch / todo[0].sha256[:20], ignore_errors=True)
            made += 1
    return table


def missing(plan: Plan, table: pd.DataFrame) -> list[PlannedRun]:
    """Planned runs that are not in the table yet, in order. An arm's measured runs are included once its trials have
    decided its rate."""
    done = set(table["config_sha256"])
    unique: dict[str, PlannedRun] = {}
    for one in planned_runs(plan, table):
        unique.setdefault(one.sha256, one)  # a placebo can draw its arm's matrix: then the arm's run counts for both
    return [one for sha256, one in unique.items() if sha256 not in done]


def planned_runs(plan: Plan, table: pd.DataFrame) -> Iterator[PlannedRun]:
    """Every run of the plan so far: for each cell the trials, then the arms, seed by seed."""
    for cell in plan.cells:
        tried = [arm for arm in cell.arms if not arm.rate_of] if cell.trial_seeds else []
        rates = {arm.name: rates_tried(plan, cell, arm, table) for arm in tried}
        for seed in cell.trial_seeds:
            for arm in tried:
                yield from (planned_run(plan, cell, arm, "trial", seed, lr) for lr in rates[arm.name])
        best = {arm.name: best_rate(plan, cell, arm, table) for arm in cell.arms if not arm.rate_of}
        for seed in cell.seeds:
            for arm in cell.arms:
                lr = best[arm.rate_of or arm.name]
                if lr is not None:
                    yield planned_run(plan, cell, arm, "measure", seed, lr)


def planned_run(plan: Plan, cell: Cell, arm: Arm, role: str, seed: int, lr: float | str) -> PlannedRun:
    """The run of an arm with this seed and rate."""
    settings = {**cell.settings, **arm.settings, "seed": seed, "lr": lr}
    if role == "trial":
        settings["eval_every"] = settings["rounds"]  # only the end of a trial counts
    config = {"base": cell.base, "task": cell.task, "num_clients": cell.num_clients, "alpha": cell.alpha}
    config |= {"prompt": cell.prompt, "label_words": list(cell.label_words), "settings": dict(sorted(settings.items()))}
    if arm.matrix is not None:
        config["blocks_per_client"] = arm.matrix(seed).blocks_per_client
    return PlannedRun(plan.name, arm, role, config)


def rates_tried(plan: Plan, cell: Cell, arm: Arm, table: pd.DataFrame) -> list[float]:
    """The grid of an arm so far: three rates around its middle, and one more beyond an edge while the edge is best."""
    step, middle = cell.rate_step, float(arm.lr)
    grid = [_rounded(middle * step**power) for power in (-1, 0, 1)]
    while len(grid) < MOST_RATES:
        loss = trial_losses(plan, cell, arm, grid, table)
        if len(loss) < len(grid):
            break  # some trials of this grid have not run yet
        best = min(grid, key=lambda lr: loss[lr])
        if best == grid[0]:
            grid.insert(0, _rounded(grid[0] / step))
        elif best == grid[-1]:
            grid.append(_rounded(grid[-1] * step))
        else:
            break
    return grid


def trial_losses(plan: Plan, cell: Cell, arm: Arm, grid: Iterable[float], table: pd.DataFrame) -> dict[float, float]:
    """Mean late loss over the trial seeds, for each rate whose trials have all ended; infinite if one diverged."""
    losses = {}
    for lr in grid:
        wanted = [planned_run(plan, cell, arm, "trial", seed, lr).sha256 for seed in cell.trial_seeds]
        rows = where(table, table["config_sha256"].isin(wanted))
        if len(set(rows["config_sha256"])) == len(wanted):
            late = late_values(rows)
            losses[lr] = float(np.mean(late["loss"])) if set(late["status"]) == {"finished"} else float("inf")
    return losses


def best_rate(plan: Plan, cell: Cell, arm: Arm, table: pd.DataFrame) -> float | str | None:
    """The lowest rate whose trials end within ``cell.near`` of the lowest late loss; None until all have ended."""
    if not cell.trial_seeds:
        return arm.lr
    grid = rates_tried(plan, cell, arm, table)
    losses = trial_losses(plan, cell, arm, grid, table)
    if len(losses) < len(grid):
        return None
    return next(lr for lr in grid if losses[lr] <= min(losses.values()) + cell.near)


def late_values(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each run: mean ``loss`` and ``accuracy`` of the evaluations in the last third of its rounds, with the
    other columns of its first row.

    A run never returns a model that is worse than the base model (:mod:`zorba_core.engine.course`). So a loss above the
    base model's counts as the base model's, and so does a run without a late evaluation.
    """
    ordered = table.sort_values("round", kind="stable")
    first = ordered.drop_duplicates("config_sha256").set_index("config_sha256")
    late = where(table, table["round"] > table["rounds"] * 2 / 3)
    base = cast(pd.Series, first["loss"]).rename("base_loss")
    late = late.join(base, on="config_sha256").assign(loss=lambda rows: rows[["loss", "base_loss"]].min(axis=1))
    means = cast(pd.DataFrame, late.groupby("config_sha256")[["loss", "accuracy"]].mean())
    joined = first.drop(columns=["loss", "accuracy", "round"]).join(means)
    joined["loss"] = joined["loss"].fillna(base)
    return joined.reset_index()


def _rounded(lr: float) -> float:
    return float(f"{lr:.3g}")


def run_one(planned: PlannedRun, scratch: Path) -> pd.DataFrame:
    """The table's rows of one run, which is started, resumed, or only read if it has ended.

    Raises:
        RunError: Ctrl-C.
        ZorbaError: the run cannot be made here.
    """
    from transformers.utils import logging as transformers_logging

    from zorba_core.runs.terminal import Interrupt

    transformers_logging.disable_progress_bar()
    folder, interrupt = scratch / planned.sha256[:20], Interrupt()
    try:
        with interrupt.listening():
            run = _existing_run(folder)
            if run is None:
                run = make_run(planned.config, folder, callbacks=[interrupt])
            elif not run.finished and not (folder / "diverged.json").is_file():
                run = run.resume(callbacks=[interrupt], quiet=True)
    except (KeyboardInterrupt, RunError) as error:
        if isinstance(error, KeyboardInterrupt) or str(error).startswith("interrupted"):
            raise RunError("stopped; finished runs are kept, and the same command continues") from None
        write_json(folder / "diverged.json", {"reason": str(error)})
        run = _existing_run(folder)
    returned = any(done.diverged or done.after is not None for done in run.rounds)
    lost = (folder / "diverged.json").is_file() or (returned and Course(run.rounds).final == 0)
    return rows_of(planned, run, "diverged" if lost else "returned" if returned else "finished")


def make_run(config: Mapping[str, Any], folder: str | os.PathLike[str], callbacks: Iterable[Any] = ()) -> Any:
    """Make the run of a row's ``config`` (as a dictionary) in a new folder below ``folder``."""

    from zorba_core.data.task import Overrides
    from zorba_core.engine.settings import Settings
    from zorba_core.runs.train import fine_tune

    settings = Settings(**config["settings"])
    allocates = method_facts(settings.method).allocates
    matrix = _allocation(config) if allocates else None
    return fine_tune(
        matrix,
        num_clients=None if allocates else config["num_clients"],
        dataset=config["task"],
        overrides=Overrides(prompt=config["prompt"], label_words=config["label_words"] or ()),
        model=config["base"],
        settings=settings,
        alpha=config["alpha"],
        threads=1,  # the bits in the table are those of one thread
        runs_folder=folder,
        name="run",
        callbacks=list(callbacks),
        force=True,  # trials include rates that are too large
        quiet=True,
    )


def _allocation(config: Mapping[str, Any]) -> Allocation:
    """The run's matrix; every block of every client where the method allocates none."""
    from zorba_core.runs.load import read_spec

    M, N = read_spec(config["base"]).num_blocks, config["num_clients"]
    return Allocation.from_blocks(config.get("blocks_per_client") or [list(range(M))] * N, M)


def _existing_run(folder: Path) -> Any:
    """The run in this folder; None if there is none. A run that ended before its first round is removed."""
    from zorba_core.runs import Run

    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_dir():
            try:
                run = Run.read(path)
            except ZorbaError:
                run = None
            if run is not None and run.rounds:
                return run
            shutil.rmtree(path)
    return None


def rows_of(planned: PlannedRun, run: Any, status: str) -> pd.DataFrame:
    """The table's rows of a run that has ended."""
    from zorba_core.runs.load import read_spec
    from zorba_core.vram import GIB, Workload, psi_client_bytes, psi_model_bytes

    config, settings, allocation = planned.config, run.settings, run.allocation
    facts, spec = method_facts(settings.method), read_spec(config["base"])
    workload = Workload(batch_size=settings.batch_size, seq_len=settings.seq_len)
    psi_N = psi_client_bytes(spec, workload, allocation.blocks_held_N)
    if facts.first_order:
        psi_N = psi_N + psi_model_bytes(spec, workload)  # the gradients
    environment, N = run.environment, config["num_clients"]
    labels = {
        "experiment": planned.experiment,
        "arm": planned.arm.name,
        "placebo_of": planned.arm.placebo_of,
        "role": planned.role,
        **{name: config[name] for name in ("base", "task", "num_clients", "alpha")},
        **{name: getattr(settings, name) for name in ("seed", "rounds")},
        "lr": math.nan if settings.lr == "auto" else settings.lr,
        "psi_gib": float(psi_N.sum()) / GIB,
        **{column: float(measure(allocation)) for column, measure in MEASURES.items()},
        **_measured_before(environment),
        "status": status,
        "config_sha256": planned.sha256,
        "config": to_json(config),
        "commit": f"{environment['git_commit']}{'+' if environment['git_dirty'] else ''}",
    }
    sha256_of = {done.round: done.weights_sha256 or "" for done in run.rounds}
    block_parameters = max((done.scalars_up // N for done in run.rounds), default=0)  # in a dense report
    rows = []
    for point in run.evaluations.itertuples():
        sent = run_communication(
            settings.method,
            allocation.A_MN,
            rounds=point.round,
            reports=N * point.round,
            num_directions=settings.directions,
            num_seeds=settings.num_seeds,
            parameters=spec.num_parameters,
            block_parameters=block_parameters,
        )
        passes = N * point.round * (settings.directions + 1)  # of real clients, whichever estimator the run used
        rows.append(
            labels
            | {
                "round": point.round,
                "accuracy": point.eval_accuracy,
                "loss": point.eval_loss,
                "forward_passes": passes,
                "backward_passes": N * point.round if facts.first_order else 0,
                "bytes": float(sent.total("wire_bytes")),
                "seconds": point.seconds,
                "weights_sha256": sha256_of[point.round],
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict(COLUMNS))


def _measured_before(environment: Mapping[str, Any]) -> dict[str, float]:
    """Measurements of the run's preflight; NaN if it made none."""
    preflight = environment.get("preflight", {})
    checks = {check["name"]: check["measured"] for check in preflight.get("checks", ())}
    differences = preflight.get("finite_differences", {})
    measured = {"difference_error": differences.get("relative_error"), "update_lost": checks.get("update")}
    return {name: float("nan") if value is None else float(value) for name, value in measured.items()}


def read_table(name: str, folder: str | os.PathLike[str] = FOLDER, *, missing_ok: bool = False) -> pd.DataFrame:
    """The table of an experiment, a row for each evaluation (:data:`COLUMNS`). No torch.

    Raises:
        MissingDataError: there is no such table.
        InvalidInputError: the file has another form.
    """
    path = Path(folder) / f"{name}.parquet"
    if not path.is_file():
        if missing_ok:
            return pd.DataFrame({column: pd.Series(dtype=kind) for column, kind in COLUMNS.items()})
        raise MissingDataError(f"{path} does not exist; make it with: {COMMAND} {name}")
    try:
        return pd.read_parquet(path, columns=list(COLUMNS)).astype(dict(COLUMNS))
    except (OSError, ValueError, KeyError) as error:
        problem = str(error).partition("\n")[0][:200]
        raise InvalidInputError(
            f"{path}: not a table of runs ({problem}); restore it, or remove it and run again"
        ) from None


def write_table(table: pd.DataFrame, name: str, folder: str | os.PathLike[str] = FOLDER) -> None:
    import pyarrow as pa

    Path(folder).mkdir(parents=True, exist_ok=True)
    write_parquet(Path(folder) / f"{name}.parquet", pa.Table.from_pandas(table[list(COLUMNS)], preserve_index=False))


@contextmanager
def _alone(scratch: Path) -> Iterator[None]:
    """Context manager: lock ``scratch`` against other sweeps.

    Raises:
        BusyError: another process has the lock.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with open(scratch / ".lock", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"another process runs experiments in {scratch}; wait for it, or stop it") from None
        yield
