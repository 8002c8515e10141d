"""Rows that computation decides: what each must say, whatever the machine."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.ledger import communication_rows, front_rows, memory_rows, theory_rows, toy_rows
from zorba_core.study.ledger.printed import METHOD_TITLES, TABLE_2_VRAM
from zorba_core.study.ledger.quadratic import Quadratic, estimate_ratio


def by_id(claims):
    return {claim.id: claim for claim in claims}


def test_table_ii_has_24_vram_cells_and_the_two_misprints_alone_are_contradicted(root):
    cells = [claim for claim in memory_rows.rows(root) if claim.id.startswith("table-2/vram/")]
    assert len(cells) == 24
    wrong = {claim.id for claim in cells if claim.verdict == "contradicted"}
    assert wrong == {"table-2/vram/opt-1.3b/snli/fedzo", "table-2/vram/opt-1.3b/snli/decomfl"}
    assert all("2135.89" in claim.counter_example for claim in cells if claim.id in wrong)
    # ZorBA's six follow from totals read off the cells themselves.
    assert Counter(claim.verdict for claim in cells) == {"reproduced": 16, "consistent": 6, "contradicted": 2}
    assert {claim.id.split("/")[-1] for claim in cells if claim.verdict == "consistent"} == {"zorba"}


def test_the_percentages_of_the_abstract_are_the_printed_cells(root):
    claims = by_id(memory_rows.rows(root))
    for baseline, printed in (("fedit", 62.41), ("fedzo", 54.75), ("decomfl", 54.75)):
        assert claims[f"saving/{baseline}"].ours == printed
        assert claims[f"saving/{baseline}"].verdict == "reproduced"


def test_capacities_as_stated_cannot_hold_what_three_of_the_cells_activate(root):
    found = {claim.id: claim.verdict for claim in memory_rows.rows(root) if claim.id.startswith("capacity/")}
    assert Counter(found.values()) == {"reproduced": 3, "contradicted": 3}
    assert found["capacity/opt-125m/snli"] == found["capacity/opt-1.3b/snli"] == "contradicted"


def test_measured_memory_does_not_grow_with_activated_blocks_as_fig_1_says(root):
    claim = by_id(memory_rows.rows(root))["fig-1/linear"]
    assert claim.verdict == "contradicted"
    assert abs(claim.ours) < claim.printed / 20


def test_a_missing_measurement_names_the_script_that_makes_it(tmp_path):
    with pytest.raises(MissingDataError, match="bench_memory"):
        memory_rows.read_measured(tmp_path / "memory.json")
    with pytest.raises(MissingDataError, match="bench_allocation"):
        front_rows.read_timings(tmp_path / "allocation.json")
    (tmp_path / "memory.json").write_text(json.dumps({"rows": [{"blocks": 1}]}))
    with pytest.raises(InvalidInputError, match="not what"):
        memory_rows.read_measured(tmp_path / "memory.json")


def test_every_communication_cell_of_the_model_senders_is_two_models_a_round():
    claims = by_id(communication_rows.rows())
    cells = [claim for claim in claims.values() if claim.id.startswith("table-2/communication/")]
    assert len(cells) == 24
    for claim in cells:
        expected = "reproduced" if claim.id.endswith(("fedit", "fedzo")) else "contradicted"
        assert claim.verdict == expected
    assert claims["communication/comparable"].ours > 5


def test_the_papers_protocol_sends_three_numbers_a_direction():
    from zorba_core.study.printed_communication import PRINTED

    for method, directions in (("zorba", 10), ("decomfl", 1)):
        cell = PRINTED[method][0]
        assert communication_rows.paper_count(method, cell) == 50 * cell.rounds * 3 * directions


def test_the_four_observations_hold_on_the_toy():
    claims = toy_rows.rows()
    assert [claim.id for claim in claims] == [f"observation-{i}" for i in (1, 2, 3, 4)]
    assert {claim.verdict for claim in claims} == {"reproduced"}
    assert all("265 matrices, in 17 classes" in claim.note for claim in claims)


def test_theorems_and_lemmas_get_the_verdicts_that_algebra_and_enumeration_give():
    verdicts = {claim.id: claim.verdict for claim in theory_rows.rows()}
    assert verdicts == {
        "theorem-1/bound": "not contradicted",
        "theorem-1/rate": "contradicted",
        "theorem-1/gap": "contradicted",
        "theorem-2": "not contradicted",
        "theorem-3": "contradicted",
        "theorem-3/full-size": "contradicted",
        "theorem-4/whole": "reproduced",
        "theorem-4/fractions": "contradicted",
        "lemma-2": "contradicted",
        "lemma-4": "reproduced",
        "lemma-5": "reproduced",
        "proposition-1/lambda": "reproduced",
    }


def test_lemma_2s_factor_belongs_to_directions_of_length_root_d():
    d, Q = 20, 4
    assert estimate_ratio(d, Q, math.sqrt(d), 20_000, seed=1) == pytest.approx((d + Q - 1) / Q, rel=0.03)
    assert estimate_ratio(d, Q, 1.0, 20_000, seed=1) == pytest.approx((d + Q - 1) / Q / d**2, rel=0.03)


def test_the_constants_of_a_quadratic_are_what_the_bounds_mean_by_them():
    problem = Quadratic(np.array([0.5, 2.0]), np.array([[1.0, 0.0], [-1.0, 0.0]]), noise=0.0)
    assert problem.smoothness == 2.0
    assert problem.effective_rank == 1.25
    assert problem.dissimilarity == 0.5
    assert problem.gradient(np.array([1.0, 1.0])) == pytest.approx([0.5, 2.0])
    assert problem.gap(np.array([1.0, 1.0])) == pytest.approx(1.25)


def test_timings_stay_within_the_stated_complexity(root):
    claims = by_id(front_rows._complexities(root / front_rows.TIMINGS))
    assert claims["complexity/lexicographic"].ours <= 1
    assert claims["complexity/np-hard"].verdict == "cannot be tested here"


def test_the_front_falls_and_no_method_of_two_neighbouring_popularities_reaches_sc3():
    curve = front_rows.front_curve(np.array([0.5, 0.7, 0.9]), num_epsilons=60, fleets=1)
    assert curve[0] > curve[1] > curve[2]
    scenarios = by_id(front_rows._scenarios())
    assert scenarios["fig-4a/sc3"].verdict == "contradicted"
    assert scenarios["fig-4a/sc3"].ours < 0.2


def test_printed_table_ii_is_complete():
    assert all(set(row.gib) == set(METHOD_TITLES) for row in TABLE_2_VRAM)
