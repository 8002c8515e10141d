"""A method that keeps a server state, registered by a script: resumed and replayed to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plugin_example.zorba_example import MOMENTUM
from tests.plugin_example.zorba_example.momentum import Momentum
from tests.runs.resumable import ALLOCATION, SETTINGS, InterruptAfter4, assert_ends_alike, copy_of, resume
from zorba_core.engine.communication import numbers_a_round
from zorba_core.engine.methods.fedit import FedIT
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.engine.round import Step
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import list_runs
from zorba_core.runs.log import LOG
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.fixture(autouse=True)
def registry_as_before(monkeypatch):
    monkeypatch.setattr(METHODS, "_parts", dict(METHODS))


@pytest.fixture
def train(tiny_opt_folder, tmp_path):
    def train(name: str, settings: Settings | None = None, **options):
        settings = settings or SETTINGS.replace(method="momentum")
        return fine_tune(
            **{"allocation": ALLOCATION, **options}, model=tiny_opt_folder, settings=settings,
            runs_folder=tmp_path / name, force=True,
        )  # fmt: skip

    return train


@pytest.fixture
def stopped(train, tmp_path):
    def stopped(name: str, **options):
        with pytest.raises(RunError, match="interrupted"):
            train(name, callbacks=[InterruptAfter4()], **options)
        return list_runs(tmp_path / name).runs[0]

    return stopped


def test_its_runs_are_resumed_and_replayed_to_the_same_bits(train, stopped, tmp_path):
    METHODS.register(MOMENTUM)
    whole = train("whole")
    rounds = whole.rounds[1:]
    assert [float(entry.method_state["rounds"]) for entry in rounds] == list(range(1, 10))
    assert all(entry.method_state["speed_M"].shape == (3,) for entry in rounds)
    half = stopped("half")
    assert (half.finished, half.rounds_done) == (False, 4)
    assert_ends_alike(resume(half), whole)
    torn = copy_of(whole, tmp_path / "torn")
    log = (torn / LOG).read_bytes()
    (torn / LOG).write_bytes(log[: len(log) * 2 // 3])
    assert_ends_alike(resume(torn), whole)
    assert replay(whole.path).network.weights_sha256() == whole.summary["weights_sha256"]
    at_four = replay(stopped("four"), 4).network.weights_sha256()
    assert replay(whole, 4).network.weights_sha256() == at_four


def test_one_object_is_seen_by_everything_that_asks_for_a_method(train):
    with pytest.raises(InvalidInputError, match="method is 'momentum'; choose one of zorba, decomfl"):
        train("unknown")
    METHODS.register(MOMENTUM)
    assert method_facts("momentum") is METHODS["momentum"] is MOMENTUM
    assert [facts.title for facts in METHODS.values()][-1] == "Momentum"
    assert (MOMENTUM.federates, MOMENTUM.first_order) == (True, False)
    assert numbers_a_round("momentum", 3, 3, 2, 0) == numbers_a_round("zorba", 3, 3, 2, 0)
    assert SETTINGS.replace(method="zorba").replace(method="momentum", directions=None).directions == 2


def test_a_method_that_keeps_no_state_leaves_none_in_the_log(whole):
    assert b"method_state" not in (whole.path / LOG).read_bytes()


class Counting(FedIT):
    """FedIT, with a state that counts the rounds."""

    name, title, help = "counting", "Counting", "FedIT with a state"

    def init(self, num_blocks, settings):
        return {"rounds": np.zeros(1)}

    def update(self, plan, reports, reported_N, state):
        step, _ = super().update(plan, reports, reported_N, state)
        return step, {"rounds": state["rounds"] + 1}


def test_a_method_that_exchanges_weights_resumes_with_its_state(train, stopped):
    METHODS.register(Counting())
    settings = SETTINGS.replace(method="counting", directions=None, estimator=None)
    options = {"allocation": None, "num_clients": 3, "settings": settings}
    resumed = resume(stopped("half", **options))
    assert_ends_alike(resumed, train("whole", **options))
    assert [done.method_state["rounds"].item() for done in resumed.rounds[1:]] == list(range(1, 10))


class Wrong(Momentum):
    name = "wrong"

    def __init__(self, rho_bar):
        self.rho_bar = rho_bar

    def update(self, plan, reports, reported_N, state):
        return Step(self.rho_bar, plan.seeds_Q), state


def test_averages_that_no_wire_can_carry_end_the_run_with_the_methods_name(train):
    for answer, error, says in [
        (np.full((3, 2), np.nan), RunError, "round 1: the step of method wrong is not finite; the run diverged"),
        (np.zeros((2, 2)), InvalidInputError, r"method wrong returns averages of shape \(2, 2\) in place of \(3, 2\)"),
        (0.5, InvalidInputError, r"method wrong returns averages of shape \(\) in place of \(3, 2\)"),
    ]:
        METHODS.register(Wrong(answer))
        with pytest.raises(error, match=says):
            train("wrong", settings=SETTINGS.replace(method="wrong"))
        METHODS.unregister("wrong")
