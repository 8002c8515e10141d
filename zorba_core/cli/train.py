"""``zorba train``: federated fine-tuning, from a fleet to a run folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from zorba_core.cli.allocation_choice import DEFAULT_CLIENTS, chosen_allocation
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.solver_option import solver_option
from zorba_core.errors import RunError
from zorba_core.planning.memory import GIB
from zorba_core.planning.methods import METHODS, method_facts
from zorba_core.runs import DEFAULT_FOLDER, Run

if TYPE_CHECKING:
    from zorba_core.engine.callbacks import Callback
    from zorba_core.engine.ranks import Ranks

METHOD_OPTION = typer.Option("zorba", help="; ".join(f"{facts.name}: {facts.help}" for facts in METHODS.values()) + ".")
ALLOCATION_OPTION = typer.Option(None, help="NPZ, JSON or CSV of who activates which blocks, instead of a solver.")
PERTURBATIONS_OPTION = typer.Option(
    None, help="Q: directions a round; default: the paper's, 10 for zorba, 1 for decomfl and fedzo."
)
SOLVER_OPTION = solver_option(None)


def register(app: typer.Typer) -> None:
    app.command("train")(train)


def train(
    method: str = METHOD_OPTION,
    model: str = typer.Option("opt-mini", help="opt-mini, a Hugging Face folder, or a hub id."),
    dataset: str = typer.Option("toy-reviews", help="toy-reviews (needs no data), sst2, ag-news or snli."),
    label_words: str | None = typer.Option(None, help="Comma separated, one for each label; default: the task's."),
    clients: int | None = typer.Option(None, help=f"N: number of clients (default {DEFAULT_CLIENTS})."),
    alpha: float = typer.Option(1.0, help="Of the Dirichlet division of rows; smaller is more uneven."),
    rounds: int = typer.Option(150, help="T: rounds."),
    seed: int = typer.Option(0, help="Of the fleet, the division of rows, batches and directions."),
    allocation: Path | None = ALLOCATION_OPTION,
    solver: str | None = SOLVER_OPTION,
    total: int | None = typer.Option(None, help="Most activated blocks over all clients."),
    blocks_per_client: int | None = typer.Option(None, help="Give every client this many blocks instead of a fleet."),
    budgets: str | None = typer.Option(None, help="Whole blocks of each client, e.g. 11,9,3, instead of a fleet."),
    fleet: Path | None = typer.Option(None, help="CSV with columns client,vram_gib; default: drawn as in the paper."),
    perturbations: int | None = PERTURBATIONS_OPTION,
    num_seeds: int = typer.Option(4096, help="P: shared seeds that the directions are drawn from."),
    batch_size: int = typer.Option(8, help="B: rows a client and round."),
    seq_len: int = typer.Option(64, help="L: longest prompt, in tokens."),
    mu: float = typer.Option(1e-3, help="Length of a finite difference, in units of the direction."),
    lr: float = typer.Option(1e-2, help="Learning rate."),
    direction: str = typer.Option("gaussian", help="gaussian, sphere, rademacher or unit-sphere."),
    estimator: str = typer.Option(
        "cohort", help="Scalars by cohort (all clients in one pass), reference (one by one) or jvp (exact derivatives)."
    ),
    max_rows: int | None = typer.Option(None, help="Of a cohort, through a block at once: bounds memory."),
    participation: float = typer.Option(1.0, help="Share of the clients that take part in a round."),
    outlier_ratio: float = typer.Option(100.0, help="Refuse scalars that many times larger than the median client's."),
    inactive: str = typer.Option("frozen", help="Blocks a client does not activate: frozen, or dropped (zero)."),
    eval_every: int = typer.Option(10, help="Rounds between evaluations."),
    eval_rows: int | None = typer.Option(None, help="Evaluate on that many fixed random rows; default: all."),
    target: float = typer.Option(0.75, help="Accuracy whose first reaching is recorded."),
    stop_at_target: bool = typer.Option(False, "--stop-at-target", help="End at the first evaluation that reaches it."),
    dtype: str = typer.Option("float32", help="float32 or float64."),
    precision: str = typer.Option("highest", help="Of matrix products: highest, bf16, or tf32 (cuda)."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    threads: int = typer.Option(1, help="CPU threads. More are slower for a small model."),
    runs_folder: Path = typer.Option(DEFAULT_FOLDER, help="Where the run's folder is made."),
    name: str | None = typer.Option(None, help="First part of its name; default <dataset>-<model>."),
    save_model: bool = typer.Option(False, "--save-model", help="Also write the fine-tuned model to <run>/model."),
    force: bool = typer.Option(False, "--force", help="Train also with settings that are found unable to learn."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fine-tune a language model across clients that each activate some of its blocks, by forward passes alone; or by
    one of the methods that the paper compares with.

    Ctrl-C ends the run after the round at hand, keeps everything done so far, and exits with status 1.
    """
    from zorba_core.data.tasks import get_task
    from zorba_core.engine.ranks import joined
    from zorba_core.engine.settings import TrainSettings
    from zorba_core.runs.session import fine_tune, read_spec

    settings = TrainSettings(
        method=method,
        rounds=rounds,
        lr=lr,
        mu=mu,
        num_perturbations=perturbations,
        num_seeds=num_seeds,
        batch_size=batch_size,
        seq_len=seq_len,
        direction=direction,
        estimator=estimator,
        max_rows=max_rows,
        participation=participation,
        outlier_ratio=outlier_ratio,
        inactive=inactive,
        seed=seed,
        eval_every=eval_every,
        eval_rows=eval_rows,
        target=target,
        stop_at_target=stop_at_target,
        dtype=dtype,
        precision=precision,
        device=device,
        threads=threads,
    )
    get_task(dataset)  # before anything slow
    spec = read_spec(model)
    chosen, origin = chosen_allocation(
        spec, settings, clients=clients, allocation=allocation, solver=solver, total=total,
        blocks_per_client=blocks_per_client, budgets=budgets, fleet=fleet,
    )  # fmt: skip
    allocates = method_facts(method).allocates
    with joined() as ranks:
        run = supervised(
            rounds,
            ranks,
            lambda callbacks: fine_tune(
                chosen if allocates else None,
                num_clients=chosen.num_clients,
                dataset=dataset,
                model=model,
                settings=settings,
                alpha=alpha,
                label_words=None if label_words is None else [word.strip() for word in label_words.split(",")],
                runs_folder=runs_folder,
                name=name,
                save_model=save_model,
                force=force,
                callbacks=callbacks,
                origin=origin,
                ranks=ranks,
            ),
        )
        if ranks.writes:
            emit({"run": str(run.path), **run.summary}, as_json, summary_lines(run))
    fail_if_interrupted(run, ranks)


