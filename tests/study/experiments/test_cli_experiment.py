"""``zorba experiment``: what it lists, and wrong requests in one line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from zorba_core.cli import build_app
from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments import EXPERIMENTS


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
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(tmp_path, arguments, named):
    error = invoke(*arguments, "--root", str(tmp_path)).exception
    assert isinstance(error, InvalidInputError)
    assert named in str(error)
