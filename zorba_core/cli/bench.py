"""``zorba bench``: how fast the training engine is on this machine, beside plain forward passes."""

from __future__ import annotations

from pathlib import Path

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target, write_json


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    profile: str = typer.Option("engine", help="engine: beside what it cannot beat; gpu: rounds in large sizes."),
    model: str | None = typer.Option(
        None, help="opt-mini, a Hugging Face folder, or a hub id; of gpu, sizes with random weights: opt-125m,opt-1.3b."
    ),
    clients: int = typer.Option(50, help="N: number of clients."),
    batch_size: int = typer.Option(8, help="B: rows a client."),
    seq_len: int | None = typer.Option(None, help="L: tokens a row; default 32, of gpu 128."),
    perturbations: int = typer.Option(10, help="Q: directions a round."),
    total: int = typer.Option(200, help="T: activated blocks of the routed allocations."),
    direction: str = typer.Option("rademacher", help="gaussian, sphere, rademacher or unit-sphere."),
    repeats: int = typer.Option(5, help="Turns that are timed; medians are compared."),
    growth: bool = typer.Option(True, help="Also time how the cost grows with N, Q, M and d."),
    seed: int = typer.Option(0, help="Of rows and budgets."),
    threads: int = typer.Option(1, help="CPU threads."),
    device: str | None = typer.Option(None, help="cpu or cuda; default cpu, of gpu cuda."),
    out: Path | None = typer.Option(None, help="Also write the result to this file, e.g. artifacts/benchmarks/x.json."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Time the routed cohort against the reference loop and against the plain forward passes that it cannot do without;
    or, with --profile gpu, whole rounds of large models: time, memory, matrix rate, precisions and the error of rho.

    Takes some minutes with the defaults; progress goes to stderr.
    """
    from zorba_core.study.bench import TARGET_MODELS, BenchSettings, run_bench, run_targets

    if profile not in ("engine", "gpu"):
        raise InvalidInputError(f"--profile is {profile!r}; choose engine or gpu")
    if out is not None:
        check_target(out)
    on_gpu = profile == "gpu"
    settings = BenchSettings(
        model="opt-mini" if on_gpu or model is None else model,
        num_clients=clients,
        batch_size=batch_size,
        seq_len=(128 if on_gpu else 32) if seq_len is None else seq_len,
        num_perturbations=perturbations,
        total_blocks=total,
        direction=direction,
        repeats=repeats,
        growth=growth,
        seed=seed,
        threads=threads,
        device=device or ("cuda" if on_gpu else "cpu"),
    )
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        typer.echo(line, err=True)

    if on_gpu:
        result = run_targets(settings, TARGET_MODELS if model is None else model.split(","), report)
    else:
        result = run_bench(settings, report)
    if out is not None:
        write_json(out, result)
    emit(result, as_json, lines)
