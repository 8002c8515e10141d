"""How close written text comes to the answer that was wanted: exact match, token F1 and ROUGE-L, row by row.

ROUGE-L is written here, a longest common subsequence of a dozen lines: the package rouge-score brings nltk, absl,
joblib and cloudpickle for it. The values are its own (``rougeL``, F measure, no stemming), which a test pins.

Shapes: R rows.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NOT_WORD = re.compile(r"[\W_]+")


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and doubled spaces (SQuAD: Rajpurkar et al., 2016, arXiv:1606.05250).
    Where nothing would be left ("a", "-"), the text in lower case with single spaces."""
    plain = " ".join(text.lower().split())
    return " ".join(_ARTICLES.sub(" ", plain.translate(_PUNCTUATION)).split()) or plain


def exact_match(written: str, answer: str) -> float:
    """1 where both are the same once normalised, else 0."""
    return float(normalised(written) == normalised(answer))


def token_f1(written: str, answer: str) -> float:
    """Harmonic mean of precision and recall of the normalised words, in any order."""
    ours, wanted = normalised(written).split(), normalised(answer).split()
    return _f1((Counter(ours) & Counter(wanted)).total(), len(ours), len(wanted))


def rouge_l(written: str, answer: str) -> float:
    """The same of the longest common subsequence of words (Lin, 2004), of letters and digits in lower case."""
    ours, wanted = _words(written), _words(answer)
    return _f1(_common(ours, wanted), len(ours), len(wanted))


TEXT_METRICS: dict[str, Callable[[str, str], float]] = {
    "exact_match": exact_match,
    "token_f1": token_f1,
    "rouge_l": rouge_l,
}


def text_metrics(written: Sequence[str], answers: Sequence[str]) -> dict[str, np.ndarray]:
    """Each metric of each row, (R,), by name."""
    pairs = list(zip(written, answers, strict=True))
    return {name: np.array([metric(*pair) for pair in pairs]) for name, metric in TEXT_METRICS.items()}


def _f1(common: int, ours: int, wanted: int) -> float:
    if ours == 0 or wanted == 0:
        return float(ours == wanted)
    return 2 * common / (ours + wanted)


def _words(text: str) -> list[str]:
    return _NOT_WORD.sub(" ", text.lower()).split()


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence; time and memory of the table's rows."""
    before = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for place, other in enumerate(second):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[place]))
        before = row
    return before[-1]
