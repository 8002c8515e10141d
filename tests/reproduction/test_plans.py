"""The experiments as planned: placebos repeat what the theory reads, and every arm can be built."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from notebooks.reproduction.__main__ import build_app
from notebooks.reproduction.plans import BLOCKS_OF, balanced, dealt, plans
from notebooks.reproduction.sweep import MEASURES
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

CELLS = [cell for plan in plans("cpu").values() for cell in plan.cells]


def test_every_arm_fits_its_cell_and_its_settings_are_valid():
    for cell in CELLS:
        for arm in cell.arms:
            Settings(**{**cell.settings, **arm.settings, "seed": 0, "lr": arm.lr})
            if arm.matrix is not None:
                assert arm.matrix(0).A_MN.shape == (BLOCKS_OF[cell.base], cell.num_clients), arm


def test_a_placebo_repeats_all_that_the_theory_reads_in_another_matrix():
    for cell in CELLS:
        arms, seeds = {arm.name: arm for arm in cell.arms}, (*cell.trial_seeds, *cell.seeds)
        for arm in (arm for arm in cell.arms if arm.placebo_of):
            original = arms[arm.placebo_of]
            assert (arm.settings, arm.lr) == (original.settings, original.lr)
            assert sum((arm.matrix(seed).A_MN != original.matrix(seed).A_MN).any() for seed in seeds) >= len(seeds) - 1
            for seed in seeds:
                one, other = arm.matrix(seed), original.matrix(seed)
                for name in MEASURES.values():
                    assert getattr(one, name) == pytest.approx(getattr(other, name)), (arm, seed)


def test_every_plan_has_a_placebo_and_shares_no_seed_between_trials_and_measured_runs():
    for plan in plans("cpu").values():
        assert any(arm.placebo_of for cell in plan.cells for arm in cell.arms)
        for cell in plan.cells:
            assert not set(cell.seeds) & set(cell.trial_seeds)


def test_the_matrices_of_lambda_have_one_total_and_the_scarce_pair_one_lambda():
    scarce, many = plans("cpu")["lambda"].cells
    *of_80, every = many.arms
    assert {arm.matrix(0).total_blocks for arm in of_80} == {80}
    assert len({round(arm.matrix(0).bias_lambda, 9) for arm in of_80}) == 15  # one is a placebo
    assert every.matrix(0).total_blocks == 240
    assert len({round(arm.matrix(0).bias_lambda, 9) for arm in scarce.arms}) == 1


def test_dealt_blocks_have_the_popularities_asked_for_spread_or_piled():
    spread, piled = dealt((1, 1, 4, 4), 5), dealt((1, 1, 4, 4), 5, True)
    assert sorted(spread.popularity_M) == sorted(piled.popularity_M) == [1, 1, 4, 4]
    assert spread.A_MN[:2].sum(axis=0).max() == 1
    assert piled.A_MN[:2].sum(axis=0).tolist() == [2, 0, 0, 0, 0]
    assert balanced(12, 20, 4).popularity_M.tolist() in ([7] * 8 + [6] * 4, sorted([7] * 8 + [6] * 4))


def test_listing_says_what_is_asked_and_missing_and_runs_nothing(tmp_path):
    result = CliRunner().invoke(build_app(), ["--list", "--folder", str(tmp_path), "--json"])
    listed = json.loads(result.stdout)["experiments"]
    assert [one["experiment"] for one in listed] == list(plans("cpu"))
    assert all(one["runs"] == 0 and one["missing"] > 0 and one["question"].endswith("?") for one in listed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "named"), [(["alchemy"], "'alchemy' is unknown"), (["--profile", "x"], "'x'")])
def test_a_wrong_request_is_refused_before_anything_runs(arguments, named, tmp_path):
    error = CliRunner().invoke(build_app(), [*arguments, "--folder", str(tmp_path)]).exception
    assert isinstance(error, InvalidInputError)
    assert named in str(error)
