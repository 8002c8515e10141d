"""The experiments of our own claims: what their plans promise of the runs that are asked for."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments import design, lengths, parts, predictors, proxy, what_to_run
from zorba_core.study.experiments.definitions import OWN
from zorba_core.study.experiments.energies import stored_facts
from zorba_core.study.experiments.own_protocol import CELLS, HOLD_BACK, RATES
from zorba_core.study.experiments.protocol import TUNING_SEED
from zorba_core.study.experiments.recipes import Recipe, fleet_budgets
from zorba_core.study.experiments.specs import RunSpec
from zorba_core.study.experiments.store import empty_runs


def with_trials(experiment):
    """Runs of every trial that is asked for, the middle rate the best."""
    trials = [spec for spec in experiment.specs("standard", empty_runs()) if spec.role == "tune"]
    return pd.DataFrame(
        {
            "sha256": [spec.sha256 for spec in trials],
            "role": "tune",
            "arm": [spec.arm for spec in trials],
            "dataset": [spec.dataset for spec in trials],
            "model": [spec.model for spec in trials],
            "seed": TUNING_SEED,
            "lr": [spec.settings["lr"] for spec in trials],
            "late_loss": [abs(np.log(spec.settings["lr"] / 2.4e-2)) for spec in trials],
        }
    )


@pytest.mark.parametrize("seed", [0, 7, TUNING_SEED])
def test_no_client_has_more_blocks_than_its_budget_in_any_arm_but_full(seed):
    budget_N = np.maximum(1, np.floor(fleet_budgets(20, 12, seed) * (1 - HOLD_BACK)))
    for arm in set(what_to_run.ARMS) - {what_to_run.FULL}:
        recipe = what_to_run.recipe_of_arm(arm, "standard", ("opt-mini", "sst2"), seed)
        assert (recipe.build().A_MN.sum(axis=0) <= budget_N).all(), arm


def test_arms_of_a_cell_share_seeds_passes_and_data_and_differ_in_what_they_say():
    specs = OWN["what-to-run"].specs("standard", with_trials(OWN["what-to-run"]))
    measured = [spec for spec in specs if spec.role == "measure" and what_to_run.DIFFERENCES not in spec.arm]
    by_arm = Counter((spec.model, spec.dataset, spec.arm) for spec in measured)
    assert set(by_arm.values()) == {20}
    assert {spec.settings["rounds"] for spec in measured} == {12}
    assert {spec.settings["num_perturbations"] for spec in measured} == {10}
    assert {spec.settings["estimator"] for spec in measured} == {"exact"}
    assert not {spec.seed for spec in measured} & {TUNING_SEED}


def test_runs_go_seed_by_seed_so_that_any_number_of_them_is_balanced():
    specs = OWN["what-to-run"].specs("standard", with_trials(OWN["what-to-run"]))
    for cell in CELLS:
        core = [
            spec
            for spec in specs
            if spec.role == "measure" and spec.arm in what_to_run.CORE and (spec.model, spec.dataset) == cell
        ]
        for count in range(1, len(core)):
            seen = Counter(spec.arm for spec in core[:count])
            assert max(seen.values()) - min(seen[arm] for arm in what_to_run.CORE if arm in seen) <= 1
            assert len(seen) == min(count, len({spec.arm for spec in core}))


def test_elsewhere_changes_one_thing_in_each_cell_and_its_arms_share_seeds_and_fleets():
    here = [spec for spec in OWN["what-to-run"].specs("standard", with_trials(OWN["what-to-run"]))]
    specs = OWN["elsewhere"].specs("standard", with_trials(OWN["elsewhere"]))
    measured = [spec for spec in specs if spec.role == "measure"]
    assert set(Counter((spec.dataset, spec.arm) for spec in measured).values()) == {20}
    assert {spec.recipe.num_clients for spec in measured if spec.dataset == "sst2"} == {50}
    assert {spec.settings["inactive"] for spec in measured if spec.dataset == "toy-reviews"} == {"dropped"}
    asked = {spec.arm: spec for spec in here if spec.seed == 0 and (spec.model, spec.dataset) == ("opt-mini", "sst2")}
    for spec in measured:
        if spec.seed == 0:
            there = asked[spec.arm]
            differing = {name for name, value in spec.settings.items() if there.settings.get(name) != value} - {"lr"}
            differing |= {"dataset"} if spec.dataset in ("ag-news", "snli") else set()
            differing |= {"clients"} if spec.recipe.num_clients != there.recipe.num_clients else set()
            assert len(differing) == 1, spec.arm
    assert not {spec.sha256 for spec in specs} & {spec.sha256 for spec in here}


@pytest.mark.parametrize("seed", [0, TUNING_SEED])
def test_arms_with_lengths_have_the_budgets_and_passes_of_the_papers(seed):
    cell = ("opt-mini", "sst2")
    budget_N = np.maximum(1, np.floor(fleet_budgets(20, 12, seed) * (1 - HOLD_BACK)))
    for arm in set(lengths.ARMS) - {"full + lengths"}:
        recipe = lengths.recipe_of_arm(arm, "standard", cell, seed)
        assert (recipe.build().A_MN.sum(axis=0) <= budget_N).all(), arm
    specs = OWN["lengths"].specs("standard", with_trials(OWN["lengths"]))
    measured = [spec for spec in specs if spec.role == "measure"]
    assert set(Counter((spec.model, spec.dataset, spec.arm) for spec in measured).values()) == {20}
    assert {(spec.settings["rounds"], spec.settings["num_perturbations"]) for spec in measured} == {(12, 10)}
    with_lengths = {spec.arm for spec in measured if spec.settings.get("block_scales")}
    assert with_lengths == {arm for arm, chosen in lengths.ARMS.items() if chosen.lengths}
    assert {spec.arm for spec in measured if spec.method == "zorba-own"} == {"best", "own", "lengths + own"}
    facts = stored_facts(*cell)
    of_gain = next(spec for spec in measured if spec.arm == "gain + lengths" and (spec.model, spec.dataset) == cell)
    length_M = np.array(of_gain.settings["block_scales"].split(","), float)
    np.testing.assert_allclose(length_M, (1 / np.array(facts[0])) ** 0.25, rtol=1e-3)
    np.testing.assert_allclose(of_gain.recipe.energies, np.sqrt(facts[0]), rtol=1e-3)


def test_parts_share_the_runs_of_what_to_run():
    ours = {spec.sha256 for spec in OWN["what-to-run"].specs("standard", with_trials(OWN["what-to-run"]))}
    shared = [spec for spec in OWN["parts"].specs("standard", with_trials(OWN["parts"])) if spec.sha256 in ours]
    assert {spec.arm for spec in shared} == {"paper", "gain", "gain, idle blocks", "candidate", "full"}
    assert {part.rates for part in parts.ARMS.values()} == set(RATES) - {"lengths"}


def test_every_plan_is_older_than_the_runs_of_its_experiment(root):
    """The commit that each run names holds the plan."""
    for name in OWN:
        assert (root / "artifacts" / "experiments" / name / "PLAN.md").is_file()
        table = root / "artifacts" / "experiments" / name / "standard" / "runs.parquet"
        if not table.is_file():
            continue
        for commit in pd.read_parquet(table)["git_commit"].dropna().unique():
            if not in_git(root, f"{commit}^{{commit}}"):
                pytest.skip("the history of this checkout is not whole")
            assert in_git(root, f"{commit}:artifacts/experiments/{name}/PLAN.md"), (name, commit)


def in_git(root, what):
    command = ["git", "-C", str(root), "cat-file", "-e", what]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_matrices_measures_are_uncorrelated_and_none_is_an_outlier():
    """Counted again from the columns, without the measures' own code."""
    stored = design.stored_design()
    assert len(stored.columns_K) == len(set(stored.columns_K)) == 24
    rows = []
    for columns in stored.columns_K:
        held = [{m for m in range(12) if int(code, 16) >> m & 1} for code in columns.split(",")]
        assert sum(map(len, held)) == design.TOTAL
        count = [sum(m in blocks for blocks in held) for m in range(12)]
        assert min(count) > 0
        assert all(held)
        both = [[sum(m in blocks and k in blocks for blocks in held) for k in range(12)] for m in range(12)]
        rows.append(
            [
                np.log(sum(1 / min(count[m] for m in blocks) ** 2 for blocks in held)),
                sum(1 / c for c in count) / 12,
                sum(sum(both[m]) / count[m] ** 2 for m in range(12)) / 12,
                sum(sum(c * c for c in both[m]) / count[m] ** 2 for m in range(12)) / 12,
            ]
        )
    rows = np.array(rows)
    np.testing.assert_allclose(rows, stored.features_KF, rtol=1e-9)
    largest = np.abs(np.corrcoef(rows.T) - np.eye(4)).max()
    assert largest == pytest.approx(stored.largest_correlation)
    assert largest < 0.2
    for column in rows.T:
        design_matrix = np.column_stack([np.ones(24), column])
        hat = design_matrix @ np.linalg.inv(design_matrix.T @ design_matrix) @ design_matrix.T
        assert np.diag(hat).max() <= stored.largest_leverage + 1e-12 < 0.2


