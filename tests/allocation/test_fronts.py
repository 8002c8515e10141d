"""Algorithm 2: sweeps, the non-dominated filter, hypervolume and knee."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorba_core.allocation import Allocation, front, hypervolume, knee, non_dominated, solve, sweep, sweep_totals
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.vram import model_spec

points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25)


def fleet_of(num_clients: int = 20, seed: int = 0) -> Fleet:
    return Fleet.uniform("opt-125m", num_clients, seed=seed)


@given(points)
def test_a_point_is_on_the_front_iff_no_other_dominates_it(pairs):
    x, y = np.array(pairs, float).T
    on_front = non_dominated(x, y)
    for i in range(len(x)):
        dominated = ((x <= x[i]) & (y <= y[i]) & ((x < x[i]) | (y < y[i]))).any()
        same_before = ((x[:i] == x[i]) & (y[:i] == y[i])).any()
        assert on_front[i] == (not dominated and not same_before)


@given(points)
def test_hypervolume_is_the_area_of_the_cells_that_some_point_dominates(pairs):
    x, y = np.array(pairs, float).T
    cells = np.arange(5) + 0.5
    covered = sum(bool(((x <= a) & (y <= b)).any()) for a in cells for b in cells)
    assert hypervolume(x, y, (5.0, 5.0)) == pytest.approx(covered)


def test_nan_points_are_never_on_the_front():
    assert non_dominated(np.array([1.0, 2.0]), np.array([np.nan, 1.0])).tolist() == [False, True]


def test_knee_is_where_the_front_bends():
    x, y = np.array([0.0, 1.0, 2.0, 10.0]), np.array([10.0, 2.0, 1.0, 0.0])
    assert knee(x, y, non_dominated(x, y)) in (1, 2)
    assert knee(x[:2], y[:2], non_dominated(x[:2], y[:2])) is None


def test_every_point_is_what_its_matrix_gives(subtests):
    for tau_mode in ["client", "vector"]:
        for solver in ["balanced", "lexicographic", "two-level"]:
            with subtests.test(tau_mode=tau_mode, solver=solver):
                fleet = fleet_of()
                front = sweep(fleet, 12, solver, tau_mode, seed=5)
                for i in np.flatnonzero(~np.isnan(front.bias_lambda_E)):
                    allocation = Allocation(front.allocation(i).A_MN)
                    assert allocation.bias_lambda == pytest.approx(front.bias_lambda_E[i])
                    assert allocation.total_blocks == front.total_blocks_E[i]
                    assert allocation.mean_inverse_popularity == pytest.approx(front.mean_inverse_popularity_E[i])
                    assert allocation.effective_clients == pytest.approx(front.effective_clients_E[i])
                    assert allocation.min_popularity == front.min_popularity_E[i]
                    assert front.lower_bound_E[i] <= allocation.bias_lambda * (1 + 1e-12)
                    used_N = fleet.used_N_bytes(allocation.blocks_held_N)
                    assert used_N.sum() / fleet.capacity_N_bytes.sum() == pytest.approx(front.vram_ratio_E[i])


def test_points_whose_budgets_do_not_cover_every_block_are_nan_and_the_others_have_the_bound_of_their_problem():
    front = sweep(fleet_of(5), 60, seed=2)
    covered_E = front.total_blocks_E >= front.num_blocks
    assert 0 < covered_E.sum() < 60
    assert (front.min_popularity_E > 0).tolist() == covered_E.tolist()
    for column in (front.bias_lambda_E, front.lower_bound_E, front.effective_clients_E):
        assert (~np.isnan(column)).tolist() == covered_E.tolist()
    for i in np.flatnonzero(covered_E):
        solution = solve(front.problem(i))
        assert (front.lower_bound_E[i], front.optimal_E[i]) == (solution.lower_bound, solution.optimal)


def test_reductions_are_independent_of_a_fleet_of_the_same_seed():
    fleet = fleet_of(200, seed=3)
    held, capacity = sweep(fleet, 1, seed=3).budgets(0), fleet.capacity_N_bytes
    # Drawn from one stream, large clients would all be cut to one block.
    assert held[capacity > np.quantile(capacity, 0.75)].max() > 6


def test_same_seed_same_points_another_seed_others():
    first, same, other = (sweep(fleet_of(), 50, seed=seed) for seed in (1, 1, 2))
    assert (first.bias_lambda_E == same.bias_lambda_E).all()
    assert (first.budget_EN != other.budget_EN).any()


def test_front_by_total_lies_below_every_reduction():
    fleet = fleet_of(30)
    reductions = sweep(fleet, 30)
    totals = np.unique(reductions.total_blocks_E)
    best = sweep_totals(fleet, totals.tolist(), "exact")
    assert best.optimal_E.all()
    for total, value in zip(reductions.total_blocks_E, reductions.bias_lambda_E, strict=True):
        assert best.bias_lambda_E[np.flatnonzero(totals == total)[0]] <= value + 1e-12


def test_balanced_uses_the_whole_of_every_total():
    front = sweep_totals(fleet_of(30), 6, "balanced")
    assert (front.total_blocks_E == front.limit_E).all()
    assert Allocation(front.allocation(2).A_MN).total_blocks == front.limit_E[2]


def test_wrong_sweep_is_refused(subtests):
    for options, message in [
        ({"solver": "magic"}, "unknown solver"),
        ({"tau_mode": "both"}, "unknown tau mode"),
        ({"points": 0}, "number of reductions"),
    ]:
        with subtests.test(options=options, message=message), pytest.raises(InvalidInputError, match=message):
            sweep(fleet_of(), **options)


def test_the_front_of_a_fleet_is_a_table_that_names_its_knee():
    fleet = fleet_of()
    table, points = front(fleet, 200, seed=1), sweep(fleet, 200, seed=1)
    assert table.attrs == {"knee": points.knee, "hypervolume": points.hypervolume}
    assert table.index[table["knee"]].tolist() == [points.knee]
    assert table["lambda"].tolist() == points.bias_lambda_E.tolist()
    assert table.loc[points.knee, "on_front"]


def test_a_fleet_that_no_reduction_suits_is_refused():
    with pytest.raises(InfeasibleError, match="leaves room for all 12 blocks"):
        sweep(Fleet(("a", "b"), np.ones(2), model_spec("opt-125m")), 3)
