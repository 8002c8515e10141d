"""Allocations that change from round to round: varied, or planned anew from the scalars; resumed and replayed alike."""

from __future__ import annotations

import dataclasses
import os
import signal

import numpy as np
import pytest

import zorba_core as zorba
from tests.runs.resumable import After4, assert_ends_alike
from zorba_core.allocation import Allocation
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.plans import explores
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.block_importance import importance, scalar_rounds
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory

pytestmark = pytest.mark.usefixtures("rows_divided_once")
OWN = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = TrainSettings(
    rounds=10, num_perturbations=3, num_seeds=64, batch_size=2, seq_len=32, eval_every=5, eval_rows=8, target=None
)
ADAPTIVE = dataclasses.replace(SETTINGS, replan=3, explore=2, idle_blocks="allow")


@pytest.fixture
def train(tiny_opt_folder, tmp_path):
    def train(name: str, settings: TrainSettings, allocation=OWN, **options):
        return fine_tune(
            allocation, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path / name, force=True, **options
        )

    return train


class DieAfter7(Callback):
    def on_step(self, entry):
        if entry.round == 7:
            os.kill(os.getpid(), signal.SIGKILL)


def matrices(run) -> list[bytes]:
    return [entry.A_MN.tobytes() for entry in scalar_rounds(read_trajectory(run.path / TRAJECTORY), run.allocation)]


def test_plans_are_made_after_exploring_and_then_every_so_many_rounds(train):
    run = train("whole", ADAPTIVE)
    assert [t for t in range(1, 11) if explores(ADAPTIVE, t)] == [1, 2, 5, 8]
    of_round = matrices(run)
    assert of_round[2] == of_round[3]  # one plan: rounds 3 and 4
    assert of_round[5] == of_round[6]
    trajectory = read_trajectory(run.path / TRAJECTORY)
    assert [note.after_round for note in trajectory.notes if note.what == "plan"] == [2, 5, 8]
    assert all("gain from the scalars" in note.content["reason"] for note in trajectory.notes)
    held_TN = np.array([np.frombuffer(each, bool).reshape(3, 3).sum(axis=0) for each in of_round])
    assert (held_TN <= OWN.blocks_held_N).all()
    assert (held_TN >= 1).all()
    assert run.summary["plans"] >= 1
    setups = next(part for part in run.summary["communication"]["by_message"] if part["kind"] == "setup")
    assert setups["messages"] == 3 * (1 + run.summary["plans"])


def test_the_plan_is_the_gain_solvers_answer_to_what_the_log_says(train):
    run = train("whole", ADAPTIVE)
    trajectory = read_trajectory(run.path / TRAJECTORY)
    note = next(note for note in trajectory.notes if note.after_round == 2)
    rounds = [
        dataclasses.replace(each, weight=0.5 ** ((2 - t) / 3))
        for t, each in enumerate(scalar_rounds(trajectory, run.allocation)[:2], start=1)
    ]
    read = zorba_importance(rounds)
    assert note.content["energies"] == pytest.approx(read.facts().energy_M.tolist())
    problem = zorba.AllocationProblem(OWN.blocks_held_N, 3, 6, idle_blocks="allow")
    best = zorba.solve(problem, "gain", facts=read.facts())
    assert note.content["blocks_per_client"] == best.allocation.blocks_per_client


def zorba_importance(rounds):
    from zorba_core.allocation.importance import importance_of

    return importance_of(rounds, resamples=0)


@pytest.mark.parametrize(
    "settings", [ADAPTIVE, dataclasses.replace(SETTINGS, vary="permute")], ids=["replan", "permute"]
)
def test_such_runs_are_resumed_and_replayed_to_the_same_bits(train, tmp_path, settings):
    whole = train("whole", settings)
    assert len(set(matrices(whole))) > 3
    half = resume(train("half", settings, callbacks=[After4()]).path)
    assert half.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert matrices(half) == matrices(whole)
    child = os.fork()
    if child == 0:
        try:
            train("killed", settings, callbacks=[DieAfter7()])
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    (killed,) = (tmp_path / "killed").iterdir()
    resumed = resume(killed)
    assert_ends_alike(resumed, whole)
    assert resumed.summary["communication"] == whole.summary["communication"]
    assert replay(whole.path).network.weights_sha256() == whole.summary["weights_sha256"]
    at_four = train("four", settings, callbacks=[After4()]).summary["weights_sha256"]
    assert replay(whole.path, round_index=4).network.weights_sha256() == at_four


def test_a_block_that_nobody_activates_keeps_its_weights(train, tiny_opt_folder):
    idle = Allocation(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]))
    ends = {}
    for estimator in ("cohort", "reference", "exact"):
        settings = dataclasses.replace(SETTINGS, rounds=2, estimator=estimator, idle_blocks="allow")
        run = train(estimator, settings, idle)
        network, base = replay(run.path).network, replay(run.path, round_index=0).network
        assert network.weights_sha256() == run.summary["weights_sha256"]
        moved = [not bool((network.block_weights(m) == base.block_weights(m)).all()) for m in range(3)]
        assert moved == [True, False, True]
        assert run.summary["mean_inverse_popularity"] is None
        ends[estimator] = run.summary["weights_sha256"]
    assert ends["cohort"] == ends["reference"]


def test_importance_is_read_of_the_log_alone_also_while_the_run_is_unfinished(train):
    run = train("permuted", dataclasses.replace(SETTINGS, vary="permute"))
    read = zorba.importance(run)
    assert read.rounds == 10
    assert read.scalars == 10 * 3 * 3
    assert read.identifiable_M.all()
    assert (read.energy_low_M <= read.energy_M).all()
    together = Allocation(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]]))
    few = train("few", SETTINGS, together, callbacks=[After4()])
    assert importance(few.path, last_round=3).identifiable_M.tolist() == [False, False, True]
    with pytest.raises(InvalidInputError, match=r"rounds 8 to 20 are not in its log .*, which has 10"):
        zorba.importance(run, first_round=8, last_round=20)


def test_a_method_whose_clients_have_their_own_directions_says_nothing_of_blocks(tiny_opt_folder, tmp_path):
    settings = dataclasses.replace(SETTINGS, rounds=1).for_method("fedzo")
    run = fine_tune(num_clients=3, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    with pytest.raises(InvalidInputError, match="its method is fedzo; importance is read of scalars along plain"):
        importance(run)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"method": "decomfl", "replan": 5}, "replan is 5 and decomfl activates every block"),
        ({"replan": 5, "vary": "rotate"}, "leave one out"),
        ({"explore": 7}, "explore is 7 and there is no replan"),
        ({"vary": "often"}, "vary is 'often'"),
    ],
)
def test_what_does_not_go_together_is_named(fields, says):
    with pytest.raises(InvalidInputError, match=says):
        TrainSettings(**fields)
