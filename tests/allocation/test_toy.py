"""The 3 x 3 toy: 265 matrices, 17 classes, and the paper's observations that they show."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from zorba_core.allocation import Allocation
from zorba_core.errors import InvalidInputError
from zorba_core.study.toy.matrices import enumerate_classes

LAMBDAS = {
    3: [3],
    4: [3 / 2, 9 / 4],
    5: [11 / 9, 3 / 2, 3 / 2, 3 / 2, 19 / 9],
    6: [3 / 4, 3 / 4, 49 / 36, 3 / 2],
    7: [11 / 18, 3 / 4, 11 / 9],
    8: [11 / 18],
    9: [1 / 3],
}


def test_seventeen_classes_hold_all_265_matrices():
    classes = enumerate_classes()
    assert len(classes) == 17
    assert sum(each.count for each in classes) == 265
    assert all(each.representative.is_complete for each in classes)


def test_lambdas_of_the_classes_by_total():
    lambdas = defaultdict(list)
    for each in enumerate_classes():
        lambdas[each.total_blocks].append(each.bias_lambda)
    assert set(lambdas) == set(LAMBDAS)
    for total, values in LAMBDAS.items():
        assert lambdas[total] == pytest.approx(values)


def test_one_block_more_can_raise_lambda_and_imbalance_can_lower_it():
    by_total = defaultdict(list)
    for each in enumerate_classes():
        by_total[each.total_blocks].append(each)
    assert max(c.bias_lambda for c in by_total[6]) > min(c.bias_lambda for c in by_total[5])  # observation 3

    def spread(each):
        return np.ptp(each.representative.popularity_M) + np.ptp(each.representative.blocks_held_N)

    pairs = [(a, b) for classes in by_total.values() for a in classes for b in classes]
    assert any(spread(a) > spread(b) and a.bias_lambda < b.bias_lambda for a, b in pairs)  # observation 4


def test_order_of_blocks_and_clients_changes_neither_lambda_nor_v():
    rng = np.random.default_rng(0)
    for each in enumerate_classes():
        A_MN = each.representative.A_MN
        shuffled = Allocation(A_MN[rng.permutation(3)][:, rng.permutation(3)])
        assert shuffled.bias_lambda == pytest.approx(each.bias_lambda)
        assert shuffled.mean_inverse_popularity == pytest.approx(each.representative.mean_inverse_popularity)


def test_too_many_cells_are_refused():
    with pytest.raises(InvalidInputError, match="cells"):
        enumerate_classes(5, 4)