def test_an_exchange_only_improves_and_measures_that_go_together_are_told_apart():
    rng = np.random.default_rng(0)
    together = rng.standard_normal((400, 1)) + 0.8 * rng.standard_normal((400, 3))
    chosen = together[design.choose(together, 24, rng, restarts=1)]
    before = np.abs(np.corrcoef(together.T) - np.eye(3)).max()
    assert np.abs(np.corrcoef(chosen.T) - np.eye(3)).max() < before / 3


def test_every_draw_has_the_total_and_leaves_nobody_out():
    rng = np.random.default_rng(3)
    for _ in range(200):
        A_MN = design.drawn(rng)
        assert A_MN.sum() == design.TOTAL
        assert A_MN.any(axis=0).all()
        assert A_MN.any(axis=1).all()
        np.testing.assert_array_equal(design.recipe_of(design.encoded(A_MN)).build().A_MN, A_MN)


def test_blocks_are_permuted_anew_in_every_run_of_every_matrix():
    specs = OWN["predictors"].specs("standard", with_trials(OWN["predictors"]))
    cell = [s for s in specs if (s.model, s.dataset) == ("opt-mini", "toy-reviews") and s.role == "measure"]
    assert len(cell) == 24 * 12
    assert len({spec.recipe.shuffle for spec in cell}) == len(cell)
    assert {spec.settings["step"] for spec in cell} == {"normalised"}
    assert {spec.arm for spec in cell} == {predictors.name_of(k) for k in range(24)}


