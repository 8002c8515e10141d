"""Rows that compare methods: on runs made up so that the verdict is known, and on the stored tables."""

from __future__ import annotations

import math

import pytest

from tests.study.ledger.test_training_rows import BASE, claim_of, results
from zorba_core.study.experiments import read_results, store
from zorba_core.study.experiments.crossing import Crossing, crossing
from zorba_core.study.experiments.method_comparison import compare_methods, cost_ratio, grid_edge, rates_of_trials
from zorba_core.study.experiments.protocol import EASY_SHARE, target_of
from zorba_core.study.experiments.tables import ARMS
from zorba_core.study.ledger import method_rows

PASSES = {"zorba": 220, "decomfl": 40, "decomfl-10": 220, "fedit": 20, "fedzo": 40}
EASY = target_of("sst2", EASY_SHARE)


@pytest.fixture(scope="module")
def tables(root):
    return read_results("tables", "standard", root / "artifacts" / "experiments")


def reaching(rounds: dict[str, list[int | None]], asked: dict[str, int] | None = None, trials=()) -> store.Results:
    """Runs evaluated every 5 rounds whose accuracy is the target from the round given on; None: it never is.
    ``trials``: (arm, rate, late loss)."""
    rows, curves = [], []
    for arm, values in rounds.items():
        for seed, at in enumerate(values):
            sha, length = f"{arm}/{seed}", (asked or {}).get(arm, 60)
            rows.append({
                **BASE, "sha256": sha, "arm": arm, "seed": seed, "late_loss": 0.5, "rounds": length,
                "rounds_done": length,
            })  # fmt: skip
            curves += [
                {"sha256": sha, "round": t, "loss": 0.6, "accuracy": EASY if at is not None and t >= at else 0.5,
                 "forward_passes": t * PASSES[arm], "seconds": 1.0}
                for t in range(0, length + 1, 5)
            ]  # fmt: skip
    rows += [
        {**BASE, "sha256": f"{arm}/{rate}", "arm": arm, "seed": 1000, "role": "tune", "lr": rate, "late_loss": loss}
        for arm, rate, loss in trials
    ]
    frame, curve = store.frame_of(rows, store.RUN_SCHEMA), store.frame_of(curves, store.CURVE_SCHEMA)
    return store.Results("tables", "standard", frame, curve, (), 0)


def trials_of(arm: str, best: float) -> list[tuple[str, float, float]]:
    rates = next(one for one in ARMS if one.name == arm).rates
    return [(arm, rate, 0.5 if rate == best else 0.6) for rate in rates]


def test_table_i_has_24_cells_none_of_which_another_model_can_confirm():
    cells = [claim for claim in method_rows.rows(reaching({"zorba": [20, 20, 25], "fedit": [5, 5, 10]}))
             if claim.id.startswith("table-1/")]  # fmt: skip
    assert len(cells) == 24
    assert {claim.verdict for claim in cells} == {"cannot be tested here"}
    assert len({claim.finding for claim in cells}) == 1
    assert claim_of(cells, "table-1/opt-125m/sst-2/zorba").ours.startswith("15 to 20 (median, between two evaluations")
    assert claim_of(cells, "table-1/opt-125m/snli/zorba").ours is None


def test_who_is_faster_is_judged_by_the_rounds_to_the_target():
    claims = method_rows.rows(reaching({
        "zorba": [20, 25, 20, 25], "decomfl": [55, 60, 50, 55], "fedit": [5, 10, 5, 5], "fedzo": [20, 60, 10, 45],
    }))  # fmt: skip
    assert claim_of(claims, "faster/decomfl").verdict == "reproduced in shape"
    assert "surely needs less in 4 and more in 0" in claim_of(claims, "faster/decomfl").ours
    assert claim_of(claims, "faster/fedit").verdict == "reproduced in shape"
    assert claim_of(claims, "faster/fedzo").verdict == "undecided"
    assert claim_of(claims, "faster/percent").ours == 23.76


def test_a_lead_over_a_method_whose_rate_is_on_its_grids_edge_is_no_verdict():
    rounds = {"zorba": [20, 25, 20, 25], "decomfl": [55, 60, 50, 55]}
    inside = reaching(rounds, trials=(*trials_of("zorba", 2e-2), *trials_of("decomfl", 4e-3)))
    assert claim_of(method_rows.rows(inside), "faster/decomfl").verdict == "reproduced in shape"
    edge = reaching(rounds, trials=(*trials_of("zorba", 2e-2), *trials_of("decomfl", 8e-3)))
    found = claim_of(method_rows.rows(edge), "faster/decomfl")
    assert found.verdict == "undecided"
    assert "η 0.008 is the grid's edge, the highest rate tried: the true best may lie beyond" in found.note
    # An edge of the method that is ahead takes nothing from its lead.
    ahead = reaching(rounds, trials=(*trials_of("zorba", 4e-2), *trials_of("decomfl", 4e-3)))
    assert claim_of(method_rows.rows(ahead), "faster/decomfl").verdict == "reproduced in shape"


