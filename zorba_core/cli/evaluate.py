"""``zorba evaluate``: how good a run's model is, beside its base model, for every label and every client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.predict import BASE_MODEL, RUN
from zorba_core.errors import InvalidInputError

_SHOWN = 12


def evaluate(
    run: str = RUN,
    data: str | None = typer.Option(
        None, help="Labelled rows: CSV, TSV, JSON, Parquet or Excel; default: the run's own evaluation rows."
    ),
    label: str | None = typer.Option(None, help="Column of labels in --data; default: that of the run's own rows."),
    client: str | None = typer.Option(None, help="Column of --data that says whose row it is; default: as above."),
    client_rows: int = typer.Option(
        100, help="Without --data: of each client's own rows at most so many; 0 leaves clients out."
    ),
    base: bool = typer.Option(True, "--base/--no-base", help="Evaluate the base model too."),
    model: str | None = BASE_MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Evaluate the fine-tuned model of the run RUN: accuracy with its interval, F1, confusion, calibration, clients."""
    from transformers.utils import logging as transformers_logging

    from zorba_core.runs.evaluate import evaluate_run
    from zorba_core.runs.folder import finished_folder

    if data is None and (label is not None or client is not None):
        raise InvalidInputError("--label and --client name columns of --data; give it too")
    if client_rows < 0:
        raise InvalidInputError(f"--client-rows is {client_rows}; it must be at least 0")
    transformers_logging.disable_progress_bar()
    opened = finished_folder(run)
    report = evaluate_run(
        opened,
        data,
        label=label,
        client=client,
        base=base,
        client_rows=client_rows,
        model=model,
    )
    result = {"run": str(opened.path), **report.describe()}
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    emit(result, as_json, _lines(result))


def _lines(result: dict[str, Any]) -> Iterator[str]:
    yield f"{result['run']} on {result['rows']:,} rows of {result['data']}"
    yield from _score_lines(result)
    changed = result["changed"]
    if changed is not None:
        yield (
            f"  {changed['fixed']} errors of the base model are fixed, {changed['broken']} rows are newly wrong "
            f"(McNemar's exact test: p = {changed['p_value']:.2g})"
        )
    if "per_label" in result:
        yield from _by_label(result)
    if result["per_client"]:
        yield f"  by client, the worst served first ({result['per_client_of']}):"
        for entry in _some(result["per_client"]):
            low, high = entry["accuracy_interval"]
            before = f", before {entry['base_accuracy']:.3f}" if "base_accuracy" in entry else ""
            yield (
                f"    {str(entry['client'])[:24]:<24}{entry['accuracy']:.3f} ({low:.3f} to {high:.3f}) of "
                f"{entry['rows']} rows{before}"
            )
        if len(result["per_client"]) > _SHOWN:
            yield f"    ... {len(result['per_client'])} clients in all; --json has them"
    if result["cut_rows"]:
        yield f"  {result['cut_rows']} texts are longer than the run's seq_len and were cut, as in training"


def _score_lines(result: dict[str, Any]) -> Iterator[str]:
    """Before and after; the first score has an interval."""
    (score, title, width), *others = _CHOSEN if "accuracy" in result else _WRITTEN
    head = "".join(f"{other:>{room}}" for _, other, room in others)
    yield f"  {'':<12}{title:>{width}}  {'95 % interval':<16}{head}"
    for when, entry in (("before", result["base"]), ("after", result)):
        if entry is None:
            continue
        low, high = entry[f"{score}_interval"]
        numbers = "".join(
            f"{entry['calibration']['ece'] if name == 'ece' else entry[name]:>{room}.3f}" for name, _, room in others
        )
        yield f"  {when:<12}{entry[score]:>{width}.3f}  {f'{low:.3f} to {high:.3f}':<16}{numbers}"


_CHOSEN = (("accuracy", "accuracy", 9), ("macro_f1", "macro F1", 9), ("loss", "loss", 8), ("ece", "ECE", 8))
_WRITTEN = (
    ("exact_match", "exact match", 12),
    ("token_f1", "token F1", 9),
    ("rouge_l", "ROUGE-L", 9),
    ("loss", "loss", 8),
)


def _by_label(result: dict[str, Any]) -> Iterator[str]:
    yield f"  {'label':<20}{'rows':>7}{'predicted':>11}{'precision':>11}{'recall':>8}{'F1':>8}"
    for name, entry in _some(result["per_label"].items()):
        numbers = "".join(f"{_number(entry[key]):>{width}}" for key, width in _COLUMNS)
        yield f"  {name[:19]:<20}{entry['rows']:>7}{entry['predicted']:>11}{numbers}"
    if len(result["per_label"]) > _SHOWN:
        yield f"  ... {len(result['per_label'])} labels in all; --json has them, and the confusion matrix"


_COLUMNS = (("precision", 11), ("recall", 8), ("f1", 8))


def _some(entries: Any) -> list[Any]:
    return list(entries)[:_SHOWN]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