def test_a_recipe_of_a_given_matrix_survives_its_request():
    spec = OWN["predictors"].specs("standard", with_trials(OWN["predictors"]))[-1]
    again = RunSpec.from_request(json.loads(json.dumps(spec.request())), spec.arm)
    assert again.sha256 == spec.sha256
    np.testing.assert_array_equal(again.recipe.build().A_MN, spec.recipe.build().A_MN)


def test_recipes_of_before_have_the_requests_of_before():
    assert Recipe("solver", 20, solver="exact", total=100).describe() == {
        "kind": "solver",
        "num_clients": 20,
        "solver": "exact",
        "total": 100,
    }


def test_a_cell_whose_blocks_have_not_been_measured_waits(monkeypatch):
    monkeypatch.setattr("zorba_core.study.experiments.own_protocol.stored_facts", lambda model, dataset: None)
    specs = OWN["what-to-run"].specs("standard", empty_runs())
    assert {"paper", "balanced"} <= {spec.arm for spec in specs}
    assert "gain" not in {spec.arm for spec in specs}


def test_the_proxys_energies_are_there_for_every_cell_that_has_runs(root):
    for model, dataset in CELLS:
        facts = stored_facts(model, dataset)
        if facts is not None:
            energies, noises = facts
            assert len(energies) == len(noises) == 12
            assert max(energies) == 1.0
            assert min(noises) > 0


def test_a_damaged_table_of_energies_or_matrices_is_said_in_one_line(tmp_path):
    (tmp_path / "energies.json").write_text('{"opt-mini/sst2": {"energies": ["x"]}}')
    with pytest.raises(InvalidInputError, match="not a table of energies"):
        stored_facts("opt-mini", "sst2", tmp_path / "energies.json")
    assert stored_facts("opt-mini", "sst2", tmp_path / "none.json") is None
    (tmp_path / "matrices.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="not a design"):
        design.stored_design(tmp_path / "matrices.json")
    with pytest.raises(MissingDataError, match=r"experiments\.design"):
        design.stored_design(tmp_path / "none.json")


def test_the_proxy_measures_what_autograd_gives_for_one_batch_after_another():
    """Energies of toy reviews from 6 batches, by the pairs of their gradients."""
    import torch
    from torch.nn import functional

    from zorba_core.data.encoding import encode, label_token_ids
    from zorba_core.data.splits import load_split
    from zorba_core.data.tasks import TASKS
    from zorba_core.engine.randomness import stream
    from zorba_core.runs.model_source import load_model, load_tokenizer

    measured = proxy.measure("opt-mini", "toy-reviews", batches=6)
    task, tokenizer, model = TASKS["toy-reviews"], load_tokenizer("opt-mini"), load_model("opt-mini").eval()
    rows = load_split("toy-reviews", "base")
    rows = rows.iloc[stream("proxy", 0).permutation(len(rows))[:12]].reset_index(drop=True)
    encoded, words = encode(task, rows, tokenizer, 64), label_token_ids(task, tokenizer)
    gradients = []
    for n in range(6):
        model.zero_grad()
        losses = []
        for r in (2 * n, 2 * n + 1):
            ids = encoded.token_ids_RL[r, : encoded.last_R[r] + 1][None]
            losses.append(functional.cross_entropy(model(ids).logits[0, -1, words][None], encoded.label_R[r : r + 1]))
        torch.stack(losses).mean().backward()
        gradients.append(
            [torch.cat([p.grad.flatten() for p in layer.parameters()]) for layer in model.model.decoder.layers]
        )
    pairs = [
        np.mean([float(gradients[a][m] @ gradients[b][m]) for a in range(6) for b in range(6) if a != b])
        for m in range(12)
    ]
    energies = np.maximum(pairs, 0)
    np.testing.assert_allclose(measured["energies"], energies / energies.max(), rtol=2e-3, atol=2e-3)
    squares = [np.mean([float(gradients[n][m] @ gradients[n][m]) for n in range(6)]) for m in range(12)]
    noises = np.maximum(np.array(squares) - energies, 0) / energies.max()
    np.testing.assert_allclose(measured["noises"], noises, rtol=2e-3)
