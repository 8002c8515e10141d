"""Which rows each client holds."""

import math

import numpy as np
import pandas as pd
import pytest

from zorba_core.data.divide import dirichlet_partition, divide
from zorba_core.errors import InvalidInputError

LABELS = np.random.default_rng(0).integers(0, 4, size=2_000)


def test_clients_hold_every_row_once_and_none_is_empty():
    for alpha in [1e-3, 0.1, 1.0, 100.0, math.inf]:
        for num_clients in [1, 7, 50]:
            parts = dirichlet_partition(LABELS, num_clients, alpha, seed=3)
            assert len(parts) == num_clients
            assert min(len(part) for part in parts) >= 1
            np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(LABELS)))


def test_with_as_many_clients_as_rows_each_holds_one():
    assert [len(part) for part in dirichlet_partition([0, 1, 1, 0, 1], 5, 0.1, seed=0)] == [1] * 5


def test_smaller_alpha_concentrates_labels_on_fewer_clients():
    def purity(alpha):
        shares = []
        for seed in range(5):
            for part in dirichlet_partition(LABELS, 10, alpha, seed):
                counts = np.bincount(LABELS[part], minlength=4)
                shares.append(counts.max() / counts.sum())
        return float(np.mean(shares))

    assert purity(0.05) > purity(1.0) + 0.1 > purity(100.0) + 0.2


def test_infinite_alpha_gives_equal_shares():
    sizes = [len(part) for part in dirichlet_partition(LABELS, 8, math.inf, seed=1)]
    assert max(sizes) - min(sizes) <= 4  # at most one row of rounding a class


def test_the_seed_decides_the_partition():
    first, again, other = (dirichlet_partition(LABELS, 5, 1.0, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_impossible_partitions_are_refused():
    for labels, num_clients, alpha, message in [
        ([0, 1], 3, 1.0, "too few for 3 clients"),
        ([0, 1], 0, 1.0, "num_clients must be at least 1"),
        ([0, 1], 2, 0.0, "must be positive"),
        ([0, 1], 2, math.nan, "must be positive"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            dirichlet_partition(labels, num_clients, alpha, seed=0)


def test_rows_by_chance_are_each_somebodys_once():
    for division, even in [("iid", True), ("quantity", False), ("dirichlet", False)]:
        frame = pd.DataFrame({"text": ["a"] * 400, "label": [0, 1] * 200})
        held_N = divide(frame, 8, 0.3, 5, division)
        assert sorted(row for held in held_N for row in held) == list(range(400))
        assert all(len(held) for held in held_N)
        assert (max(map(len, held_N)) - min(map(len, held_N)) <= 1) is even


def test_rows_that_name_no_clients_cannot_be_divided_by_them():
    frame = pd.DataFrame({"text": ["a"] * 4, "label": [0, 1] * 2})
    with pytest.raises(InvalidInputError, match="the rows name no clients; give the column of clients"):
        divide(frame, 2, 1.0, 0, "natural")
    with pytest.raises(InvalidInputError, match="division is 'fair'; choose one of dirichlet, natural"):
        divide(frame, 2, 1.0, 0, "fair")
