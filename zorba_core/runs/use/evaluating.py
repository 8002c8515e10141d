"""How good a run's model is on labelled rows: its own evaluation rows or a table, with the base model beside it.

Shapes: R rows, C labels, N clients.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.splits import load_split
from zorba_core.data.tasks import Task
from zorba_core.engine.evaluation import choose_rows
from zorba_core.engine.randomness import stream
from zorba_core.errors import InvalidInputError, MissingDataError, name_some, one_line
from zorba_core.runs.folder import Run, read_request
from zorba_core.runs.resume import check_rows
from zorba_core.runs.session import divide_rows, evaluation_rows
from zorba_core.runs.use.predicting import encoded, frame_of, label_probabilities
from zorba_core.runs.use.quality import Quality, by_client, change_p_value
from zorba_core.runs.use.tuned_model import TunedModel, finished_run, open_tuned, task_of

CLIENT_ROWS = 100  # of each client's own rows, at most
_NAMED_CHANGES = 50


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """A run's model on R labelled rows."""

    run: Run
    data: str  # where the rows are from, in words
    texts: pd.DataFrame  # their text columns
    after: Quality
    before: Quality | None  # of the base model
    per_client: tuple[dict[str, Any], ...] | None  # the worst served first
    per_client_of: str  # which rows that is measured on; why there is none
    cut_rows: int  # texts longer than seq_len
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        return self.after.accuracy

    @cached_property
    def changed(self) -> pd.DataFrame:
        """Rows on which the base model and the fine-tuned one differ in being right: text columns, ``label``,
        ``before``, ``after``, the probabilities of both answers, and ``change``: "fixed" or "broken"."""
        if self.before is None:
            raise InvalidInputError("there is no base model to compare with: evaluate with base=True")
        before, after, labels = self.before, self.after, np.array(self.after.labels, dtype=object)
        index = np.flatnonzero(before.right_R != after.right_R)
        frame = self.texts.iloc[index].reset_index(drop=True)
        details = {
            "row": index,
            "change": np.where(after.right_R[index], "fixed", "broken"),
            "label": labels[after.label_R[index]],
            "before": labels[before.predicted_R[index]],
            "after": labels[after.predicted_R[index]],
            "before_probability": before.probability_RC.max(axis=1)[index],
            "after_probability": after.probability_RC.max(axis=1)[index],
        }
        return pd.concat([frame, pd.DataFrame(details)], axis=1)

    def describe(self) -> dict[str, Any]:
        """The report for JSON."""
        result = {"data": self.data, **self.after.describe(), "cut_rows": self.cut_rows}
        result["per_client"] = None if self.per_client is None else list(self.per_client)
        result["per_client_of"] = self.per_client_of
        result["base"] = result["changed"] = None
        if self.before is not None:
            result["base"] = self.before.describe()
            fixed, broken = ((self.changed["change"] == change).sum() for change in ("fixed", "broken"))
            result["changed"] = {
                "fixed": int(fixed),
                "broken": int(broken),
                "p_value": change_p_value(int(fixed), int(broken)),
                "rows": self.changed.head(_NAMED_CHANGES).to_dict("records"),
            }
        result["notes"] = list(self.notes)
        return result


def evaluate_run(
    run: str | os.PathLike[str] | Run | TunedModel,
    data: pd.DataFrame | None = None,
    *,
    label: str | None = None,
    client: str | None = None,
    base: bool = True,
    client_rows: int = CLIENT_ROWS,
    model: str | None = None,
    where: str = "the table",
) -> EvaluationReport:
    """Evaluate a run's model.

    Args:
        data: labelled rows; None: the run's own evaluation rows.
        label: the column of labels in ``data``; default ``label``.
        client: a column of ``data`` that says which client a row belongs to.
        base: evaluate the base model too.
        client_rows: of each client's own rows at most so many, chosen by the run's seed; 0 for none. They are rows that
            the client trained with. Only where ``data`` is None.
        model: where the base model lies now, if it is not where the run's config says.
        where: what messages call ``data``.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.open_tuned`; rows that lack a column, or have
            a label that the run was not trained on; the run's own rows are not here.
    """
    if data is not None:  # before anything slow
        task = run.task if isinstance(run, TunedModel) else task_of(run := finished_run(run))
        label_R, texts = labels_of(task, data, label, where), frame_of(task, data, where)
        if client is not None:
            check_client(data, client, where)
    tuned = run if isinstance(run, TunedModel) else open_tuned(run, model=model)
    task, notes = tuned.task, []
    if data is None:
        frame, where = _own_rows(tuned)
        label_R, texts = frame["label"].to_numpy(np.int64), frame_of(task, frame, where)
    with tuned.in_use():
        rows, cut_R = encoded(tuned, texts.assign(label=label_R))
        after = Quality(task.label_names, label_R, label_probabilities(tuned.network, rows))
        before = None
        if base:
            try:
                before = Quality(task.label_names, label_R, label_probabilities(tuned.base(), rows))
            except MissingDataError as error:  # a saved model needs no base
                notes.append(f"no comparison with the base model: {one_line(error)}")
    if data is None:
        per_client, per_client_of = _by_division(tuned, base and before is not None, client_rows)
    else:
        per_client, per_client_of = _by_column(data, client, where, after, before)
    return EvaluationReport(
        run=tuned.run,
        data=where,
        texts=texts,
        after=after,
        before=before,
        per_client=per_client,
        per_client_of=per_client_of,
        cut_rows=int(cut_R.sum()),
        notes=tuple(notes),
    )


