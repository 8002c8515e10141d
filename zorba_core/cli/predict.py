"""``zorba predict``: what a run's model says of new texts, before and after fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.errors import InvalidInputError, name_some

if TYPE_CHECKING:
    from zorba_core.runs.predict import Predictions, WrittenAnswers

RUN = typer.Argument(..., help="The run's folder, or its name in artifacts/runs.")
BASE_MODEL = typer.Option(None, "--model", help="Where the base model lies now; default: where the run's config says.")
_SHOWN_LABELS = 5


def predict(
    run: str = RUN,
    text: list[str] = typer.Option(
        [], help="A text; several are several rows. Of a task with several text columns: COLUMN=TEXT for each, or JSON."
    ),
    file: Path | None = typer.Option(None, help="A table of texts: CSV, TSV, JSON, Parquet or Excel."),
    out: Path | None = typer.Option(None, help="The new file: the table with the columns prediction and probability."),
    base: bool = typer.Option(False, "--base", help="With --file: also base_prediction and base_probability."),
    model: str | None = BASE_MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Predict with the fine-tuned model of the run RUN. Nothing leaves the machine.

    With --text the base model answers too: before and after fine-tuning.
    """
    if bool(text) == (file is not None):
        raise InvalidInputError("give --text, or --file with --out: one of them")
    if (file is None) != (out is None):
        raise InvalidInputError("--file and --out belong together: the table to read and the file to write")
    _quiet()
    if file is None:
        _predict_texts(run, text, model, as_json)
    else:
        _predict_file(run, file, out, base, model, as_json)


def _predict_texts(run: str, text: list[str], model: str | None, as_json: bool) -> None:
    from zorba_core.runs.folder import finished_folder
    from zorba_core.runs.predict import predict

    opened = finished_folder(run)
    rows = rows_of(text, opened.task.text_columns)
    predictions = predict(opened, rows, base=True, model=model)
    answers = [_answer(predictions, row) for row in range(len(predictions.frame))]
    result: dict[str, Any] = {"run": str(opened.path), "predictions": answers}
    if len(answers) == 1:
        result |= answers[0]
    lines = [line for row, answer in enumerate(answers) for line in _answer_lines(predictions, row, answer)]
    if predictions.note:
        typer.echo(f"note: {predictions.note}", err=True)
    emit(result, as_json, lines)


def rows_of(texts: Sequence[str], columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows from the values of ``--text``: each a text; with several columns a JSON object, or ``COLUMN=TEXT``
    pieces of one row.

    Raises:
        InvalidInputError: a value of another form, a column twice, or one that is unknown or missing.
    """
    if len(columns) == 1:
        return [{columns[0]: text} for text in texts]
    wanted = " ".join(f"--text {column}=..." for column in columns)
    rows, pieces = [], {}
    for text in texts:
        if text.lstrip().startswith("{"):
            try:
                row = json.loads(text)
            except ValueError as error:
                raise InvalidInputError(f"--text is no JSON object: {error}") from None
            rows.append(row)
            continue
        column, equals, value = text.partition("=")
        if not equals or column.strip() not in columns:
            raise InvalidInputError(f"the run reads the texts {', '.join(columns)}: give {wanted}, or a JSON object")
        if column.strip() in pieces:
            raise InvalidInputError(f"--text {column.strip()}=... is given twice; give several rows as JSON objects")
        pieces[column.strip()] = value
    if pieces:
        rows.append(pieces)
    for row in rows:
        missing = [column for column in columns if column not in row]
        if missing:
            raise InvalidInputError(f"--text lacks {name_some(missing)}: give {wanted}, or a JSON object")
    return rows


def _predict_file(run: str, file: Path, out: Path, base: bool, model: str | None, as_json: bool) -> None:
    from zorba_core.data.task import TableRows
    from zorba_core.runs.folder import finished_folder
    from zorba_core.runs.predict import predict
    from zorba_core.tables import check_output, read_table, write_table

    check_output(out)
    opened = finished_folder(run)
    encoding = getattr(opened.task.rows, "encoding", "utf-8")
    table = read_table(file, encoding)
    prefixes = ("", "base_") if base else ("",)
    names = ("prediction",) if opened.task.kind == "text" else ("prediction", "probability")
    taken = {f"{prefix}{name}" for prefix in prefixes for name in names} & {*table.columns}
    if taken:
        raise InvalidInputError(f"{file}: it has a column {min(taken)!r} already; rename or remove it")
    predictions = predict(opened, TableRows(file, encoding=encoding), base=base, model=model)
    columns = predictions.columns
    write_table(table.assign(**columns), out)
    labels = getattr(predictions, "labels", ())  # none where text is written
    counts = {label: columns["prediction"].count(label) for label in labels}
    result = {
        "run": str(opened.path),
        "file": str(file),
        "out": str(out),
        "rows": len(predictions.frame),
        "columns": list(columns),
        "predictions": counts,
        "cut_rows": predictions.cut_rows,
    }
    if predictions.note:
        typer.echo(f"note: {predictions.note}", err=True)
    message = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    emit(result, as_json, [f"{out}: {result['rows']} rows{f' ({message})' if message else ''}"])


def _answer(predictions: Predictions | WrittenAnswers, row: int) -> dict[str, Any]:
    answer: dict[str, Any] = dict(predictions.frame.iloc[row])
    if not hasattr(predictions, "probabilities"):
        columns = predictions.columns
        return {
            **answer,
            "prediction": columns["prediction"][row],
            "base": {"prediction": columns["base_prediction"][row]},
        }
    for key, base in (("", False), ("base", True)):
        probabilities = predictions.probabilities(row, base)
        label = next(iter(probabilities))
        entry = {"prediction": label, "probability": probabilities[label], "probabilities": probabilities}
        answer |= {key: entry} if key else entry
    return answer


def _answer_lines(predictions: Predictions | WrittenAnswers, row: int, answer: dict[str, Any]) -> list[str]:
    lines = [" | ".join(str(answer[column]) for column in predictions.frame.columns)]
    for title, entry in (("before fine-tuning", answer["base"]), ("after fine-tuning", answer)):
        if "probabilities" not in entry:
            lines.append(f"  {title:<19} {entry['prediction']}")
            continue
        several = list(entry["probabilities"].items())
        shown = ", ".join(f"{label} {probability:.3f}" for label, probability in several[:_SHOWN_LABELS])
        more = f" and {len(several) - _SHOWN_LABELS} more" if len(several) > _SHOWN_LABELS else ""
        lines.append(f"  {title:<19} {entry['prediction']}   ({shown}{more})")
    return lines


def _quiet() -> None:
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
