"""The 3 x 3 toy: 265 matrices in 17 classes, and what they say of the observations, by counts made another way."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from notebooks.reproduction.toy import (
    canonical_form,
    class_lambdas,
    counter_example,
    enumerate_classes,
    exact_lambda,
    lettered_classes,
    majorises,
    single_steps,
    uneven_pairs,
)
from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.errors import InvalidInputError

LAMBDAS = {
    3: [3],
    4: [3 / 2, 9 / 4],
    5: [11 / 9, 3 / 2, 3 / 2, 3 / 2, 19 / 9],
    6: [3 / 4, 3 / 4, 49 / 36, 3 / 2],
    7: [11 / 18, 3 / 4, 11 / 9],
    8: [11 / 18],
    9: [1 / 3],
}


def test_seventeen_classes_hold_all_265_matrices_with_the_known_lambdas():
    classes = enumerate_classes()
    assert len(classes) == 17
    assert sum(each.count for each in classes) == 265
    for total, values in LAMBDAS.items():
        assert [each.bias_lambda for each in classes if each.total_blocks == total] == pytest.approx(values)
    assert [float(value) for value in class_lambdas().values()] == pytest.approx([c.bias_lambda for c in classes])


def test_a_class_comes_out_the_same_under_any_order_of_blocks_and_clients():
    for rows, columns in itertools.product(itertools.permutations(range(3)), repeat=2):
        for each in enumerate_classes():
            shuffled = each.representative.A_MN[list(rows)][:, list(columns)]
            assert canonical_form(shuffled) == canonical_form(each.representative.A_MN)
            assert Allocation(shuffled).bias_lambda == pytest.approx(each.bias_lambda)


def test_too_many_cells_are_refused():
    with pytest.raises(InvalidInputError, match="cells"):
        enumerate_classes(5, 4)


def test_one_more_block_lowers_lambda_738_times_of_936_and_raises_it_36_times():
    signs = [sign for _, _, sign in single_steps()]
    assert [signs.count(sign) for sign in (-1, 0, 1)] == [738, 162, 36]
    totals = {letter: each.total_blocks for letter, each in lettered_classes().items()}
    assert all(totals[after] == totals[before] + 1 for before, after, _ in single_steps())


def test_observation_4_is_right_as_often_as_it_is_wrong():
    classes, value = lettered_classes(), class_lambdas()
    lower, higher = uneven_pairs()
    assert len(lower) == len(higher) == 6
    for low, high in lower + higher:
        assert classes[low].total_blocks == classes[high].total_blocks
        assert value[low] < value[high]


def test_majorisation_compares_equal_sums_alone():
    assert majorises((3, 1, 1), (2, 2, 1))
    assert not majorises((2, 2, 1), (3, 1, 1))
    assert not majorises((3, 3, 3), (1, 1, 1))


def test_the_counter_example_is_what_the_solvers_give():
    flat, hub = counter_example()
    problem = Problem([3, 2, 1, 1, 1, 1], 3)
    assert all((each.blocks_held_N <= problem.budget_N).all() for each in (flat, hub))
    assert solve(problem, "lexicographic").value == pytest.approx(float(exact_lambda(flat)))
    proven = solve(problem, "exact")
    assert proven.optimal
    assert proven.value == pytest.approx(float(exact_lambda(hub)))
    assert (exact_lambda(flat), exact_lambda(hub)) == (Fraction(2, 3), Fraction(33, 50))
    assert np.sort(hub.popularity_M).tolist() == [2, 2, 5]
