"""What a fine-tuned model says of new texts, and what the base model said of them.

Shapes: R rows, C labels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from zorba_core.data.encoding import encode
from zorba_core.data.tasks import Task
from zorba_core.engine.evaluation import BATCH_SIZE
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError, name_some
from zorba_core.runs.folder import Run
from zorba_core.runs.use.tuned_model import TunedModel, finished_run, open_tuned, task_of

Texts = str | Mapping[str, str] | Sequence[str | Mapping[str, str]] | pd.DataFrame
_CHUNK = 4096  # rows encoded together


@dataclass(frozen=True, eq=False)
class Predictions:
    """Labels' probabilities of R rows, after fine-tuning and, where asked for, before."""

    labels: tuple[str, ...]
    frame: pd.DataFrame  # the rows' text columns
    probability_RC: np.ndarray
    base_RC: np.ndarray | None
    cut_R: np.ndarray  # bool: the text is longer than seq_len and lost its end
    seq_len: int

    @property
    def columns(self) -> dict[str, list[str] | list[float]]:
        """``prediction`` and ``probability``; with the base model's answers, the same with ``base_`` before."""
        columns = {}
        for prefix, probability_RC in (("", self.probability_RC), ("base_", self.base_RC)):
            if probability_RC is not None:
                columns[f"{prefix}prediction"] = [self.labels[label] for label in probability_RC.argmax(axis=1)]
                columns[f"{prefix}probability"] = probability_RC.max(axis=1).tolist()
        return columns

    def table(self) -> pd.DataFrame:
        """The texts with :attr:`columns` behind them."""
        return self.frame.assign(**self.columns)

    def probabilities(self, row: int, base: bool = False) -> dict[str, float]:
        """Each label's probability for one row, the likeliest first."""
        probability_C = (self.base_RC if base else self.probability_RC)[row]
        order_C = np.argsort(-probability_C, kind="stable")
        return {self.labels[label]: float(probability_C[label]) for label in order_C}

    @property
    def note(self) -> str:
        """One line where texts were cut, else empty."""
        count = int(self.cut_R.sum())
        if not count:
            return ""
        which = "the text is" if len(self.cut_R) == 1 else f"{count} of {len(self.cut_R)} texts are"
        return f"{which} longer than the run's seq_len of {self.seq_len} tokens; what is beyond it was not read"


def predict(
    run: str | os.PathLike[str] | Run | TunedModel,
    texts: Texts,
    *,
    base: bool = False,
    model: str | None = None,
    where: str = "the texts",
) -> Predictions:
    """The label of each text by the run's fine-tuned model.

    Args:
        texts: a text, or several; for a task of several text columns a mapping with each of them; or a table.
        base: also by the base model.
        model: where the base model lies now, if it is not where the run's config says.
        where: what messages call ``texts``.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.use.open_tuned`; a text that is missing or empty.
    """
    if isinstance(run, TunedModel):
        frame, tuned = frame_of(run.task, texts, where), run
    else:
        run = finished_run(run)
        frame = frame_of(task_of(run), texts, where)  # before anything slow
        tuned = open_tuned(run, model=model)
    with tuned.in_use():
        rows = [encoded(tuned, frame.iloc[start : start + _CHUNK]) for start in range(0, len(frame), _CHUNK)]
        networks = [tuned.network, tuned.base()] if base else [tuned.network]
        after_RC, *before_RC = (
            np.concatenate([label_probabilities(network, part) for part, _ in rows]) for network in networks
        )
    return Predictions(
        labels=tuned.task.label_names,
        frame=frame,
        probability_RC=after_RC,
        base_RC=before_RC[0] if before_RC else None,
        cut_R=np.concatenate([cut_R for _, cut_R in rows]),
        seq_len=tuned.settings.seq_len,
    )


def frame_of(task: Task, texts: Texts, where: str = "the texts") -> pd.DataFrame:
    """The task's text columns of ``texts``, checked.

    Raises:
        InvalidInputError: a column is missing, or a text is missing, empty or no text.
    """
    columns = list(task.text_columns)
    if isinstance(texts, pd.DataFrame):
        frame = texts
    else:
        items = [texts] if isinstance(texts, str | Mapping) else list(texts)
        frame = pd.DataFrame([_row_of(task, item) for item in items])
        if frame.empty:
            frame = pd.DataFrame(columns=columns)
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        there = name_some(list(frame.columns), 12) or "none"
        raise InvalidInputError(
            f"{where}: column(s) {', '.join(missing)} missing, which the run's prompt reads; the columns are {there}"
        )
    if frame.empty:
        raise InvalidInputError(f"{where}: there are no rows to predict")
    frame = frame[columns].reset_index(drop=True)
    for column in columns:
        usable_R = [isinstance(text, str) and bool(text.strip()) for text in frame[column]]
        if not all(usable_R):
            empty = [row for row, usable in enumerate(usable_R, start=1) if not usable]
            plural = "rows" if len(empty) > 1 else "row"
            raise InvalidInputError(
                f"{where}: {column} is empty or no text in {plural} {name_some(empty)} of {len(frame)}; "
                "fill or remove such rows"
            )
    return frame


def encoded(tuned: TunedModel, frame: pd.DataFrame) -> tuple[Encoded, np.ndarray]:
    """The rows as the run's training had them, and which texts are longer than that, (R,) bool."""
    if "label" not in frame:
        frame = frame.assign(label=0)
    seq_len = tuned.settings.seq_len
    # With room for one token more, exactly the rows that do not fit use it.
    cut_R = (encode(tuned.task, frame, tuned.tokenizer, seq_len + 1).length_E > seq_len).numpy()
    return encode(tuned.task, frame, tuned.tokenizer, seq_len), cut_R


@torch.no_grad()
def label_probabilities(network: BlockNetwork, rows: Encoded, batch_size: int = BATCH_SIZE) -> np.ndarray:
    """Probability of each label among the labels, (R, C), float64."""
    # The batches of `evaluate`: rows of similar length together. The same batches give the same bits.
    order = torch.argsort(rows.length_E, stable=True)
    probability_RC: np.ndarray | None = None
    for start in range(0, len(rows), batch_size):
        index = order[start : start + batch_size]
        with network.at_precision("highest"):
            batch = rows.rows(index).trimmed(network.device)
            logits_BC = batch.log_scores(network, network(batch))
        part_BC = torch.softmax(logits_BC, dim=1).cpu().numpy()
        if probability_RC is None:
            probability_RC = np.empty((len(rows), part_BC.shape[1]))
        probability_RC[index.numpy()] = part_BC
    return probability_RC


def _row_of(task: Task, item: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, str) and len(task.text_columns) > 1:
        names = ", ".join(task.text_columns)
        raise InvalidInputError(f"the run reads several texts ({names}); give each by its name, not one text alone")
    return {task.text_columns[0]: item}
