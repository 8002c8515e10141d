"""Presets fill in what a command was not given, and nothing else."""

from __future__ import annotations

import json
import sys

import pytest

from zorba_core.allocation import SOLVERS
from zorba_core.cli import main
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.presets import PRESETS, filled


@pytest.fixture
def zorba(monkeypatch, capsys):
    def call(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["zorba", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return left.value.code or 0, captured.out, captured.err

    return call


def test_every_preset_is_one_that_a_run_can_have_and_says_why():
    assert set(PRESETS) == {"paper", "best"}
    for preset in PRESETS.values():
        assert TrainSettings(**preset.settings)
        assert preset.options["solver"] in SOLVERS
        assert preset.evidence
        assert all(sentence.endswith(".") for sentence in preset.evidence)


def test_what_was_given_stays_and_the_rest_is_the_presets():
    values = {"solver": None, "method": "zorba", "schedule": "linear", "step": "plain", "lr": 0.5, "allocation": None}
    best = PRESETS["best"].options
    of_best = filled("best", values, {"schedule"})
    assert (of_best["schedule"], of_best["lr"]) == ("linear", 0.5)
    assert of_best["solver"] == best["solver"]
    known = {**values, "importance": "runs/a-run"}
    assert filled("best", known, {"importance"})["solver"] == "gain"
    assert filled("paper", known, {"importance"})["solver"] == "lexicographic"
    assert filled("best", {**values, "allocation": "plan.npz"}, {"allocation"})["solver"] is None
    assert filled("paper", {**values, "method": "fedit"}, {"method"})["solver"] is None
    assert filled("paper", {**values, "solver": "exact"}, {"solver"})["solver"] == "exact"
    with pytest.raises(InvalidInputError, match="preset is 'worst'; choose one of paper, best"):
        filled("worst", values, set())


def test_allocate_and_train_take_a_preset(zorba, tiny_opt_folder, tmp_path):
    fleet = ("allocate", "--budgets", "3,2,2,1", "--blocks", "3", "--json")
    code, out, _ = zorba(*fleet, "--preset", "paper")
    assert (code, json.loads(out)["solver"]) == (0, "lexicographic")
    assert json.loads(zorba(*fleet, "--preset", "paper", "--solver", "balanced")[1])["solver"] == "balanced"
    code, out, _ = zorba(
        "train", "--preset", "best", "--model", str(tiny_opt_folder), "--clients", "3", "--rounds", "1",
        "--seq-len", "24",         "--perturbations", "1", "--batch-size", "2", "--eval-rows", "8", "--force", "--json",
        "--runs-folder", str(tmp_path),
    )  # fmt: skip
    assert code == 0
    (folder,) = tmp_path.iterdir()
    config = json.loads((folder / "config.json").read_text())
    assert {name: config[name] for name in PRESETS["best"].settings} == PRESETS["best"].settings
    assert config["allocation"]["solver"] == PRESETS["best"].options["solver"]
    assert zorba(*fleet, "--preset", "worst")[0] == 2
