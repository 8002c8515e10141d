"""toy-reviews and toy-verdicts: short reviews from a grammar written for this project. They need no data, no network.

Counting words is not enough: about half of the sentences negate the verdict ("was not slow"), contrast it ("the room
was clean but the food was awful") or put it after a concession ("although the staff was kind, ..."). The clause after
"but", or outside "although", decides the label.

toy-verdicts asks the model to write the verdict. The base model writes no such sentence; a model that has learned only
its form is right half of the time.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pandas as pd

GRAMMAR_VERSION = 1  # raised when sentences change: results of different versions cannot be compared
_SEED = 20_250_101
VERDICTS = ("it was bad", "it was good")  # of a negative and of a positive remark
VALIDATION_PER_CLASS = 500
TRAIN_PER_CLASS = 3_000

_OPENERS = (
    "",
    "",
    "",
    "honestly ,",
    "in the end ,",
    "as far as i can tell ,",
    "on our second visit ,",
    "to be fair ,",
    "last week ,",
    "once again ,",
    "i would say that",
    "my friends agree that",
    "everyone said that",
)
_ASPECTS = (
    "food", "film", "story", "staff", "room", "music", "show", "book", "service", "acting", "ending", "plot", "soup",
    "garden", "hotel", "coffee", "play", "museum", "trip", "meal", "song", "game", "view", "bread", "concert",
    "phone",
)  # fmt: skip
_GOOD = (
    "lovely", "charming", "funny", "delightful", "excellent", "wonderful", "fresh", "clever", "warm", "beautiful",
    "brilliant", "enjoyable", "superb", "moving", "pleasant", "perfect", "smart", "impressive",
)  # fmt: skip
_BAD = (
    "awful", "boring", "dull", "horrible", "slow", "stale", "weak", "ugly", "rude", "tedious", "poor", "dreadful",
    "annoying", "disappointing", "messy", "cheap", "silly", "painful",
)  # fmt: skip
_DEGREES = ("", "", "really ", "very ", "quite ", "truly ", "rather ", "so ")
_NEGATIONS = ("not ", "never ", "not at all ", "hardly ", "by no means ")
_TAILS = ("", "", "", "for the price", "this time", "from start to end", "that evening", "for a small place")


def toy_reviews(split: str) -> pd.DataFrame:
    """The rows of a split, with columns ``text`` and ``label`` (0 negative, 1 positive), half of each label.

    ``base`` and ``federated`` have 3,000 rows each and ``validation`` 1,000; no sentence is in two splits.
    """
    start, stop = {
        "validation": (0, VALIDATION_PER_CLASS),
        "base": (VALIDATION_PER_CLASS, VALIDATION_PER_CLASS + TRAIN_PER_CLASS // 2),
        "federated": (VALIDATION_PER_CLASS + TRAIN_PER_CLASS // 2, VALIDATION_PER_CLASS + TRAIN_PER_CLASS),
    }[split]
    chosen = [(text, label) for label in (0, 1) for text in _sentences(label)[start:stop]]
    order = np.random.default_rng([_SEED, 2]).permutation(len(chosen))
    return pd.DataFrame([chosen[index] for index in order], columns=["text", "label"])


def toy_verdicts(split: str) -> pd.DataFrame:
    """The reviews of a split of toy-reviews, with columns ``text`` and ``answer``, the verdict."""
    remarks = toy_reviews(split)
    return pd.DataFrame({"text": remarks["text"], "answer": [VERDICTS[label] for label in remarks["label"]]})


@functools.cache
def _sentences(label: int) -> tuple[str, ...]:
    """Different sentences of one class, sorted by hash, so that the split of a sentence depends only on its text."""
    rng = np.random.default_rng([_SEED, label])
    texts: set[str] = set()
    while len(texts) < VALIDATION_PER_CLASS + TRAIN_PER_CLASS:
        texts.add(_sentence(rng, bool(label)))
    return tuple(sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest()))


def _sentence(rng: np.random.Generator, positive: bool) -> str:
    first, second = rng.choice(_ASPECTS, size=2, replace=False)
    verdict = _clause(rng, second, positive)
    turn = rng.random()
    if turn < 0.2:
        body = f"{_clause(rng, first, not positive)} but {verdict}"
    elif turn < 0.35:
        body = f"although {_clause(rng, first, not positive)} , {verdict}"
    elif turn < 0.45:
        body = f"{_clause(rng, first, positive)} and {verdict}"
    else:
        body = verdict
    parts = (_pick(rng, _OPENERS), body, _pick(rng, _TAILS), ".")
    return " ".join(part for part in parts if part)


def _clause(rng: np.random.Generator, aspect: str, positive: bool) -> str:
    """A clause about one aspect; one in four negates a word of the opposite class."""
    if rng.random() < 0.25:
        return f"the {aspect} was {_pick(rng, _NEGATIONS)}{_pick(rng, _BAD if positive else _GOOD)}"
    return f"the {aspect} was {_pick(rng, _DEGREES)}{_pick(rng, _GOOD if positive else _BAD)}"


def _pick(rng: np.random.Generator, words: tuple[str, ...]) -> str:
    return words[int(rng.integers(len(words)))]
