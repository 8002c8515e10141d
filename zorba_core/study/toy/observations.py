"""What the paper says about small matrices, checked on every 3 x 3 matrix, with exact fractions.

Classes carry the letters a to q, by total of activated blocks, then Lambda; the paper numbers its cases in a figure
that is not in its text. Everything below is computed from the enumeration, nothing is written down.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from zorba_core.allocation import Allocation
from zorba_core.study.toy.matrices import MatrixClass, canonical_form, enumerate_classes

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Fact:
    """A claim of the paper, and what enumeration shows."""

    key: str
    title: str
    claim: str
    verdict: str  # one word or two
    finding: str  # one sentence with the numbers
    shows: tuple[str, ...]  # letters of the classes that show it
    pairs: tuple[tuple[str, str], ...] = ()  # (from, to): letters to compare


def exact_lambda(allocation: Allocation) -> Fraction:
    """Lambda as a fraction; every client needs a block."""
    return _score(allocation.least_popularity_N.tolist())


def exact_v(allocation: Allocation) -> Fraction:
    """V as a fraction; every block needs a client."""
    return sum(Fraction(1, int(c)) for c in allocation.popularity_M) / allocation.num_blocks


@functools.cache
def lettered_classes() -> dict[str, MatrixClass]:
    """The 17 classes of the 3 x 3 toy, a to q."""
    classes = enumerate_classes(3, 3)
    return dict(zip(string.ascii_lowercase[: len(classes)], classes, strict=True))


def majorises(x: Iterable[int], y: Iterable[int]) -> bool:
    """x is at least as uneven as y: equal sums, and the k largest of x add up to no less, for every k."""
    a, b = _falling(x), _falling(y)
    return sum(a) == sum(b) and all(p >= q for p, q in _partial_sums(a, b))


def weakly_better(x: Iterable[int], y: Iterable[int]) -> bool:
    """The k smallest of x add up to at least those of y, for every k: enough for the lower Lambda (of popularities)."""
    return all(p >= q for p, q in _partial_sums(sorted(x), sorted(y)))


def accepted_by_theorem_3(vectors: Sequence[Vector]) -> list[Vector]:
    """Vectors of least popularities that pass the rule: the largest smallest entry, then the fewest entries at it."""
    largest = max(map(min, vectors))
    vectors = [vector for vector in vectors if min(vector) == largest]
    fewest = min(vector.count(largest) for vector in vectors)
    return [vector for vector in vectors if vector.count(largest) == fewest]


@functools.cache
def single_steps() -> tuple[tuple[str, str, int], ...]:
    """Every way to switch on one more block of a feasible matrix: (class before, class after, sign of Lambda's change).

    936 steps in all.
    """
    letter_of = {canonical_form(each.representative.A_MN): x for x, each in lettered_classes().items()}
    value = {x: exact_lambda(each.representative) for x, each in lettered_classes().items()}
    steps = []
    for cells in itertools.product((False, True), repeat=9):
        A_MN = np.array(cells).reshape(3, 3)
        if not (A_MN.any(axis=0).all() and A_MN.any(axis=1).all()):
            continue
        before = letter_of[canonical_form(A_MN)]
        for m, n in np.argwhere(~A_MN):
            A_MN[m, n] = True
            after = letter_of[canonical_form(A_MN)]
            A_MN[m, n] = False
            steps.append((before, after, (value[after] > value[before]) - (value[after] < value[before])))
    return tuple(steps)


def facts() -> tuple[Fact, ...]:
    """The paper's four observations, Lemma 5 and Theorem 3."""
    return (_observation_1(), _observation_2(), _observation_3(), _observation_4(), _lemma_5(), _theorem_3())


def counter_example() -> tuple[Allocation, Allocation]:
    """The smallest case against Theorem 3, budgets (3, 2, 1, 1, 1, 1) and three blocks: what its rule asks for, and
    the matrix of lowest Lambda."""
    flat = Allocation([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1]])
    hub = Allocation([[1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    return flat, hub


def _observation_1() -> Fact:
    classes, value = lettered_classes(), _values()
    means, lowest = [], []
    for total in range(3, 10):
        here = [x for x, each in classes.items() if each.total_blocks == total]
        count = sum(classes[x].count for x in here)
        means.append(sum(value[x] * classes[x].count for x in here) / count)
        lowest.append(min(here, key=value.__getitem__))
    falls = all(b < a for a, b in itertools.pairwise(means))
    never_rises = all(value[b] <= value[a] for a, b in itertools.pairwise(lowest))
    return Fact(
        "observation-1",
        "Observation 1",
        "At a large scale, more activated blocks generally reduce Λ; the best is all clients activating all blocks.",
        "holds" if falls and never_rises else "contradicted",
        f"From 3 to 9 blocks the mean Λ over all matrices falls at every step, from {means[0]} to {means[-1]}, the "
        f"lowest never rises, and full activation ({lowest[-1]}) alone reaches {value[lowest[-1]]}.",
        tuple(lowest),
        tuple(itertools.pairwise(lowest)),
    )


def _observation_2() -> Fact:
    effects = Counter(sign for _, _, sign in single_steps())
    stays = sorted({(before, after) for before, after, sign in single_steps() if sign == 0})
    return Fact(
        "observation-2",
        "Observation 2",
        "At a small scale, activating more blocks does not always improve the convergence.",
        "holds" if effects[0] + effects[1] else "contradicted",
        f"Of the {sum(effects.values())} ways to switch on one more block, {effects[-1]} lower Λ, {effects[0]} leave "
        f"it as it is and {effects[1]} raise it; the arrows are the steps that leave it as it is.",
        tuple(sorted({x for pair in stays for x in pair})),
        tuple(stays),
    )


def _observation_3() -> Fact:
    classes, value = lettered_classes(), _values()
    pairs = [
        (fewer, more)
        for fewer, more in itertools.product(classes, repeat=2)
        if classes[more].total_blocks == classes[fewer].total_blocks + 1 and value[fewer] < value[more]
    ]
    by_one = sorted({(before, after) for before, after, sign in single_steps() if sign > 0})
    strongest = " and ".join(f"{a} to {b} ({value[a]} to {value[b]})" for a, b in by_one)
    return Fact(
        "observation-3",
        "Observation 3",
        "One more activated block can degrade the convergence (case 5 has one more than case 11, and a higher Λ).",
        "holds" if pairs else "contradicted",
        f"{len(pairs)} pairs of classes one block apart have the higher Λ with more blocks. From {strongest} nothing "
        "is even rearranged: one block is added, and Λ rises.",
        tuple(sorted({x for pair in pairs for x in pair})),
        tuple(pairs),
    )


def _observation_4() -> Fact:
    lower, higher = uneven_pairs()
    return Fact(
        "observation-4",
        "Observation 4",
        "With equal totals, a more imbalanced allocation can have the lower Λ (cases 8 and 9).",
        ("holds, as an example" if higher else "holds") if lower else "contradicted",
        f"In {len(lower)} pairs of classes with equal totals the more uneven one has the lower Λ (arrows point to it); "
        f"in {len(higher)} others it has the higher, so it is no rule. {UNEVEN}",
        tuple(sorted({x for pair in lower for x in pair})),
        tuple((high, low) for low, high in lower),
    )


UNEVEN = (
    "More uneven means: the larger numbers take more of the total at every step (majorisation), in blocks' "
    "popularities or in clients' blocks, and in neither the other way round."
)


def uneven_pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs (lower Lambda, higher Lambda) of classes with equal totals where the lower one is the more uneven, and
    where it is the more even. ``UNEVEN`` says what that means; the toy page and the ledger both count these."""
    return _pairs_by_unevenness(_more_uneven)


def uneven_pairs_by_variance() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The same by another reading: the more uneven class has the larger variance of popularities. It counts other
    pairs, so that the count hangs on the reading while the example does not."""
    return _pairs_by_unevenness(lambda a, b: int(np.sign(_square_sum(a) - _square_sum(b))))


def _square_sum(allocation: Allocation) -> int:
    """Orders the variances of the popularities, in whole numbers, where the totals are equal."""
    return int(np.square(allocation.popularity_M).sum())


def _pairs_by_unevenness(
    compare: Callable[[Allocation, Allocation], int],
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """``compare`` is 1 where the first is the more uneven, -1 where the second is, 0 where neither."""
    classes, value = lettered_classes(), _values()
    uneven_is_lower, uneven_is_higher = [], []
    for low, high in itertools.permutations(classes, 2):
        a, b = classes[low].representative, classes[high].representative
        if a.total_blocks != b.total_blocks or value[low] >= value[high]:
            continue
        sign = compare(a, b)
        if sign:
            (uneven_is_lower if sign > 0 else uneven_is_higher).append((low, high))
    return uneven_is_lower, uneven_is_higher


def _more_uneven(a: Allocation, b: Allocation) -> int:
    verdicts = {
        _compare(a.popularity_M.tolist(), b.popularity_M.tolist()),
        _compare(a.blocks_held_N.tolist(), b.blocks_held_N.tolist()),
    } - {"equal"}
    return (verdicts == {"more uneven"}) - (verdicts == {"more even"})


def _lemma_5() -> Fact:
    vectors = sorted({_least(each.representative) for each in lettered_classes().values()})
    pairs = list(itertools.combinations(vectors, 2))
    ordered = [(x, y) for x, y in pairs if majorises(x, y) or majorises(y, x)]
    weaker = [(x, y) for x, y in pairs if weakly_better(x, y) or weakly_better(y, x)]
    right = all((_score(x) < _score(y)) == majorises(y, x) for x, y in ordered)
    arrows = []
    for lower, higher in (sorted(pair, key=_score) for pair in ordered):
        arrows.append((_letters_of(higher)[0], _letters_of(lower)[0]))
    return Fact(
        "lemma-5",
        "Lemma 5",
        "If the sorted least popularities of A are majorised by those of A′, then Λ(A) < Λ(A′).",
        "true, but short" if right else "contradicted",
        f"It orders {len(ordered)} of the {len(pairs)} pairs of different vectors, since majorisation compares only "
        f"equal sums; asking merely that the k smallest add up to no less, for every k, orders {len(weaker)}.",
        tuple(sorted({x for v in itertools.chain.from_iterable(ordered) for x in _letters_of(v)})),
        tuple(arrows),
    )


def _theorem_3() -> Fact:
    classes, value = lettered_classes(), _values()
    total = 5
    here = {x: _least(each.representative) for x, each in classes.items() if each.total_blocks == total}
    accepted = accepted_by_theorem_3(list(here.values()))
    chosen = [x for x, vector in here.items() if vector in accepted]
    best = min(here, key=value.__getitem__)
    flat, hub = counter_example()
    return Fact(
        "theorem-3",
        "Theorem 3",
        "Minimising Λ is equivalent to maximising the least popularity, then minimising the number of clients at it.",
        "contradicted" if exact_lambda(hub) < exact_lambda(flat) else "undecided",
        f"With {total} blocks its rule accepts {', '.join(chosen)} alike, though only {best} has the lowest Λ; and "
        f"with 3 blocks, 6 clients and budgets 3, 2, 1, 1, 1, 1 it asks for Λ = {exact_lambda(flat)} where "
        f"{exact_lambda(hub)} is possible.",
        tuple(chosen),
        tuple((x, best) for x in chosen if x != best),
    )


def _values() -> dict[str, Fraction]:
    return {x: exact_lambda(each.representative) for x, each in lettered_classes().items()}


def _letters_of(vector: Vector) -> list[str]:
    return [x for x, each in lettered_classes().items() if _least(each.representative) == vector]


def _least(allocation: Allocation) -> Vector:
    return _falling(allocation.least_popularity_N.tolist())


def _score(least: Iterable[int]) -> Fraction:
    return sum((Fraction(1, int(c) ** 2) for c in least), Fraction(0))


def _compare(x: Sequence[int], y: Sequence[int]) -> str:
    more, less = majorises(x, y), majorises(y, x)
    return "equal" if more and less else "more uneven" if more else "more even" if less else "neither"


def _falling(numbers: Iterable[int]) -> Vector:
    return tuple(sorted(numbers, reverse=True))


def _partial_sums(x: Sequence[int], y: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(itertools.accumulate(x), itertools.accumulate(y), strict=True))
