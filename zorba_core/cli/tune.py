"""``zorba tune``: a learning rate that suits the model, the data and the fleet, in a few tens of rounds."""

from __future__ import annotations

import typer

from zorba_core.cli.allocation_choice import AllocationChoice
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import TaskOptions
from zorba_core.data.divide import division_of, named_clients
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError


def tune(
    settings: Settings = options_of(
        Settings,
        without=(
            "rounds",
            "lr",
            "num_seeds",
            "eval_every",
            "eval_rows",
            "target",
            "precision",
        ),
    ),
    task_options: TaskOptions = options_of(TaskOptions),
    choice: AllocationChoice = options_of(AllocationChoice),
    lrs: str | None = typer.Option(
        None, help="Rates to compare, e.g. 0.003,0.01,0.03; default: by their step's length."
    ),
    first_rounds: int = typer.Option(8, help="Rounds after which the first rates are dropped."),
    horizon: int = typer.Option(60, help="Rounds that the rate is to be good for: those of the run."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Find a learning rate by its loss at the end of trials, on rows held out from the clients. No run is written."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.data.encode import with_label_words
    from zorba_core.engine.loop import check_fit
    from zorba_core.runs.load import federated_rows, open_network, read_spec, use_threads
    from zorba_core.runs.token_range import check_tokens
    from zorba_core.runs.tuning import tune as find_rate

    grid = None if lrs is None else _grid(lrs)
    words = task_options.words if task_options.data is None else None
    task_options = task_options.with_model()
    task = with_label_words(task_options.task(), words)
    clients = named_clients(task, task_options.division)
    chosen, _ = choice.allocation_for(read_spec(task_options.model), settings, clients)
    transformers_logging.disable_progress_bar()
    with use_threads(1):
        network, tokenizer = open_network(task_options.model, settings)
        division = division_of(task, task_options.division)
        rows, _ = federated_rows(
            task, tokenizer, chosen.num_clients, settings, alpha=task_options.alpha, division=division
        )
        check_fit(network, chosen, rows, settings)
        check_tokens(network, tokenizer, rows.train, rows.evaluation)
        tuning = find_rate(
            network,
            chosen,
            rows,
            settings,
            lr_grid=grid,
            first_rounds=first_rounds,
            horizon=horizon,
            notice=lambda line: typer.echo(line, err=True),
        )
    lines = [
        f"learning rate {tuning.lr:g}",
        f"  held-out loss {tuning.initial_loss:.4f} before, {tuning.held_out_rows} rows of the clients' split; "
        f"{tuning.rounds_computed} rounds computed",
        "        lr  rounds  held-out loss",
    ]
    for candidate in tuning.candidates:
        loss = "diverged" if candidate.loss is None else f"{candidate.loss:.4f}"
        lines.append(f"  {candidate.lr:>8.3g}  {candidate.rounds:>6}  {loss:>13}")
    if tuning.note:
        lines.append(f"  {tuning.note}")
    emit(tuning.describe(), as_json, lines)


def _grid(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"--lrs {text!r}: give numbers separated by commas, e.g. 0.003,0.01,0.03") from None
