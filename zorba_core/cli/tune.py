"""``zorba tune``: a learning rate that suits the model, the data and the fleet, in a few tens of rounds."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.allocation_choice import chosen_allocation
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import ALLOCATION_OPTION, METHOD_OPTION, PERTURBATIONS_OPTION, SOLVER_OPTION
from zorba_core.errors import InvalidInputError


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def tune(
    method: str = METHOD_OPTION,
    model: str = typer.Option("opt-mini", help="opt-mini, a Hugging Face folder, or a hub id."),
    dataset: str = typer.Option("toy-reviews", help="toy-reviews (needs no data), sst2, ag-news or snli."),
    label_words: str | None = typer.Option(None, help="Comma separated, one for each label; default: the task's."),
    clients: int | None = typer.Option(None, help="N: number of clients; default: as zorba train."),
    alpha: float = typer.Option(1.0, help="Of the Dirichlet division of rows; smaller is more uneven."),
    seed: int = typer.Option(0, help="Of the fleet, the division of rows, batches and directions."),
    allocation: Path | None = ALLOCATION_OPTION,
    solver: str | None = SOLVER_OPTION,
    total: int | None = typer.Option(None, help="Most activated blocks over all clients."),
    blocks_per_client: int | None = typer.Option(None, help="Give every client this many blocks instead of a fleet."),
    budgets: str | None = typer.Option(None, help="Whole blocks of each client, e.g. 11,9,3, instead of a fleet."),
    fleet: Path | None = typer.Option(None, help="CSV with columns client,vram_gib; default: drawn as in the paper."),
    perturbations: int | None = PERTURBATIONS_OPTION,
    batch_size: int = typer.Option(8, help="B: rows a client and round."),
    seq_len: int = typer.Option(64, help="L: longest prompt, in tokens."),
    mu: float = typer.Option(1e-3, help="Length of a finite difference, in units of the direction."),
    direction: str = typer.Option("gaussian", help="gaussian, sphere, rademacher or unit-sphere."),
    estimator: str = typer.Option("cohort", help="cohort, reference or jvp."),
    participation: float = typer.Option(1.0, help="Share of the clients that take part in a round."),
    inactive: str = typer.Option("frozen", help="Blocks a client does not activate: frozen, or dropped (zero)."),
    lrs: str | None = typer.Option(
        None, help="Rates to compare, e.g. 0.003,0.01,0.03; default: by their step's length."
    ),
    first_rounds: int = typer.Option(4, help="Rounds before the first half is dropped; doubles with each half."),
    dtype: str = typer.Option("float32", help="float32 or float64."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    threads: int = typer.Option(1, help="CPU threads. More are slower for a small model."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Find a learning rate by successive halving on rows held out from the clients. No run is written."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.data.tasks import get_task
    from zorba_core.engine.loop import check_fit
    from zorba_core.engine.settings import TrainSettings
    from zorba_core.runs.session import divide_rows, open_network, read_spec, use_threads
    from zorba_core.runs.tuning import tune as find_rate

    settings = TrainSettings(
        method=method,
        mu=mu,
        num_perturbations=perturbations,
        batch_size=batch_size,
        seq_len=seq_len,
        direction=direction,
        estimator=estimator,
        participation=participation,
        inactive=inactive,
        seed=seed,
        dtype=dtype,
        device=device,
        threads=threads,
    )
    grid = None if lrs is None else _grid(lrs)
    task = get_task(dataset)
    spec = read_spec(model)
    chosen, _ = chosen_allocation(
        spec, settings, clients=clients, allocation=allocation, solver=solver, total=total,
        blocks_per_client=blocks_per_client, budgets=budgets, fleet=fleet,
    )  # fmt: skip
    transformers_logging.disable_progress_bar()
    words = None if label_words is None else [word.strip() for word in label_words.split(",")]
    with use_threads(threads):
        network, tokenizer = open_network(task, model, words, settings)
        rows, _ = divide_rows(task, tokenizer, chosen.num_clients, alpha, settings)
        check_fit(network, chosen, rows, settings)
        found = find_rate(
            network,
            chosen,
            rows,
            settings,
            lr_grid=grid,
            first_rounds=first_rounds,
            notice=lambda line: typer.echo(line, err=True),
        )
    lines = [
        f"learning rate {found.lr:g}",
        f"  held-out loss {found.initial_loss:.4f} before, {found.held_out_rows} rows of the clients' split; "
        f"{found.rounds_computed} rounds computed",
        "        lr  rounds  held-out loss",
    ]
    for candidate in found.candidates:
        loss = "diverged" if candidate.loss is None else f"{candidate.loss:.4f}"
        lines.append(f"  {candidate.lr:>8.3g}  {candidate.rounds:>6}  {loss:>13}")
    if found.note:
        lines.append(f"  {found.note}")
    emit(found.describe(), as_json, lines)


def _grid(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"--lrs {text!r}: give numbers separated by commas, e.g. 0.003,0.01,0.03") from None
