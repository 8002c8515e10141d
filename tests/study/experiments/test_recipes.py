"""The matrices of the experiments: what they promise, and what their measures mean."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation.scenarios import PAPER_SCENARIOS
from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments import EXPERIMENTS
from zorba_core.study.experiments.cases import scenario_recipes
from zorba_core.study.experiments.lambda_law import recipes_20, recipes_50
from zorba_core.study.experiments.measures import COLUMNS, allocation_measures
from zorba_core.study.experiments.recipes import Recipe, dealt
from zorba_core.study.experiments.store import read_tables


def test_the_lambda_experiment_has_at_least_forty_allocations_and_each_is_complete():
    allocations = [recipe.build() for recipe in (*recipes_20().values(), *recipes_50().values())]
    assert len({allocation.A_MN.tobytes() for allocation in allocations}) == len(allocations) >= 40
    assert all(allocation.is_complete for allocation in allocations)


def test_at_eighty_blocks_lambda_spreads_widely_and_total_not_at_all():
    at_80 = [a for a in (recipe.build() for recipe in recipes_20().values()) if a.total_blocks == 80]
    assert len(at_80) >= 12
    assert max(a.bias_lambda for a in at_80) > 20 * min(a.bias_lambda for a in at_80)


@pytest.mark.parametrize("name", ["hub", "hub2", "twos", "linear"])
def test_piling_keeps_v_and_turns_lambda_and_coupled_noise_against_each_other(name):
    recipes = recipes_20()
    spread = allocation_measures(recipes.get(f"{name}-spread", recipes.get(name)).build())
    pile = allocation_measures(recipes[f"{name}-pile"].build())
    assert pile["V"] == spread["V"]
    assert pile["T"] == spread["T"]
    assert pile["lambda"] < spread["lambda"]
    assert pile["N_eff"] < spread["N_eff"]


@pytest.mark.parametrize("name", PAPER_SCENARIOS)
def test_the_scenarios_have_the_printed_lambda(name):
    allocation = scenario_recipes()[name].build()
    assert allocation.bias_lambda == pytest.approx(PAPER_SCENARIOS[name].bias_lambda, abs=1e-3)


def test_sc2_and_sc3_have_equally_many_blocks_and_sc1_fewer():
    total = {name: recipe.build().total_blocks for name, recipe in scenario_recipes().items()}
    assert total["SC1"] < total["SC2"] == total["SC3"]


def test_a_recipe_that_leaves_blocks_out_has_no_finite_measure_but_those_of_its_clients():
    """One definition for the tables and for every page: a block without a client never makes a number better."""
    only = Recipe("only", 3, only_blocks=(10, 11)).build()
    measures = allocation_measures(only)
    assert [measures[name] for name in ("V", "E", "D", "inverse_min_c")] == [float("inf")] * 4
    assert (measures["E"], measures["D"]) == (only.coupled_noise, only.direction_coupling)
    assert measures["lambda"] == pytest.approx(1 / 3)


def test_shuffling_blocks_changes_the_matrix_and_no_measure():
    plain = Recipe("popularity", 20, popularity_M=(1, *[7] * 9, 8, 8))
    shuffled = Recipe("popularity", 20, popularity_M=(1, *[7] * 9, 8, 8), shuffle=3)
    assert not np.array_equal(plain.build().A_MN, shuffled.build().A_MN)
    assert allocation_measures(shuffled.build()) == pytest.approx(allocation_measures(plain.build()))


def test_a_random_matrix_has_no_empty_block_or_client():
    assert all(Recipe("random", 8, share=0.02, draw=draw).build().is_complete for draw in range(20))


def test_impossible_recipes_are_refused_with_the_reason():
    with pytest.raises(InvalidInputError, match="leave client"):
        dealt((1, 1), 3, "spread")
    with pytest.raises(InvalidInputError, match="between 1 and 3"):
        dealt((1, 4), 3, "spread")
    with pytest.raises(InvalidInputError, match="recipe 'magic'"):
        Recipe("magic", 3)
    with pytest.raises(InvalidInputError, match="12 or 24 blocks"):
        Recipe("solver", 5, num_blocks=7, solver="balanced").build()


@pytest.mark.parametrize("experiment", ["ablations", "cases"])
def test_stored_tables_hold_the_measures_as_they_are_defined_now(root, experiment):
    runs, _ = read_tables(root / "artifacts" / "experiments" / experiment / "standard")
    specs = {spec.sha256: spec for spec in EXPERIMENTS[experiment].specs("standard", runs)}
    for row in runs.to_dict("records"):
        measures = allocation_measures(specs[row["sha256"]].recipe.build())
        assert {name: row[name] for name in COLUMNS} == pytest.approx({name: measures[name] for name in COLUMNS})
