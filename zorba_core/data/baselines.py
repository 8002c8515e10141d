"""Accuracy of simple classifiers on the same rows, for comparison with a fine-tuned model."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

from zorba_core.data.task import Task

_MOST_ROWS = 20_000  # for fitting the classifier
_NAMES = {"naive_bayes": "naive Bayes", "majority": "always the commonest label"}


def baselines(task: Task, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Accuracy on ``test`` of each baseline, by name; empty for a task without labels.

    ``majority`` always answers the most frequent label of ``train``. ``naive_bayes`` is multinomial over words and
    pairs of words; without any word in the texts it is left out.
    """
    if task.kind != "labels":
        return {}
    scores = {"majority": float(np.mean(test["label"].to_numpy() == train["label"].mode()[0]))}
    with contextlib.suppress(ValueError):  # raised if no text has a word
        scores["naive_bayes"] = _naive_bayes(task, train, test)
    return scores


def _naive_bayes(task: Task, train: pd.DataFrame, test: pd.DataFrame) -> float:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    train = train.sample(min(len(train), _MOST_ROWS), random_state=0)
    columns = list(task.text_columns)
    texts = [[" ".join(parts) for parts in frame[columns].itertuples(index=False)] for frame in (train, test)]
    counts = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", max_features=200_000)
    model = MultinomialNB().fit(counts.fit_transform(texts[0]), train["label"])
    return float(model.score(counts.transform(texts[1]), test["label"]))


def of_baselines(scores: Mapping[str, float]) -> str:
    """The baselines' accuracies, as a phrase."""
    others = ", ".join(f"{_NAMES[name]} {score:.3f}" for name, score in sorted(scores.items(), reverse=True))
    return f"without a language model: {others}"
