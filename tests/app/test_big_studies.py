"""What takes longer than a page should wait is solved beside it, can be stopped, and is there when it is done."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import big_studies
from app.shared.big_studies import BigStudies, TooLong, within_patience
from app.shared.scenario import Scenario
from app.shared.study import study
from tests.app.shown import TRADE_OFF

SLOW = Scenario(num_clients=12, num_epsilons=60, solver="lexicographic")


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_page_does_not_wait_longer_than_its_patience(monkeypatch):
    monkeypatch.setenv(big_studies.VARIABLE, "0")
    with pytest.raises(TooLong):
        within_patience(SLOW, lambda done, of: None)
    monkeypatch.setenv(big_studies.VARIABLE, "600")
    assert len(within_patience(SLOW, lambda done, of: None).front) == SLOW.num_epsilons


def test_the_study_made_beside_the_page_is_the_one_that_waiting_gives():
    kept = []
    jobs = BigStudies(kept.append)
    job = jobs.start(SLOW, SLOW.num_reductions)
    assert jobs.start(SLOW, SLOW.num_reductions) is job
    wait_for(lambda: job.ended)
    (made,) = kept
    assert (made.front.bias_lambda_E == study(SLOW).front.bias_lambda_E).all()
    assert (job.done, job.error, jobs.of(SLOW)) == (job.of, None, None)


def test_a_stopped_one_keeps_nothing_and_an_impossible_one_says_why_once():
    kept = []
    jobs = BigStudies(kept.append)
    job = jobs.start(SLOW, 60)
    job.stop.set()
    wait_for(lambda: job.ended)
    assert not kept
    impossible = Scenario(fleet_kind="two-kinds", small_gib=0.1, large_gib=0.1, num_clients=3)
    failed = jobs.start(impossible, 60)
    wait_for(lambda: failed.ended)
    assert jobs.of(impossible) is failed
    assert failed.error is not None
    assert jobs.of(impossible) is None


def test_the_page_shows_how_far_it_is_and_stop_goes_back_to_a_quick_solver(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path))
    monkeypatch.setenv(big_studies.VARIABLE, "0")
    monkeypatch.setattr(big_studies, "_YIELD_S", 0.5)
    app = AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60).switch_page(TRADE_OFF)
    for key, value in {"clients": "13", "vectors": "400", "solver": "lexicographic"}.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    assert "takes a while" in app.info[0].value
    monkeypatch.setenv(big_studies.VARIABLE, "600")
    app.button(key="stop_solving_lexicographic").click().run()
    assert not app.exception
    assert app.session_state["scenario"].solver == "balanced"
    assert app.metric
