"""The recorded steps of Algorithm 1 are the solver's own, and each state is what the paper's sets say it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.allocation.test_balanced import budgets_and_blocks
from zorba_core.allocation import Problem, solve, sweep
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.study.greedy_steps import replay_greedy
from zorba_core.vram import Workload, model_spec


@given(budgets_and_blocks(most_clients=12, most_blocks=6))
@settings(max_examples=60, deadline=None)
def test_the_last_state_is_the_solvers_matrix(case):
    problem = Problem(*case)
    replay = replay_greedy(problem, seed=(7, 3))
    solved = solve(problem, "lexicographic", seed=(7, 3)).allocation
    np.testing.assert_array_equal(replay.state(len(replay.steps)).A_MN, solved.A_MN)
    assert replay.state(len(replay.steps)).gains == {}


@given(budgets_and_blocks(most_clients=12, most_blocks=6))
@settings(max_examples=60, deadline=None)
def test_every_step_takes_the_candidate_that_is_a_bottleneck_of_most_low_clients(case):
    replay = replay_greedy(Problem(*case), seed=1)
    for number, step in enumerate(replay.steps):
        before = replay.state(number)
        assert step.gain == max(before.gains.values()) == before.gains[step.block]
        assert step.client in replay.takers(number)
        assert (replay.state(number + 1).A_MN.sum() - before.A_MN.sum()) == 1


def test_low_sets_are_those_of_the_matrix_in_view():
    replay = replay_greedy(Problem(np.random.default_rng(4).integers(1, 12, 50), 12), seed=3)
    assert len(replay.steps) == replay.budget_N.sum() - 12 * replay.gamma_star
    for number in range(len(replay.steps) + 1):
        state = replay.state(number)
        assert state.low_blocks == tuple(np.flatnonzero(state.allocation.popularity_M == replay.gamma_star))
        # A client that Dinic left without a block is in neither set: it bothers nobody until it gets one.
        served = replay.initial_MN.any(axis=0)
        at_gamma = (state.allocation.least_popularity_N == replay.gamma_star) & served
        assert state.low_clients == tuple(np.flatnonzero(at_gamma))
        assert (state.room_N == replay.budget_N - state.A_MN.sum(axis=0)).all()


def test_lambda_never_rises_after_every_client_has_a_block():
    replay = replay_greedy(Problem([3, 3, 2, 2, 1], 4), seed=0)
    values = [replay.state(number).allocation.bias_lambda for number in range(len(replay.steps) + 1)]
    assert len(values) > 2
    assert values == sorted(values, reverse=True)


def test_nothing_to_do_when_the_budgets_fill_every_block_alike():
    replay = replay_greedy(Problem([2, 2, 2], 3))
    assert replay.steps == ()
    assert replay.state(0).allocation.bias_lambda == pytest.approx(3 / 4)


@pytest.mark.parametrize("after", [-1, 1])
def test_a_step_that_was_not_taken_is_refused(after):
    with pytest.raises(InvalidInputError, match="took 0 here"):
        replay_greedy(Problem([2, 2, 2], 3)).state(after)


def test_a_point_of_a_front_is_replayed_to_the_points_own_matrix():
    model, workload = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)
    fleet = Fleet.uniform(model, 20, seed=5, workload=workload)
    front = sweep(fleet, points=12, solver="lexicographic", seed=5)
    for point in range(12):
        replay = replay_greedy(front.problem(point), seed=front.seed_of(point))
        np.testing.assert_array_equal(replay.state(len(replay.steps)).A_MN, front.allocation(point).A_MN)