def labels_of(task: Task, frame: pd.DataFrame, column: str | None, where: str) -> np.ndarray:
    """0..C-1 of each row, from the names of the labels, or from the numbers 0..C-1, (R,) int64.

    Raises:
        InvalidInputError: no such column; an empty label; one that the run was not trained on, with its rows.
    """
    column = column or "label"
    if column not in frame.columns:
        there = name_some(list(frame.columns), 12)
        raise InvalidInputError(
            f"{where}: there is no column {column!r} with the labels; the columns are {there}; name it with --label"
        )
    values = frame[column].tolist()
    index = {**{str(number): number for number in range(task.num_classes)}}
    index |= {name: number for number, name in enumerate(task.label_names)}  # a name "1" is the name
    keys = [_key(value) for value in values]
    unseen = [row for row, key in enumerate(keys, start=1) if key not in index]
    if unseen:
        first = keys[unseen[0] - 1]
        what = "has an empty label" if not first else f"has the label {first!r}"
        raise InvalidInputError(
            f"{where}: row {unseen[0]} {what}, which the run was not trained on ({len(unseen)} such row"
            f"{'s' if len(unseen) > 1 else ''}: {name_some(unseen)}); its labels are {name_some(task.label_names, 20)}"
        )
    return np.array([index[key] for key in keys], dtype=np.int64)


def _key(value: Any) -> str:
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _own_rows(tuned: TunedModel) -> tuple[pd.DataFrame, str]:
    """The rows that the run was evaluated on, proven by their fingerprint."""
    task, split = tuned.task, tuned.task.rows.evaluation_split
    _, facts = evaluation_rows(task, tuned.tokenizer, tuned.settings)
    check_rows(read_request(tuned.run.path), facts, "evaluation")
    frame = load_split(task.name, split)
    frame = frame.iloc[choose_rows(len(frame), tuned.settings.eval_rows, tuned.settings.seed)].reset_index(drop=True)
    return frame, f"{task.name} {split}"


def check_client(data: pd.DataFrame, client: str, where: str) -> None:
    """Refuse a table without the column of clients."""
    if client not in data.columns:
        raise InvalidInputError(
            f"{where}: there is no column {client!r} with the clients; the columns are "
            f"{name_some(list(data.columns), 12)}"
        )


def _by_column(
    data: pd.DataFrame, client: str | None, where: str, after: Quality, before: Quality | None
) -> tuple[tuple[dict[str, Any], ...] | None, str]:
    if client is None:
        return None, "no column says which client a row belongs to; name one with --client"
    return by_client(data[client].tolist(), after, before), f"the rows of each {client} in {where}"


def _by_division(tuned: TunedModel, base: bool, client_rows: int) -> tuple[tuple[dict[str, Any], ...] | None, str]:
    """Each client's own rows, divided as the run divided them."""
    run, settings = tuned.run, tuned.settings
    if client_rows < 1:
        return None, "not asked for"
    if "train_sha256" not in run.environment["data"]:
        return None, "the clients' rows were their own and are not here"
    alpha = run.config["alpha"]
    rows, facts = divide_rows(
        tuned.task, tuned.tokenizer, run.allocation.num_clients, math.inf if alpha is None else alpha, settings
    )
    try:
        check_rows(read_request(run.path), facts, "train")
    except InvalidInputError as error:
        return None, one_line(error)
    chosen_N = [
        np.sort(stream("client-rows", settings.seed, client).choice(held, size=client_rows, replace=False))
        if len(held) > client_rows
        else np.asarray(held)
        for client, held in enumerate(rows.held_N)
    ]
    client_R = np.repeat(np.arange(len(chosen_N)), [len(chosen) for chosen in chosen_N])
    some = rows.train.rows(np.concatenate(chosen_N))
    with tuned.in_use():
        networks = [tuned.network, tuned.base()] if base else [tuned.network]
        after, *before = (
            Quality(tuned.task.label_names, some.label_R.numpy(), label_probabilities(network, some))
            for network in networks
        )
    result = by_client(client_R.tolist(), after, before[0] if before else None)
    return result, f"at most {client_rows} rows of each client, which it trained with"
