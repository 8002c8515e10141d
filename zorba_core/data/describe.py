"""Describe a task before training: labels, an example prompt, lengths in tokens, baselines, advice.

Shapes: R rows, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zorba_core.data.baselines import baselines
from zorba_core.data.encode import count_cuts, enough_length, label_tokens
from zorba_core.data.load import MOST_TESTED, load
from zorba_core.data.prompts import Prompts, answer_space, fill
from zorba_core.data.task import CLIENT, PLACE, TableRows, Task
from zorba_core.engine.evaluation import choose_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOST_OF_ONE_LABEL = 0.7
_MEASURED = 2_000  # rows whose lengths are measured


def describe_task(task: Task, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, Any]:
    """Describe a task: columns, labels, an example prompt, lengths in tokens, baselines, and ``advice``, a sentence for
    each possible improvement.

    Raises:
        InvalidInputError, MissingDataError: rows are missing or cannot be trained on; names file and line.
    """
    train, test = load(task), load(task, task.rows.evaluation_split)
    tested = test.iloc[choose_rows(len(test), MOST_TESTED, 0)]
    own = task.rows if isinstance(task.rows, TableRows) else TableRows()
    facts = {
        "task": task.name,
        "kind": task.kind,
        "columns": {
            "text": list(task.text_columns),
            "label": own.label or ("label" if "label" in task.columns else None),
            "answer": list(task.answer_columns) or None,
            "client": own.client,
        },
        "rows": {"train": len(train), task.rows.evaluation_split: len(test)},
        "clients": dict(sorted(Counter(train[CLIENT]).items())) if CLIENT in train else {},
        "labels": _labels(task, train, test, tokenizer),
        "prompt": task.prompt,
        "example": _example(task, train, tokenizer, seq_len),
        "lengths": _lengths(task, train, tokenizer, seq_len),
        "baselines": baselines(task, train, tested),
        "baseline_rows": len(tested),
    }
    return {**facts, "advice": [*_advice(task, facts, train, test)]}


def _labels(
    task: Task, train: pd.DataFrame, test: pd.DataFrame, tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, Any]]:
    if "label" not in train:
        return []
    counts = [np.bincount(frame["label"], minlength=task.num_classes).tolist() for frame in (train, test)]
    tokens = label_tokens(task, tokenizer) if task.kind == "labels" else [[]] * task.num_classes
    parts = zip(task.label_names, task.label_words or task.options, tokens, *counts, strict=True)
    return [
        {"name": name, "word": word, "tokens": tokenizer.convert_ids_to_tokens(ids), "train": of_train, "test": of_test}
        for name, word, ids, of_train, of_test in parts
    ]


def _example(task: Task, train: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, Any]:
    """The first row's prompt, its tokens, and the right answer."""
    row = train.head(1).reset_index(drop=True)
    prompts = Prompts(task, row, tokenizer)
    ids = prompts.tokens(0, max(seq_len - prompts.fixed, prompts.num_texts))
    if task.kind == "labels":
        answer = task.label_words[int(row["label"].iloc[0])]
    else:
        (answer,) = fill(task.answer if task.kind == "text" else task.options[int(row["label"].iloc[0])], row)
    return {
        "place": row[PLACE].iloc[0] if PLACE in row else "row 0",
        "prompt": tokenizer.decode(ids),
        "answer": answer_space(task.prompt) + answer,
        "tokens": tokenizer.convert_ids_to_tokens(ids),
    }


def _lengths(task: Task, train: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, Any]:
    """Lengths in tokens of the first rows' uncut prompts, the ``seq_len`` that is enough for 99 % of them and their
    answers, and how many of them this one cuts."""
    measured = train.head(_MEASURED)
    prompts = Prompts(task, measured, tokenizer)
    length_R = np.array([prompts.fixed + prompts.length(row) for row in range(len(measured))])
    fits = seq_len > prompts.fixed
    return {
        "measured_rows": len(measured),
        "prompt_itself": prompts.fixed,
        **{name: int(np.quantile(length_R, share)) for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))},
        "longest": int(length_R.max()),
        "enough": enough_length(task, measured, tokenizer),
        "seq_len": seq_len,
        **(count_cuts(task, measured, tokenizer, seq_len) if fits else {"prompts_cut": len(measured)}),
    }


def _advice(task: Task, facts: dict[str, Any], train: pd.DataFrame, test: pd.DataFrame) -> Iterator[str]:
    lengths, labels = facts["lengths"], facts["labels"]
    measured, cut, seq_len = lengths["measured_rows"], lengths["prompts_cut"], lengths["seq_len"]
    enough = lengths["enough"]
    if cut > measured // 100:
        yield f"{cut} of {measured} rows lose the end of their text: --seq-len {enough}, or shorter texts"
    elif enough <= seq_len // 2:
        yield f"99 of 100 rows fit with their answers: --seq-len {enough} is faster"
    if lengths.get("answers_cut"):
        yield f"{lengths['answers_cut']} of {measured} answers lose their end: a larger --seq-len"
    split = [label["word"] for label in labels if len(label["tokens"]) > 1]
    if split:
        yield (
            f"the tokenizer splits {len(split)} label words ({', '.join(split[:5])}): words of one token are scored "
            "faster (--label-words)"
        )
    untested = [label["name"] for label in labels if label["test"] == 0]
    if untested:
        yield f"no test row has the label {', '.join(untested[:5])}: add rows, or give --test FILE"
    copied = [column for column in task.text_columns if task.kind == "text" and column in task.answer_columns]
    if copied:
        yield f"the prompt contains {copied[0]}, the column of the answer: the model only copies it"
    if across := repeated(task, train, test):
        yield f"{across} test rows are training rows too: remove them from one file"
    if "label" in train:
        label_of: dict[object, int] = {}
        pairs = zip(_texts(task, train), train["label"], strict=True)
        if twice := len({text for text, label in pairs if label_of.setdefault(text, label) != label}):
            yield f"{twice} texts have two labels: keep one label for each text"


def uneven_labels(train: pd.DataFrame) -> str:
    """A line if one label has most rows, which the centred loss learns badly; else empty."""
    share = train["label"].value_counts(normalize=True).max() if "label" in train else 0.0
    if share < MOST_OF_ONE_LABEL:
        return ""
    return f"{share:.0%} of the rows have one label: calibration is base, not batch [inferred; --calibration]"


def repeated(task: Task, train: pd.DataFrame, test: pd.DataFrame) -> int:
    """The number of test rows whose texts are those of a training row."""
    texts = {*_texts(task, train)}
    return sum(text in texts for text in _texts(task, test))


def _texts(task: Task, frame: pd.DataFrame) -> Iterable[object]:
    columns = [frame[column] for column in task.text_columns]
    return columns[0] if len(columns) == 1 else zip(*columns, strict=True)