def supervised(rounds: int, ranks: Ranks, work: Callable[[Sequence[Callback]], Run]) -> Run:
    """Do ``work`` with progress on stderr and Ctrl-C keeping what was done; of several ranks, the first one talks."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.engine.callbacks import Interrupt, Progress

    transformers_logging.disable_progress_bar()  # stderr shows the run's progress, not the loading's
    progress, interrupt = Progress(rounds), Interrupt(None if ranks.writes else io.StringIO())
    try:
        with interrupt.listening():
            return work([progress, interrupt] if ranks.writes else [interrupt])
    except KeyboardInterrupt:
        folder = interrupt.folder
        kept = "nothing was written" if folder is None else f"the rounds done are kept; zorba resume {folder} goes on"
        raise RunError(f"stopped at once; {kept}") from None
    finally:
        progress.close()


def fail_if_interrupted(run: Run, ranks: Ranks) -> None:
    """Exit status 1 for a run that Ctrl-C ended, on every rank; the first one says what to do."""
    if run.summary["stopped_by"] != "interrupt":
        return
    if not ranks.writes:
        raise typer.Exit(1)
    raise RunError(
        f"interrupted after round {run.summary['rounds_done']}; what was done is in {run.path}; "
        f"go on with: zorba resume {run.path}"
    )


def summary_lines(run: Run) -> list[str]:
    summary, config, data = run.summary, run.config, run.environment["data"]
    memory, sent = summary["memory"], summary["communication"]
    reached = summary["rounds_to_target"]
    by_client = summary["reports"]["refused_by_client"]
    backward = f" and {summary['backward_passes']} backward passes" if summary["backward_passes"] else " passes"
    note = f" ({data['note']})" if data["note"] else ""
    rows = [
        (
            f"accuracy, {data['evaluation_split']} ({data['evaluation_rows']} rows)",
            f"{summary['initial_accuracy']:.3f} before, {summary['final_accuracy']:.3f} after, "
            f"best {summary['best_accuracy']:.3f} in round {summary['best_round']}",
        ),
        (f"target {summary['target']:.2f}", "not reached" if reached is None else f"reached in round {reached}"),
        (
            "allocation",
            f"Lambda {summary['lambda']:.3f}, V {summary['mean_inverse_popularity']:.3f}, "
            f"effective clients {summary['effective_clients']:.1f}",
        ),
        ("VRAM by the paper's model", f"{summary['vram_gib']['total']:.3f} GiB over all clients"),
        (
            "memory of the largest client",
            f"{memory['psi_bytes'] / GIB:.3f} GiB by the paper's model, "
            f"{memory['client']['total'] / GIB:.3f} GiB counted",
        ),
        ("computed", f"{summary['forward_passes']} forward{backward} of one client's batch"),
        (
            "sent, numbers needed",
            f"{sent['up']['needed']:,} up, {sent['down']['needed']:,} down ({sent['form']}); "
            f"{(sent['up']['wire_bytes'] + sent['down']['wire_bytes']) / 1e6:,.3f} MB",
        ),
        ("run", str(run.path)),
    ]
    if by_client:
        rows.insert(3, ("refused for a round", f"{sum(by_client.values())} reports of {len(by_client)} clients"))
    return [
        f"{METHODS[summary['method']].title} on {config['dataset']}{note}, {config['model']}, "
        f"{config['num_clients']} clients, "
        f"{summary['total_blocks']} of {config['num_clients'] * config['num_blocks']} blocks, "
        f"{summary['rounds_done']} rounds in {summary['seconds']:.0f} s",
        *(f"  {what:<33}{value}" for what, value in rows),
    ]
