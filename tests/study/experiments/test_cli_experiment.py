"""``zorba experiment``: what it lists, and wrong requests in one line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from zorba_core.cli import build_app, experiment
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.study.experiments import EXPERIMENTS
from zorba_core.study.experiments.runner import RepeatedRun


def invoke(*arguments):
    return CliRunner().invoke(build_app(), ["experiment", *arguments])


def test_listing_says_for_each_experiment_what_it_asks_and_what_is_missing(tmp_path):
    result = invoke("--all", "--list", "--profile", "ci", "--root", str(tmp_path), "--json")
    assert result.exit_code == 0
    listed = json.loads(result.stdout)["experiments"]
    assert [one["experiment"] for one in listed] == list(EXPERIMENTS)
    assert all(one["runs"] == 0 and one["missing"] > 0 and one["question"].endswith("?") for one in listed)
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_few_experiments_have_lists_those(tmp_path):
    result = invoke("--all", "--list", "--profile", "gpu", "--root", str(tmp_path), "--json")
    listed = json.loads(result.stdout)["experiments"]
    assert {one["experiment"]: one["missing"] for one in listed} == {"cases": 15, "tables": 39}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "name one experiment"),
        (["lambda", "--all"], "not both"),
        (["alchemy"], "choose one of cases, lambda"),
        (["lambda", "--profile", "huge"], "profile is 'huge'; of experiment lambda choose one of ci, standard, paper"),
        (["ablations", "--profile", "gpu"], "profile is 'gpu'; of experiment ablations choose one of ci,"),
        (["--all", "--profile", "huge"], "profile is 'huge'; choose one of ci, standard, gpu, paper"),
        (["lambda", "--workers", "0"], "workers is 0"),
        (["--again", "2"], "--again works on one experiment"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(tmp_path, arguments, named):
    error = invoke(*arguments, "--root", str(tmp_path)).exception
    assert isinstance(error, InvalidInputError)
    assert named in str(error)


def test_making_again_what_was_never_made_names_the_command(tmp_path):
    error = invoke("lambda", "--profile", "ci", "--again", "1", "--root", str(tmp_path)).exception
    assert isinstance(error, MissingDataError)
    assert "zorba experiment lambda --profile ci" in str(error)


@pytest.mark.parametrize(
    ("commit", "processor", "same", "said"),
    [
        ("0123456789", "AVX512", True, "seed 3 (made under commit 0123456: the same bits are promised there)"),
        ("", "AVX512", True, "arm, seed 3"),
        ("", "AVX2", False, "seed 3 (made on AVX2: the same bits are promised there)"),
        ("0123456789", "", False, "(made under commit 0123456 on a processor that its row does not name: the same"),
    ],
)
def test_other_weights_are_an_error_that_says_where_the_stored_ones_are_from(
    monkeypatch, tmp_path, commit, processor, same, said
):
    repeated = RepeatedRun("arm", 3, "one", "other", 0.5, 0.7, False, commit, processor, same)
    monkeypatch.setattr(experiment, "run_again", lambda *given: [repeated])
    outcome = invoke("lambda", "--again", "1", "--root", str(tmp_path))
    assert "arm, seed 3: other weights (loss 0.700000, stored 0.500000)" in outcome.stdout
    assert isinstance(outcome.exception, RunError)
    assert said in str(outcome.exception)
