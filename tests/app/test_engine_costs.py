"""The Trade-off's axes of the engine: one memory for every allocation, and the seconds of the slowest client."""

from __future__ import annotations

import os

import numpy as np
import pytest

from app.shared import engine_costs
from app.shared.scenario import Scenario
from app.shared.study import study
from app.shared.tradeoff import COSTS, View, baselines, bound, paper_scenarios
from zorba_core.errors import InvalidInputError
from zorba_core.runs.fleet_plan import bottleneck


@pytest.fixture(scope="module")
def solved():
    return study(Scenario(num_clients=20, num_epsilons=40))


def test_every_allocation_takes_the_same_true_memory_and_less_than_psi_charges(solved):
    x_E = View(solved, "true", "lambda").x_E
    assert np.ptp(x_E) == 0
    assert x_E[0] == pytest.approx(solved.true_gib)
    assert solved.true_gib < solved.used_N_gib(solved.everything.allocation.blocks_held_N).sum()


def test_seconds_are_those_of_the_client_that_all_wait_for(solved):
    view = View(solved, "seconds", "lambda")
    point = int(np.flatnonzero(~np.isnan(view.x_E))[0])
    model, workload = solved.scenario.model_spec, solved.scenario.workload
    timed = engine_costs.timed(solved.engine_plans, model, workload, solved.solution(point).allocation)
    assert view.x_E[point] == pytest.approx(bottleneck(timed).seconds_per_round)
    assert len(view.order_F) >= 1
    assert 0 <= view.recommended(0.5) < len(solved.front)


@pytest.mark.parametrize("cost", ["true", "seconds"])
def test_nothing_of_the_papers_model_is_drawn_along_them(solved, cost):
    assert cost in COSTS
    assert bound(solved, cost, "lambda") is None
    assert paper_scenarios(solved, cost, "lambda") == baselines(solved, cost, "lambda") == []


def test_the_seconds_of_one_allocation_are_those_of_the_axis():
    solved = study(Scenario(num_clients=9, num_epsilons=10, model="opt-350m"))
    model, workload = solved.scenario.model_spec, solved.scenario.workload
    allocation = solved.solution(solved.default_point()).allocation
    (expected,) = engine_costs.slowest_seconds(solved.engine_plans, model, workload, [allocation])
    assert engine_costs.seconds_of(solved.engine_plans, model, workload, allocation) == pytest.approx(expected)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text('{"calibration": {"version": 99}}'),
        lambda path: path.write_text('{"calibration": []}'),
        lambda path: path.write_text("[" * 5_000),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: os.truncate(path, 2**33),
    ],
)
def test_rates_that_cannot_be_read_are_named_with_the_command_that_measures_them(tmp_path, damage):
    path = tmp_path / "plan.json"
    path.write_text("{}")
    damage(path)
    with pytest.raises(InvalidInputError, match=r"plan\.json: the benchmark's rates cannot be read.*bench_plan$"):
        engine_costs.stored_calibration(path)
