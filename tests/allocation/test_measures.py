"""Each measure against its formula, written out here."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation import MEASURES, Allocation, solve
from zorba_core.allocation.problem import Problem
from zorba_core.study.experiments.measures import allocation_measures, measure_of

MATRICES = {
    "by hand": [[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]],
    "full": np.ones((4, 6)),
    "starved": [[1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]],
    "balanced": solve(Problem([5, 4, 3, 2, 2, 1], 6)).allocation.A_MN,
}


def counts(A_MN):
    """(block, client) of each activated cell, clients per block, blocks per client."""
    cells = [(m, n) for m in range(len(A_MN)) for n in range(len(A_MN[0])) if A_MN[m][n]]
    return cells, [sum(row) for row in A_MN], [sum(column) for column in zip(*A_MN, strict=True)]


def scarcest(A_MN):
    cells, c, _ = counts(A_MN)
    return [min(c[m] for m, other in cells if other == n) for n in range(len(A_MN[0]))]


def weights(A_MN):
    cells, c, _ = counts(A_MN)
    return [sum(1 / c[m] for m, other in cells if other == n) / len(A_MN) for n in range(len(A_MN[0]))]


def noise(A_MN):
    cells, c, k = counts(A_MN)
    return sum(k[n] / c[m] ** 2 for m, n in cells) / len(A_MN)


def coupling(A_MN):
    _, c, _ = counts(A_MN)
    both = [[sum(x * y for x, y in zip(first, second, strict=True)) for second in A_MN] for first in A_MN]
    return sum((both[m][other] / c[m]) ** 2 for m in range(len(c)) for other in range(len(c))) / len(c)


FORMULAS = {
    "lambda": lambda A: sum(1 / least**2 for least in scarcest(A)),
    "mean_inverse_popularity": lambda A: sum(1 / count for count in counts(A)[1]) / len(A),
    "effective_clients": lambda A: 1 / sum(weight**2 for weight in weights(A)),
    "largest_influence": lambda A: max(weights(A)),
    "min_popularity": lambda A: min(counts(A)[1]),
    "coupled_noise": noise,
    "direction_coupling": coupling,
    "total_blocks": lambda A: len(counts(A)[0]),
}


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_its_formula(name, matrix):
    A_MN = np.array(MATRICES[matrix], bool)
    expected = FORMULAS[name](A_MN.astype(int).tolist())
    assert MEASURES[name].value(Allocation(A_MN)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_better_says_where_full_activation_stands(name):
    """No matrix of these is ahead of all blocks on all clients, but in what that costs."""
    measure = MEASURES[name]
    value, full = (measure.value(Allocation(np.array(MATRICES["starved"], bool) | whole)) for whole in (False, True))
    if name in ("coupled_noise", "direction_coupling", "total_blocks"):
        return
    assert value > full if measure.better == "lower" else value < full


@pytest.mark.parametrize("name", MEASURES)
def test_every_reader_has_something_to_show(name):
    measure = MEASURES[name]
    assert measure.text(measure.value(Allocation(np.eye(3, dtype=bool))))
    assert measure.text(float("inf")) == "∞"
    assert measure.formula in measure.help
    assert measure.title.lower() in measure.label.lower()
    assert (f"{measure.better} is better" in measure.axis) == bool(measure.better)


def test_names_in_answers_and_tables_are_those_of_the_measures():
    solution = solve(Problem([5, 4, 3, 2, 2, 1], 6))
    answer = solution.describe()
    assert {name for name in MEASURES if name in answer} == set(MEASURES) - {"coupled_noise", "direction_coupling"}
    for name in set(MEASURES) & set(answer):
        assert answer[name] == MEASURES[name].value(solution.allocation)
    for name, value in allocation_measures(solution.allocation).items():
        inverse = name.startswith("inverse_")
        found = measure_of(name.removeprefix("inverse_")).value(solution.allocation)
        assert value == (1 / found if inverse else found)
