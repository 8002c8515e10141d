"""What a task's rows are to a model, before anything is trained: rendered prompts, label balance, lengths, label words,
duplicates, clients, and what to change.

Shapes: R rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zorba_core.data.encode import count_cuts, label_tokens
from zorba_core.data.load import load_split
from zorba_core.data.prompts import Prompts, answer_space, fill
from zorba_core.data.task import CLIENT, PLACE, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHOWN_PROMPTS = 3
_MEASURED = 2_000  # rows, for lengths
_STEP = 8  # of an advised seq_len


def check_task(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    seq_len: int,
    max_positions: int | None = None,
) -> dict[str, Any]:
    """Facts about a task for a model's tokenizer, and ``recommendations``: a sentence each, none where all is well.

    Raises:
        InvalidInputError, MissingDataError: rows that no run could train on; by file and line.
    """
    train, test = load_split(task), load_split(task, task.rows.evaluation_split)
    lengths = _lengths(task, train, tokenizer, seq_len)
    report = {
        "task": task.name,
        "kind": task.kind,
        "rows": {"train": len(train), task.rows.evaluation_split: len(test)},
        "prompts": _prompts(task, train, tokenizer, seq_len),
        "labels": _labels(task, train, test, tokenizer),
        "lengths": lengths,
        "duplicates": _duplicates(task, train, test),
        "clients": dict(Counter(train[CLIENT])) if CLIENT in train else {},
    }
    return {**report, "recommendations": [*_recommended(task, report, seq_len, max_positions)]}


def _prompts(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> list[dict[str, Any]]:
    """The first row of each of the first labels, as the model reads it."""
    if "label" in frame:
        firsts = frame.drop_duplicates("label").head(SHOWN_PROMPTS).index.tolist()
        chosen = [*firsts, *[index for index in frame.index if index not in firsts]][:SHOWN_PROMPTS]
    else:
        chosen = frame.index[:SHOWN_PROMPTS].tolist()
    rows = frame.loc[chosen].reset_index(drop=True)
    prompts = Prompts(task, rows, tokenizer)
    shown = []
    for row in range(len(rows)):
        ids = prompts.tokens(row, max(seq_len - prompts.fixed, prompts.num_texts))
        shown.append(
            {
                "place": rows[PLACE].iloc[row] if PLACE in rows else f"row {row}",
                "prompt": tokenizer.decode(ids),
                "answer": _answer(task, rows.iloc[[row]]),
                "tokens": tokenizer.convert_ids_to_tokens(ids),
            }
        )
    return shown


def _answer(task: Task, row: pd.DataFrame) -> str:
    space = answer_space(task.prompt)
    if task.kind == "labels":
        return space + task.label_words[int(row["label"].iloc[0])]
    template = task.answer if task.kind == "text" else task.options[int(row["label"].iloc[0])]
    return space + fill(template, row)[0]


def _labels(
    task: Task, train: pd.DataFrame, test: pd.DataFrame, tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, Any]]:
    if "label" not in train:
        return []
    counts = [np.bincount(frame["label"], minlength=task.num_classes) for frame in (train, test)]
    tokens = label_tokens(task, tokenizer) if task.kind == "labels" else [[]] * task.num_classes
    words = task.label_words or task.options
    return [
        {
            "name": task.label_names[label],
            "word": words[label],
            "tokens": tokenizer.convert_ids_to_tokens(tokens[label]),
            "train": int(counts[0][label]),
            "test": int(counts[1][label]),
        }
        for label in range(task.num_classes)
    ]


def _lengths(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, Any]:
    """Tokens of whole prompts, uncut, and what ``seq_len`` cuts, of the first rows."""
    measured = frame.head(_MEASURED)
    prompts = Prompts(task, measured, tokenizer)
    length_R = np.array([prompts.fixed + sum(map(len, prompts.texts(row))) for row in range(len(measured))])
    return {
        "measured_rows": len(measured),
        "prompt_itself": prompts.fixed,
        **{name: int(np.quantile(length_R, share)) for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))},
        "longest": int(length_R.max()),
        "seq_len": seq_len,
        **(
            count_cuts(task, measured, tokenizer, seq_len)
            if seq_len > prompts.fixed
            else {"prompts_cut": len(measured)}
        ),
    }


def _duplicates(task: Task, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, int]:
    texts = [
        pd.Series(list(zip(*(frame[column] for column in task.text_columns), strict=True))) for frame in (train, test)
    ]
    contradictory = 0
    if "label" in train:
        contradictory = int((train["label"].groupby(texts[0].to_numpy()).nunique() > 1).sum())
    return {
        "within_train": int(texts[0].duplicated().sum()),
        "across_the_split": int(texts[1].isin(set(texts[0])).sum()),
        "texts_with_two_labels": contradictory,
    }


def _recommended(task: Task, report: dict[str, Any], seq_len: int, max_positions: int | None) -> Iterator[str]:
    lengths, labels = report["lengths"], report["labels"]
    measured, cut = lengths["measured_rows"], lengths["prompts_cut"]
    enough = min(-(-(lengths["p99"] + 1) // _STEP) * _STEP, max_positions or math.inf)
    if cut > measured // 100:
        cure = f"--seq-len {enough}" if enough > seq_len else "shorter texts, the model has no more positions"
        yield f"{cut} of {measured} rows lose the end of their text: {cure}"
    elif enough <= seq_len // 2:
        yield f"99 of 100 rows have at most {lengths['p99']} tokens: --seq-len {enough} is faster"
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
        yield f"no test row has the label {', '.join(untested[:5])}: more rows, or --test FILE"
    told = [column for column in task.text_columns if task.kind == "text" and column in task.answer_columns]
    if told:
        yield f"the prompt contains {told[0]}, the column of the answer: the model only copies it"
    duplicates = report["duplicates"]
    if duplicates["across_the_split"]:
        yield f"{duplicates['across_the_split']} test rows are training rows too: remove them from one file"
    if duplicates["texts_with_two_labels"]:
        yield f"{duplicates['texts_with_two_labels']} texts have two labels: decide for one"
