"""Metrics of answers. Labels: accuracy with its interval, F1, confusion. Text: exact match, token F1, ROUGE-L.

ROUGE-L is computed here because the package rouge-score needs nltk, absl, joblib and cloudpickle. A test checks that
the values equal the package's (``rougeL``, F measure, no stemming).

Shapes: R rows, C labels.
"""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NOT_WORD = re.compile(r"[\W_]+")


class Answered(ABC):
    """Answers of R rows, each right or wrong."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """R."""

    @property
    @abstractmethod
    def right_R(self) -> np.ndarray:
        """Whether each row's answer is right, bool (R,)."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """All metrics, for JSON."""

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return float(self.right_R.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy."""
        return wilson(int(self.right_R.sum()), self.rows)


@dataclass(frozen=True, eq=False)
class Quality(Answered):
    """Predicted labels of R rows, and the right ones."""

    labels: tuple[str, ...]  # names of 0..C-1
    label_R: np.ndarray  # int64
    probability_RC: np.ndarray  # float64; rows sum to 1

    @property
    def rows(self) -> int:
        return len(self.label_R)

    @property
    def predicted_R(self) -> np.ndarray:
        """The most probable label of each row, int64."""
        return self.probability_RC.argmax(axis=1)

    @property
    def right_R(self) -> np.ndarray:
        return self.predicted_R == self.label_R

    @property
    def loss(self) -> float:
        """Mean cross-entropy over the labels, nats."""
        of_label_R = self.probability_RC[np.arange(self.rows), self.label_R]
        return float(-np.log(np.maximum(of_label_R, np.finfo(float).tiny)).mean())

    @property
    def confusion_CC(self) -> np.ndarray:
        """The number of rows with label i that were predicted as j, (C, C)."""
        from sklearn.metrics import confusion_matrix  # slow to load

        return confusion_matrix(self.label_R, self.predicted_R, labels=range(len(self.labels)))

    @property
    def per_label(self) -> dict[str, dict[str, Any]]:
        """For each label: its rows, how often it was predicted, precision, recall and F1; ``accuracy`` is the recall.
        A ratio with denominator 0 is None."""
        from sklearn.metrics import precision_recall_fscore_support

        every = range(len(self.labels))
        undefined: Any = np.nan
        ratios: Any = precision_recall_fscore_support(
            self.label_R, self.predicted_R, labels=every, zero_division=undefined
        )
        predicted_C = np.bincount(self.predicted_R, minlength=len(self.labels))
        result = {}
        for name, predicted, precision, recall, f1, rows in zip(self.labels, predicted_C, *ratios, strict=True):
            precision, recall, f1 = (None if np.isnan(ratio) else float(ratio) for ratio in (precision, recall, f1))
            of_label = {"accuracy": recall, "precision": precision, "recall": recall, "f1": f1}
            result[name] = {"rows": int(rows), "predicted": int(predicted), **of_label}
        return result

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels that occur or were predicted."""
        from sklearn.metrics import f1_score

        return float(f1_score(self.label_R, self.predicted_R, average="macro"))

    def describe(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "accuracy": self.accuracy,
            "accuracy_interval": list(self.interval),
            "loss": self.loss,
            "macro_f1": self.macro_f1,
            "per_label": self.per_label,
            "labels": list(self.labels),
            "confusion": self.confusion_CC,
        }


@dataclass(frozen=True, eq=False)
class TextQuality(Answered):
    """Written answers of R rows, and the right ones."""

    expected: tuple[str, ...]
    written: tuple[str, ...]
    loss: float  # mean cross-entropy of the right answers' tokens, nats

    @property
    def rows(self) -> int:
        return len(self.expected)

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """Exact match, token F1 and ROUGE-L of each row, (R,)."""
        return text_metrics(self.written, self.expected)

    @property
    def right_R(self) -> np.ndarray:
        """Whether each row's answer is an exact match, bool (R,)."""
        return self.metrics["exact_match"] == 1

    def describe(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            **{name: float(value_R.mean()) for name, value_R in self.metrics.items()},
            "exact_match_interval": list(self.interval),
            "loss": self.loss,
        }


def wilson(right: int, rows: int) -> tuple[float, float]:
    """95 % score interval of a share (Wilson, 1927)."""
    from scipy.stats import binomtest  # slow to load

    if rows == 0:
        return (0.0, 1.0)
    interval = binomtest(right, rows).proportion_ci(method="wilson")
    return (float(interval.low), float(interval.high))


def by_client(client_R: Sequence[Any], after: Answered, before: Answered | None = None) -> tuple[dict[str, Any], ...]:
    """Accuracy on each client's rows with its interval, the lowest first; ``base_accuracy`` is from ``before``."""
    rows_of: dict[Any, list[int]] = {}
    for row, client in enumerate(client_R):
        rows_of.setdefault(client, []).append(row)
    result = []
    for client, index in rows_of.items():
        right = int(after.right_R[index].sum())
        entry = {
            "client": client,
            "rows": len(index),
            "accuracy": right / len(index),
            "accuracy_interval": list(wilson(right, len(index))),
        }
        if before is not None:
            entry["base_accuracy"] = float(before.right_R[index].mean())
        result.append(entry)
    return tuple(sorted(result, key=lambda entry: entry["accuracy"]))


def change_p_value(fixed: int, broken: int) -> float:
    """p value of McNemar's exact test: two models of equal accuracy differ on the rows at least this unevenly.

    Args:
        fixed, broken: rows that only the second model answers right, and only the first.
    """
    from scipy.stats import binomtest

    return float(binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and doubled spaces (SQuAD: Rajpurkar et al., 2016, arXiv:1606.05250).
    A text of nothing else ("a", "-") keeps them."""
    plain = " ".join(text.lower().split())
    return " ".join(_ARTICLES.sub(" ", plain.translate(_PUNCTUATION)).split()) or plain


def exact_match(written: str, answer: str) -> float:
    """1 if both texts are equal after normalisation, else 0."""
    return float(normalised(written) == normalised(answer))


def token_f1(written: str, answer: str) -> float:
    """Harmonic mean of precision and recall of the normalised words, in any order."""
    ours, wanted = normalised(written).split(), normalised(answer).split()
    return _f1((Counter(ours) & Counter(wanted)).total(), len(ours), len(wanted))


def rouge_l(written: str, answer: str) -> float:
    """F measure of the longest common subsequence of words (Lin, 2004); a word is letters and digits, in lower case."""
    ours, wanted = _words(written), _words(answer)
    return _f1(_common(ours, wanted), len(ours), len(wanted))


def text_metrics(written: Sequence[str], answers: Sequence[str]) -> dict[str, np.ndarray]:
    """For each metric, by name, its value on each row, (R,)."""
    pairs = list(zip(written, answers, strict=True))
    metrics = {"exact_match": exact_match, "token_f1": token_f1, "rouge_l": rouge_l}
    return {name: np.array([metric(*pair) for pair in pairs]) for name, metric in metrics.items()}


def _f1(common: int, ours: int, wanted: int) -> float:
    if ours == 0 or wanted == 0:
        return float(ours == wanted)
    return 2 * common / (ours + wanted)


def _words(text: str) -> list[str]:
    return _NOT_WORD.sub(" ", text.lower()).split()


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, by dynamic programming: O(len(first) len(second))."""
    before = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for place, other in enumerate(second):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[place]))
        before = row
    return before[-1]
