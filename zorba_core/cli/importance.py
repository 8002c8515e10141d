"""``zorba importance``: what each block is worth, from a run's log alone."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit


def importance(
    run: Path = typer.Argument(..., help="The run's folder; it may still be in progress."),
    first: int = typer.Option(1, help="First round to read."),
    last: int | None = typer.Option(None, help="Last round to read; default: the last of the log."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Energy (squared gradient) and noise of every block of the run in folder RUN, from its clients' scalars."""
    from zorba_core.runs import importance as read

    of_run = read(run, first_round=first, last_round=last)
    lines = [
        f"{of_run.rounds} rounds, {of_run.scalars} scalars of {run}",
        "  block      energy  95 % interval              noise  95 % interval",
    ]
    for m in range(len(of_run.energy_M)):
        energy = f"{of_run.energy_M[m]:>11.4g}  {of_run.energy_low_M[m]:>10.4g} {of_run.energy_high_M[m]:<10.4g}"
        noise = f"{of_run.noise_M[m]:>9.4g}  {of_run.noise_low_M[m]:>10.4g} {of_run.noise_high_M[m]:<10.4g}"
        lines.append(f"  {m:>5} {energy}  {noise}{'' if of_run.identifiable_M[m] else '  not identifiable'}")
    if not of_run.identifiable_M.all():
        lines.append(
            "  Blocks that always stand together cannot be told apart: train with --vary permute, or --replan."
        )
    emit({"run": str(run), **of_run.describe()}, as_json, lines)
