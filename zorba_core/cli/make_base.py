"""``zorba make-base``: ``opt-mini`` or ``llama-mini``, from texts to a folder that ``transformers`` loads."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit


def make_base(
    out: Path = typer.Option(..., help="Folder to write; it must not exist, or be empty."),
    seed: int = typer.Option(0, help="Decides the weights, with the library versions and the threads."),
    profile: str = typer.Option("full", help="full: opt-mini; llama: llama-mini; both need ZORBA_DATA. tiny: no data."),
    threads: int | None = typer.Option(None, help="Part of what decides the weights; default 2 for full, else 1."),
    force: bool = typer.Option(False, "--force", help="Replace a folder that is not empty."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make the base model: tokenizer, pretraining, donor words, its accuracies and its card."""
    from zorba_core.study.base_model import build

    facts = build.make_base(
        out, seed=seed, profile=profile, threads=threads, force=force, log=lambda line: typer.echo(line, err=True)
    )
    lines = [f"{out}: {facts['num_parameters']:,} parameters, {facts['size_mb']:.1f} MB"]
    lines += [
        f"  {name:12s} donor words {task['donor_accuracy']:.3f}   start {task['start_accuracy']:.3f}   "
        f"ceiling {task['ceiling_accuracy']:.3f}"
        for name, task in facts["tasks"].items()
    ]
    emit(facts, as_json, lines)