def test_comparisons_that_the_paper_does_not_make_are_not_contradictions():
    claims = method_rows.rows(reaching({
        "zorba": [20, 25, 20, 25], "decomfl": [30, 35, 30, 35], "decomfl-10": [5, 10, 5, 5],
    }))  # fmt: skip
    for name in ("faster/decomfl-equal-passes", "faster/decomfl-equal-work"):
        found = claim_of(claims, name)
        assert found.verdict == "beyond the paper"
        assert found.where.startswith("not in the paper")


def test_both_methods_get_the_same_horizon():
    """The other's runs are four times as long; what they reach after round 60 is not held against the shorter."""
    long = reaching({"zorba": [20, None, 25], "decomfl": [200, 100, 30]}, asked={"decomfl": 240})
    ratio = cost_ratio(long, "decomfl")
    assert (ratio.pairs, ratio.log.count, ratio.ahead, ratio.behind) == (3, 2, 2, 0)
    compared = compare_methods(long).set_index("arm")
    assert compared.loc["decomfl", "horizon"] == 60
    assert compared.loc["decomfl", "reached"] == 1
    assert (compared.loc["decomfl", "low"], compared.loc["decomfl", "high"]) == (60, math.inf)


def test_a_pair_in_which_nobody_arrives_tells_nothing():
    found = cost_ratio(reaching({"zorba": [None], "decomfl": [None]}), "decomfl")
    assert (found.log, found.pairs) == (None, 1)


def test_rates_inside_their_grid_are_not_flagged():
    assert grid_edge(reaching({"zorba": [20]}, trials=trials_of("zorba", 2e-2)), "sst2", "zorba") is None
    low = grid_edge(reaching({"zorba": [20]}, trials=trials_of("zorba", 5e-3)), "sst2", "zorba")
    assert (low.side, low.beyond) == ("lowest", 2.5e-3)
    assert grid_edge(results("tables", {"zorba": [0.5]}), "sst2", "zorba") is None


def test_stored_decomfl_sits_on_the_edge_of_its_grid_twice_and_nobody_else_does(tables):
    edges = {(dataset, arm.name): grid_edge(tables, dataset, arm.name)
             for dataset in ("sst2", "ag-news", "snli") for arm in ARMS}  # fmt: skip
    found = {key: edge.beyond for key, edge in edges.items() if edge is not None}
    assert found == {("sst2", "decomfl"): 0.016, ("sst2", "decomfl-10"): 0.08}


def test_stored_table_has_one_horizon_and_the_intervals_of_the_curves(tables):
    compared = compare_methods(tables)
    assert set(compared["horizon"]) == {60}
    row = compared.set_index(["dataset", "arm"]).loc["sst2", "zorba"]
    runs = tables.runs[(tables.runs["role"] == "measure") & (tables.runs["dataset"] == "sst2")]
    ends = []
    for sha in runs.loc[runs["arm"] == "zorba", "sha256"]:
        curve = tables.curves[tables.curves["sha256"] == sha].sort_values("round")
        ends.append(crossing(curve["round"].tolist(), curve["accuracy"].tolist(), EASY))
    assert sorted(end.high for end in ends)[2] == row["high"] == 15
    assert sorted(end.low for end in ends)[2] == row["low"] == 10


def test_stored_ten_direction_comparison_is_a_comparison_of_rates(tables):
    """2.4 times the rounds was a rate of 0.04 against 0.02: at equal rates the trials cross within a step."""
    trials = rates_of_trials(tables, "sst2", ("zorba", "decomfl-10")).set_index(["arm", "lr"])
    at = {key: Crossing(row["low"], row["high"]) for key, row in trials.iterrows()}
    assert at["zorba", 0.02] == at["decomfl-10", 0.02] == (15, 20)
    assert at["zorba", 0.04].high <= at["decomfl-10", 0.04].low
    found = cost_ratio(tables, "decomfl-10")
    assert math.exp(found.log.low) < 1 < math.exp(found.log.high)
    assert found.datasets == ("sst2",)


def test_stored_lead_over_decomfl_names_its_data_and_is_no_verdict(tables):
    claims = method_rows.rows(tables)
    found = claim_of(claims, "faster/decomfl")
    assert found.verdict == "undecided"
    assert "SST-2" in found.ours
    assert claim_of(claims, "faster/fedit").verdict == "reproduced in shape"
    assert not [claim.id for claim in claims if claim.verdict == "contradicted"]
