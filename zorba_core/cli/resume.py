"""``zorba resume`` and ``zorba replay``: resume a run, or rebuild the model of any round, from its log."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.data.task import METRIC_TITLES
from zorba_core.errors import InvalidInputError

_MODEL = typer.Option(None, help="Where the base model lies now; default: where the run's config says.")


def resume(
    run: str = typer.Argument(..., help="The run's folder, or its name in artifacts/runs."),
    model: str | None = _MODEL,
    data: str | None = typer.Option(None, help="Where your own rows lie now; default: where the run's config says."),
    test: str | None = typer.Option(None, help="Where your own test rows lie now."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Resume the run in folder RUN after a kill or an interrupt. It ends with the bits of an undisturbed one.

    The clients of a federated run are started again, and catch up from its log.
    """
    from zorba_core.cli.federate import resume_federated
    from zorba_core.cli.train import summary_lines, supervised
    from zorba_core.runs import read_run

    unfinished = read_run(run)
    if "federation" in unfinished.config:
        if (model, data, test) != (None, None, None):
            raise InvalidInputError("--model, --data and --test are not for federated runs: each client has its own")
        return resume_federated(unfinished, as_json)
    done = supervised(
        unfinished.settings.rounds,
        lambda callbacks: unfinished.resume(
            model=model,
            data=data,
            test=test,
            callbacks=callbacks,
            notice=lambda line: typer.echo(line, err=True),
        ),
        METRIC_TITLES[unfinished.task.counted],
    )
    emit({"run": str(done.path), **done.summary}, as_json, summary_lines(done))


def replay(
    run: str = typer.Argument(..., help="The run's folder; it may still be in progress."),
    round_index: int | None = typer.Option(None, "--round", help="Rounds to replay, 0 is the base; default: all."),
    save: Path | None = typer.Option(None, help="A new folder for the model, in Hugging Face format."),
    model: str | None = _MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Rebuild the model of any round of the run in folder RUN, from the base model and its log; no data is needed."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.files import atomic_folder, check_new_folder
    from zorba_core.runs.export import save_model
    from zorba_core.runs.replay import replay as rebuild

    if round_index is not None and round_index < 0:
        raise InvalidInputError(f"--round is {round_index}; it must be at least 0")
    if save is not None:
        check_new_folder(save)
    transformers_logging.disable_progress_bar()
    rebuilt = rebuild(run, round_index, model=model, notice=lambda line: typer.echo(line, err=True))
    if save is not None:
        with atomic_folder(save) as folder:
            save_model(rebuilt.network, folder)
            rebuilt.tokenizer.save_pretrained(folder)
    result = {
        "run": str(run),
        "round": rebuilt.round,
        "weights_sha256": rebuilt.network.weights_sha256(),
        "checked_at_round": rebuilt.checked_at,
        "saved": None if save is None else str(save),
    }
    checked = (
        "no evaluation to check against"
        if rebuilt.checked_at is None
        else (f"weights of round {rebuilt.checked_at} as the run had them")
    )
    lines = [f"round {rebuilt.round} of {run}: weights {result['weights_sha256'][:16]}, {checked}"]
    if save is not None:
        lines.append(f"  saved to {save}")
    emit(result, as_json, lines)
