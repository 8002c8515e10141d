"""How good a run's model is on labelled rows: its own evaluation rows or a table, compared with the base model.

Shapes: R rows, C labels, N clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zorba_core.data.own_rows import Table, labelled_rows
from zorba_core.data.prompts import fill
from zorba_core.data.task import CLIENT
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.randomness import stream
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, MissingDataError, one_line
from zorba_core.runs.folder import RunFolder, finished_folder
from zorba_core.runs.load import check_files, check_rows, evaluation_frame, evaluation_rows, federated_rows
from zorba_core.runs.predict import encoded, label_probabilities, written
from zorba_core.runs.quality import Quality, Scored, TextQuality, by_client, change_p_value
from zorba_core.runs.replay import RunModel, open_model

CLIENT_ROWS = 100  # where the evaluation rows name no client: of each client's own rows, at most


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """A run's model on R labelled rows."""

    run: RunFolder
    data: str  # where the rows are from, in words
    after: Scored
    before: Scored | None  # of the base model
    per_client: tuple[dict[str, Any], ...] | None  # the worst served first
    per_client_of: str  # which rows that is measured on; why there is none
    cut_rows: int  # texts longer than seq_len
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        return self.after.accuracy

    @property
    def changes(self) -> dict[str, int]:
        """How many errors of the base model are ``fixed``, and how many of its right answers are ``broken``."""
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
        data: labelled rows, a file or a table; None: the run's own evaluation rows.
        label: the column of labels in ``data``; default: that of the run's own rows, else ``label``.
        client: a column of ``data`` that says whose row it is; default: that of the run's own rows.
        base: evaluate the base model too.
        model: where the base model lies now, if it is not where the run's config says.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; rows without a column that
            is read, or with a label that the run was not trained on; the run's own rows are not here.
    """
    run, notes = finished_folder(run), []
    if data is not None:  # before anything slow
        frame, where = labelled_rows(run.task, data, label, client), _named(data)
    tuned = open_model(run, model=model)
    if data is None:
        frame, where = _own_rows(tuned)
    with tuned.in_use():
        rows, cut_rows = encoded(tuned, frame)
        after, before = _score(tuned, tuned.network, frame, rows), None
        if base:
            try:
                before = _score(tuned, tuned.base(), frame, rows)
            except MissingDataError as error:  # a saved model needs no base
                notes.append(f"no comparison with the base model: {one_line(error)}")
    if CLIENT in frame:
        per_client, per_client_of = by_client(frame[CLIENT].tolist(), after, before), f"each client's rows of {where}"
    elif data is None:
        per_client, per_client_of = _by_division(tuned, before is not None)
    else:
        per_client, per_client_of = None, "no column says whose row it is; name one with --client"
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
    """What a report calls the rows."""
    if isinstance(table, pd.DataFrame):
        return "a table in memory"
    path = Path(table)
    return path.name if path.exists() else "/".join(path.parts[-2:])  # of a pattern, also the folder


def _score(tuned: RunModel, network: Blocks, frame: pd.DataFrame, rows: Rows) -> Scored:
    task = tuned.run.task
    if task.kind == "text":
        loss, (given, _) = evaluate(network, rows).loss, written(tuned, network, frame)
        return TextQuality(tuple(fill(task.answer, frame)), tuple(given), loss)
    return Quality(task.label_names, frame["label"].to_numpy(np.int64), label_probabilities(network, rows))


def _own_rows(tuned: RunModel) -> tuple[pd.DataFrame, str]:
    """The rows that the run was evaluated on, proven by their fingerprint."""
    run, task = tuned.run, tuned.run.task
    check_files(run.environment["data"].get("files", {}), task, run.path)
    _, facts = evaluation_rows(task, tuned.tokenizer, tuned.settings)
    check_rows(facts, run.environment["data"], run.path, "evaluation")
    frame = evaluation_frame(task, tuned.settings).reset_index(drop=True)
    return frame, f"{task.title}, {task.rows.evaluation_split}"


def _by_division(tuned: RunModel, base: bool) -> tuple[tuple[dict[str, Any], ...] | None, str]:
    """Some of each client's own rows, divided as the run divided them and chosen by its seed."""
    run, settings = tuned.run, tuned.settings
    if tuned.run.task.kind == "text":
        return None, "the evaluation rows name no client"
    if "train_sha256" not in run.environment["data"]:
        return None, "the clients' rows were their own and are not here"
    rows, facts = federated_rows(run.task, tuned.tokenizer, run.allocation.num_clients, settings, **run.division)
    try:
        check_rows(facts, run.environment["data"], run.path, "train")
    except InvalidInputError as error:
        return None, one_line(error)
    chosen_N = [
        np.sort(stream("client-rows", settings.seed, client).choice(held, size=CLIENT_ROWS, replace=False))
        if len(held) > CLIENT_ROWS
        else np.asarray(held)
        for client, held in enumerate(rows.held_N)
    ]
    names = facts.get("clients") or range(len(chosen_N))
    client_R = [name for name, chosen in zip(names, chosen_N, strict=True) for _ in chosen]
    some = rows.train.rows(np.concatenate(chosen_N))
    label_R = some.label_E.numpy()
    with tuned.in_use():
        networks = [tuned.network, tuned.base()] if base else [tuned.network]
        after, *before = (
            Quality(tuned.run.task.label_names, label_R, label_probabilities(network, some)) for network in networks
        )
    result = by_client(client_R, after, before[0] if before else None)
    return result, f"at most {CLIENT_ROWS} rows of each client, which it trained with"
