from __future__ import annotations

import json
from io import BytesIO

import numpy as np
import pandas as pd
import pytest

from app.shared.files import allocation_json, allocation_npz, points_csv
from app.shared.scenario import FLEET_KINDS, MAX_PROOFS, Scenario
from app.shared.study import study
from zorba_core.allocation import SOLVERS, solve
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.fleet import Fleet

MIXED = Scenario(fleet_kind="two-kinds", small_gib=0.5, large_gib=2.0, num_clients=20, num_epsilons=50)
TABLE = (("a", 1.2), ("b", 1.9), (None, None), ("c", "0.8"))


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(num_epsilons=40),
        Scenario(fleet_kind="normal", num_epsilons=40),
        Scenario(fleet_kind="lognormal", num_epsilons=40),
        Scenario(fleet_kind="two-kinds", num_epsilons=40),
        Scenario(fleet_kind="three-kinds", num_epsilons=40),
        Scenario(fleet_kind="steam", num_epsilons=40),
        Scenario(fleet_kind="jetson", num_epsilons=40),
        Scenario(fleet_kind="cloud", num_epsilons=40),
        Scenario(fleet_kind="mig", num_epsilons=40),
        Scenario(fleet_kind="table", table=(*TABLE, ("d", 1.9)), num_epsilons=40),
    ],
    ids=FLEET_KINDS,
)
def test_every_kind_of_fleet_gives_a_front_within_its_vram(scenario):
    result = study(scenario)
    on_front = result.front.on_front_E
    assert on_front.any()
    assert (result.front.vram_ratio_E[on_front] <= 1).all()
    assert on_front[result.default_point()]


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_matrix_of_a_point_has_the_bias_the_plot_shows(solver):
    result = study(Scenario(solver=solver, num_clients=15, num_epsilons=30))
    for point in np.flatnonzero(result.front.on_front_E)[:5]:
        allocation = result.solution(int(point)).allocation
        assert allocation.bias_lambda == pytest.approx(result.front.bias_lambda_E[point])
        assert (allocation.blocks_held_N <= result.front.budgets(int(point))).all()


def test_the_cost_of_saving_is_the_least_bias_within_what_is_left():
    result = study(Scenario(num_epsilons=300))
    point = result.best_within(0.8)
    within = result.front.bias_lambda_E[result.front.vram_ratio_E <= 0.8]
    assert result.front.bias_lambda_E[point] == within.min() > result.everything.allocation.bias_lambda
    assert result.best_within(0.1) is None


def test_clients_that_cannot_hold_a_block_are_named_by_their_names():
    scenario = Scenario(fleet_kind="table", table=(("big", 2.0), ("tiny", 0.2), ("small", 0.5)))
    with pytest.raises(InfeasibleError, match="tiny, small") as caught:
        study(scenario)
    assert caught.value.clients == (1, 2)
    result = study(scenario.replace(leave_out_small=True))
    assert result.left_out == ("tiny", "small")
    assert result.fleet.names == ("big",)


def test_too_little_vram_for_all_blocks_together_is_infeasible_without_blaming_a_client():
    with pytest.raises(InfeasibleError, match="block") as caught:
        study(Scenario(fleet_kind="table", table=(("a", 0.6), ("b", 0.6))))
    assert caught.value.clients == ()


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (Scenario(fleet_kind="table", table=(("a", -3),)), "-3"),
        (Scenario(fleet_kind="table", table=(("a", float("nan")),)), "client 'a'"),
        (Scenario(fleet_kind="table", table=()), "no rows"),
    ],
)
def test_a_fleet_that_is_none_gets_one_line_that_says_why(scenario, says):
    with pytest.raises(InvalidInputError, match=says) as caught:
        study(scenario)
    assert "\n" not in str(caught.value)


def test_a_limit_on_the_total_beats_reductions_and_the_proof_beats_both():
    fleet = {"num_clients": 12, "num_epsilons": 60}
    reductions, totals, proven = (
        study(Scenario(**fleet, solver=solver, tau_mode=mode))
        for solver, mode in (("two-level", "vector"), ("two-level", "total"), ("exact", "vector"))
    )
    assert proven.front.optimal_E.all()
    for ratio in (0.6, 0.75, 0.9):
        least = [found.front.bias_lambda_E[found.best_within(ratio)] for found in (reductions, totals)]
        assert least[1] <= least[0]
    for i, proof in enumerate(proven.proofs):
        same_total = totals.front.bias_lambda_E[totals.front.total_blocks_E <= proof.problem.total]
        assert not same_total.size or proven.front.bias_lambda_E[i] <= same_total.min() + 1e-12


def test_a_study_of_proofs_reports_each_as_it_comes():
    seen = []
    study(Scenario(solver="exact", num_clients=8), lambda done, of: seen.append((done, of)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert {of for _, of in seen} == {MAX_PROOFS}


def test_downloads_read_back_as_what_was_shown():
    result = study(Scenario(num_clients=15, num_epsilons=30))
    point = result.default_point()
    solution = solve(result.front.problem(point))
    points = pd.read_csv(BytesIO(points_csv(result)))
    np.testing.assert_allclose(points["lambda"], result.front.bias_lambda_E)
    assert points["on_front"].sum() == result.front.on_front_E.sum()
    told = json.loads(allocation_json(result, solution))
    assert told["blocks_per_client"] == solution.allocation.blocks_per_client
    assert told["lambda"] == solution.allocation.bias_lambda
    with np.load(BytesIO(allocation_npz(result, solution)), allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["A_MN"], solution.allocation.A_MN)
    back = Fleet.from_csv(result.fleet.to_frame().to_csv(index=False).encode(), "opt-125m")
    np.testing.assert_allclose(back.capacity_N_bytes, result.fleet.capacity_N_bytes)
