"""Evaluate a run's model and its base model on labelled rows: the run's evaluation rows, or a table.

Shapes: R rows, C labels, N clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.own_rows import labelled_rows
from zorba_core.data.prompts import fill
from zorba_core.data.task import CLIENT, Table
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.randomness import stream
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, MissingDataError, one_line
from zorba_core.runs.folder import RunFolder, finished_folder
from zorba_core.runs.load import check_files, check_rows, evaluation_frame, federated_rows
from zorba_core.runs.predict import encoded, label_probabilities, written
from zorba_core.runs.quality import Answered, Quality, TextQuality, by_client, change_p_value
from zorba_core.runs.replay import RunModel, open_model

CLIENT_ROWS = 100  # at most, of each client's training rows, where the evaluation rows name no client


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """How well a run's model, and its base model, answer R labelled rows."""

    run: RunFolder
    data: str  # the rows' origin, in words
    after: Answered
    before: Answered | None  # the base model's answers
    per_client: tuple[dict[str, Any], ...] | None  # lowest accuracy first
    per_client_of: str  # the rows behind ``per_client``, or the reason why it is None
    cut_rows: int  # texts longer than seq_len
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        before = "" if self.before is None else f", {self.before.accuracy:.3f} before training"
        return f"EvaluationReport({self.run.metric} {self.accuracy:.3f}{before}, on {self.data})"

    @property
    def accuracy(self) -> float:
        return self.after.accuracy

    @property
    def changes(self) -> dict[str, int]:
        """Rows that only the fine-tuned model answers right (``fixed``), and only the base model (``broken``).

        Raises:
            InvalidInputError: the base model was not evaluated.
        """
        if self.before is None:
            raise InvalidInputError("there is no base model to compare with: evaluate with base=True")
        before_R, after_R = self.before.right_R, self.after.right_R
        return {"fixed": int((after_R & ~before_R).sum()), "broken": int((before_R & ~after_R).sum())}

    def describe(self) -> dict[str, Any]:
        """The report for JSON."""
        result = {"data": self.data, **self.after.describe(), "cut_rows": self.cut_rows}
        result["per_client"] = None if self.per_client is None else list(self.per_client)
        result["per_client_of"] = self.per_client_of
        result["base"] = result["changed"] = None
        if self.before is not None:
            result["base"] = self.before.describe()
            result["changed"] = {**self.changes, "p_value": change_p_value(*self.changes.values())}
        result["notes"] = list(self.notes)
        return result


def evaluate_run(
    run: RunFolder,
    data: Table | None = None,
    *,
    label: str | None = None,
    client: str | None = None,
    base: bool = True,
    model: str | None = None,
) -> EvaluationReport:
    """Evaluate a run's model.

    Args:
        data: labelled rows, a file or a table; None: the run's evaluation rows.
        label: the column of labels in ``data``; default: as in the run's rows, else ``label``.
        client: the column of ``data`` that names each row's client; default: as in the run's rows.
        base: evaluate the base model too.
        model: folder of the base model, if it is not the one in the run's config.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; a column is missing, or the
            run was not trained on a label; the run's rows are not on this machine.
    """
    run, notes = finished_folder(run), []
    if data is not None:  # wrong rows fail before the model is loaded
        frame, where = labelled_rows(run.task, data, label, client), _named(data)
    tuned = open_model(run, model=model)
    if data is None:
        check_files(run.environment["data"].get("files", {}), run.task, run.path)
        frame = evaluation_frame(run.task, tuned.settings).reset_index(drop=True)
        where = f"{run.task.title}, {run.task.rows.evaluation_split}"
    with tuned.in_use():
        rows, cut_rows = encoded(tuned, frame)
        if data is None:
            check_rows({"evaluation_sha256": rows.sha256()}, run.environment["data"], run.path, "evaluation")
        after, before = _score(tuned, tuned.network, frame, rows), None
        if base:
            try:
                before = _score(tuned, tuned.base(), frame, rows)
            except MissingDataError as error:  # saved weights can be evaluated without the base model
                notes.append(f"no comparison with the base model: {one_line(error)}")
    if CLIENT in frame:
        per_client, per_client_of = by_client(frame[CLIENT].tolist(), after, before), f"each client's rows of {where}"
    elif data is None:
        per_client, per_client_of = _by_division(tuned, before is not None)
    else:
        per_client, per_client_of = None, "no column names each row's client; choose one with --client"
    return EvaluationReport(
        run=tuned.run,
        data=where,
        after=after,
        before=before,
        per_client=per_client,
        per_client_of=per_client_of,
        cut_rows=cut_rows,
        notes=tuple(notes),
    )


def _named(table: Table) -> str:
    """The rows' name in a report."""
    if isinstance(table, pd.DataFrame):
        return "a table in memory"
    path = Path(table)
    return path.name if path.exists() else "/".join(path.parts[-2:])  # a pattern is shown with its folder


def _score(tuned: RunModel, network: Blocks, frame: pd.DataFrame, rows: Rows) -> Answered:
    task = tuned.run.task
    if task.kind == "text":
        loss, (given, _) = evaluate(network, rows).loss, written(tuned, network, frame)
        return TextQuality(tuple(fill(task.answer, frame)), tuple(given), loss)
    return Quality(task.label_names, frame["label"].to_numpy(np.int64), label_probabilities(tuned, network, rows))


def _by_division(tuned: RunModel, base: bool) -> tuple[tuple[dict[str, Any], ...] | None, str]:
    """Accuracy on a sample of each client's training rows, drawn by the run's seed; or None and the reason."""
    run, settings = tuned.run, tuned.settings
    if tuned.run.task.kind == "text":
        return None, "the evaluation rows name no client"
    if "train_sha256" not in run.environment["data"]:
        return None, "the clients' rows are not on this machine"
    request = run.request
    rows, described = federated_rows(run.task, tuned.tokenizer, request.num_clients, settings, **request.divided)
    try:
        check_rows(described, run.environment["data"], run.path, "train")
    except InvalidInputError as error:
        return None, one_line(error)
    chosen_N = [
        np.sort(stream("client-rows", settings.seed, client).choice(held, size=CLIENT_ROWS, replace=False))
        if len(held) > CLIENT_ROWS
        else np.asarray(held)
        for client, held in enumerate(rows.held_N)
    ]
    names = described.get("clients") or range(len(chosen_N))
    client_R = [name for name, chosen in zip(names, chosen_N, strict=True) for _ in chosen]
    some = rows.train.rows(np.concatenate(chosen_N))
    label_R = some.label_E.numpy()
    with tuned.in_use():
        networks = [tuned.network, tuned.base()] if base else [tuned.network]
        after, *before = (
            Quality(tuned.run.task.label_names, label_R, label_probabilities(tuned, network, some))
            for network in networks
        )
    result = by_client(client_R, after, before[0] if before else None)
    return result, f"at most {CLIENT_ROWS} training rows of each client"
