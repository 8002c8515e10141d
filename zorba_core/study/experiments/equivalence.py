"""Is a difference small enough to call two arms alike? Two one-sided tests against a margin.

An interval that contains zero shows no likeness: it may contain large differences too. Two arms are alike when the
whole interval of two one-sided tests at 5 % each (the 90 % interval) lies within the margin (Schuirmann 1987).
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.statistics import mean_interval

# Nats of late validation loss below which two allocations count as alike: 2.5 % of the 0.40 nats that the runs of the
# case study gain, and what five of their last rounds gain, a wide margin for a claim about rounds. It was written down
# after the stored runs were made and before any that follow; every row that uses it also says which margins the runs
# would meet.
MARGIN_NATS = 0.01
LEVEL = 0.05  # of each of the two one-sided tests


class Likeness(enum.Enum):
    """What a margin decides; the value is the sentence a person reads."""

    ALIKE = "alike: the difference is smaller than the margin"
    APART = "apart: the difference is larger than the margin"
    UNDECIDED = "undecided: the interval crosses the margin"


class Equivalence(NamedTuple):
    """A paired difference against ``margin``: its mean, the 90 % interval, and the larger p-value of the two tests."""

    value: float
    low: float
    high: float
    margin: float
    p_value: float
    count: int
    likeness: Likeness

    @property
    def least_margin(self) -> float:
        """The smallest margin within which these differences would count as alike."""
        return max(abs(self.low), abs(self.high))


def equivalence(differences: ArrayLike, margin: float = MARGIN_NATS) -> Equivalence:
    """Two one-sided t tests of the mean of ``differences`` against -margin and +margin.

    Raises:
        InvalidInputError: a margin that is not positive, no differences, or one that is not finite.
    """
    if not margin > 0:
        raise InvalidInputError(f"the margin is {margin:g}; it must be positive")
    values = np.asarray(differences, float)
    interval = mean_interval(values, 1 - 2 * LEVEL)
    if interval.count < 2:
        return Equivalence(*interval[:3], margin, 1.0, interval.count, Likeness.UNDECIDED)
    error = float(values.std(ddof=1)) / math.sqrt(interval.count)
    if error == 0:
        p_value = 0.0 if abs(interval.value) < margin else 1.0
    else:
        p_value = float(stats.t.sf((margin - abs(interval.value)) / error, interval.count - 1))
    if -margin < interval.low and interval.high < margin:
        likeness = Likeness.ALIKE
    elif interval.low > margin or interval.high < -margin:
        likeness = Likeness.APART
    else:
        likeness = Likeness.UNDECIDED
    return Equivalence(*interval[:3], margin, p_value, interval.count, likeness)


def count_to_be_alike(test: Equivalence, most: int = 1000) -> int | None:
    """How many differences an interval needs to lie within the margin, if mean and deviation stay as they are; None
    when the mean itself is outside, when it takes more than ``most``, or when a single value tells no deviation."""
    room = test.margin - abs(test.value)
    if test.count < 2 or room <= 0:
        return None
    deviation = (test.high - test.value) * math.sqrt(test.count) / stats.t.ppf(1 - LEVEL, test.count - 1)
    count_C = np.arange(2, most + 1)
    enough = np.flatnonzero(stats.t.ppf(1 - LEVEL, count_C - 1) * deviation / np.sqrt(count_C) < room)
    return int(count_C[enough[0]]) if enough.size else None


def sign_test(differences: ArrayLike) -> tuple[int, int, float]:
    """(how many are below zero, how many are not zero, two-sided p-value that half of them are below)."""
    values = np.asarray(differences, float)
    below, count = int((values < 0).sum()), int((values != 0).sum())
    return below, count, float(stats.binomtest(below, count).pvalue) if count else 1.0
