"""``zorba experiment``: run what is missing of an experiment, or list what there is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.study.experiments import EXPERIMENTS, PROFILES, run_experiments, store
from zorba_core.study.experiments.runner import RepeatedRun, check, run_again
from zorba_core.study.experiments.specs import Experiment

_NAMES = ", ".join(EXPERIMENTS)


def experiment(
    name: str | None = typer.Argument(None, help=f"One of {_NAMES}."),
    profile: str = typer.Option(
        "standard", help=f"{', '.join(PROFILES)}: seconds, hours of a core, minutes and days of a GPU."
    ),
    run_all: bool = typer.Option(False, "--all", help="Every experiment, interleaved: first answers first."),
    workers: int | None = typer.Option(
        None, help="Runs at a time, each on one thread; one by default, with Ray one for each of its processors."
    ),
    ray_address: str | None = typer.Option(
        None, help="Do the runs on a Ray cluster (extra 'ray'): host:port, auto, or local to start one here."
    ),
    listing: bool = typer.Option(False, "--list", help="Say what there is and what is missing; run nothing."),
    again: int = typer.Option(0, help="Instead: make that many finished runs again and compare their weights."),
    root: Path = typer.Option(store.DEFAULT_ROOT, help="Where the tables are kept."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run an experiment's missing runs and keep its tables. Finished runs are skipped, interrupted ones resumed.

    Ctrl-C ends the runs in progress after their round and exits with status 1; the same command continues it.
    """
    if again:
        _make_again(name, profile, again, root, as_json)
        return
    if listing and name is None:
        run_all = True
    if (name is None) == (not run_all):
        raise InvalidInputError(f"name one experiment ({_NAMES}) or give --all, not both")
    chosen = [store.experiment_named(name)] if name is not None else _having(profile)
    names = [item.name for item in chosen]
    done = None
    if not listing:
        done = run_experiments(names, profile, workers=workers, ray_address=ray_address, root=root)
    rows = [_state(item, profile, root) for item in chosen]
    emit({"profile": profile, "experiments": rows}, as_json, [line for row in rows for line in _lines(row)])
    if done is not None:
        check(done)


def _having(profile: str) -> list[Experiment]:
    """The experiments that have the profile.

    Raises:
        InvalidInputError: an unknown profile.
    """
    if profile not in PROFILES:
        raise InvalidInputError(f"profile is {profile!r}; choose one of {', '.join(PROFILES)}")
    return [item for item in EXPERIMENTS.values() if profile in item.profiles]


def _make_again(name: str | None, profile: str, count: int, root: Path, as_json: bool) -> None:
    if name is None:
        raise InvalidInputError("--again works on one experiment: name it")
    checks = run_again(name, profile, count, root)
    strays = [f"{check.arm}, seed {check.seed}{_made_by(check)}" for check in checks if not check.agrees]
    found = [{**asdict(check), "matches": check.matches, "agrees": check.agrees} for check in checks]
    emit({"checks": found}, as_json, [f"{check.arm}, seed {check.seed}: {_same(check)}" for check in checks])
    if strays:
        raise RunError(f"{len(strays)} of {count} runs gave other weights than stored: {strays[0]}")


def _made_by(check: RepeatedRun) -> str:
    """Where the same bits are promised: under the commit and on the kind of processor that made them."""
    places = [f"under commit {check.commit[:7]}"] if check.commit else []
    if not check.same_processor:
        places.append(f"on {check.processor}" if check.processor else "on a processor that its row does not name")
    return f" (made {' '.join(places)}: the same bits are promised there)" if places else ""


def _same(check: RepeatedRun) -> str:
    if check.matches:
        return "the same weights"
    losses = f"loss {check.again_loss:.6f}, stored {check.stored_loss:.6f}"
    return f"the same but for rounding ({losses})" if check.agrees else f"other weights ({losses})"


def _state(experiment: Experiment, profile: str, root: Path) -> dict[str, Any]:
    runs, _ = store.read_tables(store.results_folder(experiment.name, profile, root))
    done, left_out, specs = store.select(runs, experiment, profile)
    return {
        "experiment": experiment.name,
        "question": experiment.question,
        "runs": len(done),
        "failed": int((done["status"] == "failed").sum()),
        "missing": len(specs) - len(done),
        "hours": float(done["seconds"].sum()) / 3600,
        "left_out": list(left_out),
        "folder": str(store.results_folder(experiment.name, profile, root)),
    }


def _lines(row: dict[str, Any]) -> list[str]:
    diverged = f", {row['failed']} of them diverged" if row["failed"] else ""
    return [
        f"{row['experiment']:<10} {row['question']}",
        f"{'':<10} {row['runs']} runs{diverged}, {row['hours']:.2f} h; {row['missing']} missing; {row['folder']}",
        *[f"{'':<10} {line}" for line in row["left_out"]],
    ]
