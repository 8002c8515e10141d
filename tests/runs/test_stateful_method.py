"""A method that keeps a server state, registered by a script: resumed and replayed to the same bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.plugin_example.zorba_example import MOMENTUM as FACTS
from tests.plugin_example.zorba_example.training import Momentum
from tests.runs.resumable import ALLOCATION, SETTINGS, InterruptAfter4, assert_ends_alike, copy_of, resume
from zorba_core.engine.communication import numbers_a_round
from zorba_core.engine.methods.fedit import FedIT
from zorba_core.engine.methods.interface import Scalars
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import list_runs
from zorba_core.runs.log import LOG
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")
MOMENTUM = Momentum(**{**vars(FACTS), "code": ""})  # one object that has the facts and computes


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


def test_facts_that_name_their_code_are_the_same_method(train):
    METHODS.register(MOMENTUM)
    METHODS.register(dataclasses.replace(FACTS, name="facts"))
    as_facts = train("facts", settings=SETTINGS.replace(method="facts"))
    assert as_facts.summary["weights_sha256"] == train("object").summary["weights_sha256"]


class Counting(FedIT):
    """FedIT, with a state that counts the rounds."""

    def init(self, num_blocks, settings):
        return {"rounds": np.zeros(1)}

    def update(self, context, reports, reported_N, state):
        super().update(context, reports, reported_N, state)
        return None, {"rounds": state["rounds"] + 1}


def test_a_method_that_exchanges_weights_resumes_with_its_state(train, stopped):
    METHODS.register(Counting("counting", "Counting", "FedIT with a state", 0, "weights"))
    settings = SETTINGS.replace(method="counting", directions=None, estimator=None)
    options = {"allocation": None, "num_clients": 3, "settings": settings}
    resumed = resume(stopped("half", **options))
    assert_ends_alike(resumed, train("whole", **options))
    assert [done.method_state["rounds"].item() for done in resumed.rounds[1:]] == list(range(1, 10))


class Wrong(Momentum):
    answer = np.full((3, 2), np.nan)

    def coefficients(self, state, scalars, settings):
        return self.answer, state


def test_coefficients_that_no_wire_can_carry_end_the_run_with_the_methods_name():
    for answer, error, says in [
        (np.full((3, 2), np.nan), RunError, "method wrong returns coefficients that are not finite"),
        (np.zeros((2, 2)), InvalidInputError, r"method wrong returns coefficients of shape \(2, 2\) in place of"),
        (0.5, InvalidInputError, "method wrong returns coefficients of shape"),
    ]:
        wrong = Wrong("wrong", "Wrong", "nothing finite", 2, "scalars", True)
        object.__setattr__(wrong, "answer", answer)
        scalars = Scalars(np.zeros((3, 2)), None, np.ones((3, 4), bool), np.ones(4, bool))
        with pytest.raises(error, match=says):
            wrong.checked_coefficients({}, scalars, SETTINGS)
