"""The experiments as planned: placebos repeat what the theory reads, and every arm can be built."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from notebooks.reproduction.__main__ import build_app
from notebooks.reproduction.matrices import BLOCKS_OF, balanced, dealt, family, scenario, solved_scenario
from notebooks.reproduction.plans import TARGET, of_kind, plans
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
            assert original.rate_of in ("", arm.rate_of)
            assert sum((arm.matrix(seed).A_MN != original.matrix(seed).A_MN).any() for seed in seeds) >= len(seeds) - 1
            for seed in seeds:
                one, other = arm.matrix(seed), original.matrix(seed)
                for measure in MEASURES.values():
                    assert measure(one) == pytest.approx(measure(other)), (arm, seed)


def test_every_plan_has_a_placebo_and_shares_no_seed_between_trials_and_measured_runs():
    for plan in plans("cpu").values():
        assert any(arm.placebo_of for cell in plan.cells for arm in cell.arms)
        for cell in plan.cells:
            assert not set(cell.seeds) & set(cell.trial_seeds)


def test_forty_allocations_of_one_total_span_lambda_and_their_pairs_differ_in_one_measure():
    members, same_v, same_lambda = family()
    made = {each.name: each.allocation() for each in members}
    assert len(made) == 40
    assert {allocation.total_blocks for allocation in made.values()} == {80}
    lambdas = [allocation.bias_lambda for allocation in made.values()]
    assert min(lambdas) < 0.27
    assert max(lambdas) > 8
    assert (len(same_v), len(same_lambda)) == (5, 5)
    for low, high in same_v:
        one, other = made[low.name], made[high.name]
        assert one.mean_inverse_popularity == pytest.approx(other.mean_inverse_popularity)
        assert one.bias_lambda < 0.5 * other.bias_lambda
    for low, high in same_lambda:
        one, other = made[low.name], made[high.name]
        assert one.bias_lambda == pytest.approx(other.bias_lambda, rel=0.03)
        assert one.mean_inverse_popularity < 0.5 * other.mean_inverse_popularity


def test_the_allocations_share_the_rate_of_the_even_one_and_the_scarce_pair_one_lambda():
    (cell,) = plans("cpu")["allocations-sst2"].cells
    arms = {arm.name: arm for arm in cell.arms}
    assert {arm.rate_of for name, arm in arms.items() if name != "even"} == {"even"}
    assert {each.name for each in family().members} <= set(arms)
    scarce = [arms[name].matrix(0).bias_lambda for name in ("one scarce", "eleven scarce")]
    assert scarce[0] == pytest.approx(scarce[1])


def test_the_stored_scenarios_are_those_of_the_solver():
    for name in ("SC1", "SC2", "SC3"):
        assert (scenario(name).A_MN == solved_scenario(name).A_MN).all()


def test_the_plan_names_every_experiment_with_its_arms_and_seeds(root):
    text = (root / "artifacts/experiments/PLAN.md").read_text(encoding="utf-8")
    for name, plan in plans("cpu").items():
        assert f"`{name}`" in text
        if name not in ("blocks", "setting"):
            (row,) = (line for line in text.splitlines() if line.startswith("| ") and f"`{name}`" in line)
            *_, seeds, arms, _ = (part.strip().split(", ") for part in row.strip("| ").split(" | "))
            place = [each.strip("`") for each in row.split(" | ")[1].split(", ")].index(name)
            (cell,) = plan.cells
            assert (len(cell.seeds), len(cell.arms)) == (int(seeds[place]), int(arms[place])), name


def test_experiments_of_one_kind_share_their_arms_and_name_a_target_for_the_cost():
    for kind in ("methods", "scenarios"):
        cells = [cell for name in of_kind(kind) for cell in {**plans("cpu"), **plans("gpu")}[name].cells]
        assert len({tuple(arm.name for arm in cell.arms) for cell in cells}) == 1
        assert all(cell.target == TARGET[cell.base, cell.task] for cell in cells)


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
