"""``zorba experiment``: run what is missing of an experiment, or list what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments import EXPERIMENTS, PROFILES, run_experiments, store
from zorba_core.study.experiments.specs import Experiment

_NAMES = ", ".join(EXPERIMENTS)


def experiment(
    name: str | None = typer.Argument(None, help=f"One of {_NAMES}."),
    profile: str = typer.Option(
        "standard", help=f"{', '.join(PROFILES)}: seconds, hours of a core, minutes and days of a GPU."
    ),
    run_all: bool = typer.Option(False, "--all", help="Every experiment, interleaved: first answers first."),
    workers: int = typer.Option(1, help="Runs at a time, each on one thread."),
    listing: bool = typer.Option(False, "--list", help="Say what there is and what is missing; run nothing."),
    root: Path = typer.Option(store.DEFAULT_ROOT, help="Where the tables are kept."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run an experiment's missing runs and keep its tables. Finished runs are skipped, interrupted ones resumed.

    Ctrl-C ends the runs in progress after their round and exits with status 1; the same command continues it.
    """
    if listing and name is None:
        run_all = True
    if (name is None) == (not run_all):
        raise InvalidInputError(f"name one experiment ({_NAMES}) or give --all, not both")
    chosen = [store.experiment_named(name)] if name is not None else _having(profile)
    names = [item.name for item in chosen]
    done = None
    if not listing:
        done = run_experiments(names, profile, workers=workers, root=root)
    rows = [_state(item, profile, root) for item in chosen]
    emit({"profile": profile, "experiments": rows}, as_json, [line for row in rows for line in _lines(row)])
    if done is not None:
        done.check()


def _having(profile: str) -> list[Experiment]:
    """The experiments that have the profile.

    Raises:
        InvalidInputError: an unknown profile.
    """
    if profile not in PROFILES:
        raise InvalidInputError(f"profile is {profile!r}; choose one of {', '.join(PROFILES)}")
    return [item for item in EXPERIMENTS.values() if profile in item.profiles]


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
