"""``zorba bench``: how fast the training engine is on this machine, beside plain forward passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_target, write_json
from zorba_core.study.bench.settings import BenchSettings


def bench(
    profile: str = typer.Option("engine", help="engine: beside what it cannot beat; gpu: rounds in large sizes."),
    given: dict[str, Any] = options_of(
        BenchSettings,
        without=("mu",),
        make=dict,
        defaults={"model": None, "seq_len": None, "device": None},
        help={
            "model": "opt-mini, a Hugging Face folder, or a hub id; of gpu, sizes with random weights: "
            "opt-125m,opt-1.3b.",
            "seq_len": "tokens a row; default 32, of gpu 128.",
            "device": "cpu or cuda; default cpu, of gpu cuda.",
        },
    ),
    out: Path | None = typer.Option(None, help="Also write the result to this file, e.g. artifacts/benchmarks/x.json."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Time the routed cohort against the reference loop and against the plain forward passes that it cannot do without;
    or, with --profile gpu, whole rounds of large models in each precision: time, memory and matrix rate.

    Takes some minutes with the defaults; progress goes to stderr.
    """
    from zorba_core.study.bench.rounds import run_bench
    from zorba_core.study.bench.targets import TARGET_MODELS, run_targets

    if profile not in ("engine", "gpu"):
        raise InvalidInputError(f"--profile is {profile!r}; choose engine or gpu")
    if out is not None:
        check_target(out)
    on_gpu = profile == "gpu"
    given = {name: value for name, value in given.items() if value is not None}
    sizes = given.pop("model").split(",") if on_gpu and "model" in given else TARGET_MODELS
    settings = BenchSettings(**({"seq_len": 128, "device": "cuda"} if on_gpu else {}) | given)
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        typer.echo(line, err=True)

    result = run_targets(settings, sizes, report) if on_gpu else run_bench(settings, report)
    if out is not None:
        write_json(out, result)
    emit(result, as_json, lines)
