"""One answer about a fleet: modes, remedies that work, the bytes of a round, and how long a run takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zorba_core.data.inventory import cards_of, fleet_of_cards, read_inventory
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.memory import Workload
from zorba_core.planning.models import model_spec
from zorba_core.planning.shapes import model_shape
from zorba_core.runs.fleet_answer import BY_ENGINE, answer, remedies, sample_of_plan
from zorba_core.runs.rates import calibration_of
from zorba_core.runs.run_estimate import estimate_run, pace_of

LOAD = Load(8, 64, 10)
MIXED = "4 x large, 12 GiB\n60 x middle, 3.6 GiB\n40 x tiny, 0.6 GiB"


@pytest.fixture(scope="module")
def rates(root):
    return calibration_of(json.loads((Path(root) / "artifacts/benchmarks/plan.json").read_text())["calibration"])


def solved(rates, text=MIXED, load=LOAD, **options):
    inventory = read_inventory(text)
    fleet = fleet_of_cards(cards_of(inventory, inventory.columns))
    return answer(fleet, model_spec("opt-1.3b"), model_shape("opt-1.3b"), load, rates, **options)


def test_large_cards_hold_a_model_middle_ones_stream_it_and_tiny_ones_stay_out(rates):
    answered = solved(rates)
    modes = [plan.mode for plan in answered.plans]
    assert modes == ["in-memory"] * 4 + ["streamed"] * 60 + ["cannot"] * 40
    assert answered.allocation.A_MN.shape == (24, 64)
    assert answered.allocation.A_MN.any(axis=1).all()
    assert answered.seconds == max(plan.seconds_per_round for plan in answered.able)
    assert 0 < answered.sent.total("wire_bytes") < 2**20
    assert len(solved(rates, streams=False).able) == 4


def test_every_remedy_brings_in_as_many_cards_as_it_says(rates):
    answered = solved(rates)
    offered = remedies(answered)
    assert offered
    for remedy in offered:
        after = solved(rates, load=replace(LOAD, **{remedy.setting: remedy.value}))
        assert len(after.able) - len(answered.able) == remedy.brings_in
    assert remedies(solved(rates, "2 x large, 24 GiB")) == []


def test_with_the_engines_budgets_every_card_trains_every_block_and_takes_longer(rates):
    by_paper, by_engine = solved(rates), solved(rates, budgets_by=BY_ENGINE)
    assert by_engine.allocation.A_MN.all()
    assert by_engine.seconds > by_paper.seconds


def test_a_rehearsal_of_many_cards_draws_from_all_kinds_and_leaves_no_block_out(rates):
    A_MN = sample_of_plan(solved(rates), 12)
    assert A_MN.shape == (24, 12)
    assert A_MN.any(axis=1).all()
    assert solved(rates, "40 x none, 0.1 GiB").allocation is None


def test_an_estimate_adds_up_and_runs_that_ended_here_correct_it(rates):
    def of(rounds, pace=1.0, **changes):
        return estimate_run(
            model_shape("opt-125m"),
            Workload(8, 32),
            rates,
            rounds=rounds,
            eval_every=10,
            eval_rows=200,
            pace=pace,
            **{"A_MN": np.ones((12, 4), bool), "num_perturbations": 10, **changes},
        )

    short, long = of(10), of(20)
    assert long.total - short.total == pytest.approx(10 * short.round + short.evaluation)
    assert of(10, pace=2.0).total == pytest.approx(2 * short.total)
    exact = of(10, estimator="exact").round
    first_order = of(10, method="fedit").round
    assert first_order < exact < short.round / 2  # a pass both ways, and eleven forward passes
    more, most = (of(10, estimator="exact", num_perturbations=q).round for q in (20, 30))
    assert most - more == pytest.approx(more - exact)  # ten directions
    assert 0 < more - exact < exact
    late = np.zeros((12, 4), bool)
    late[-1] = True
    assert of(10, estimator="exact", A_MN=late).round < exact / 2
    assert pace_of([3.0, 1.5, 9.0], cores=2) == 1.5
    assert pace_of([], load=3.0, cores=2) == 2.0
