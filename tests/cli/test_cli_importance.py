"""From a run's scalars to the next run's plan, by commands alone."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.runs.resumable import SETTINGS
from zorba_core.allocation.importance import importance_of
from zorba_core.checksums import read_sealed
from zorba_core.cli import main
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.block_importance import importance, scalar_rounds
from zorba_core.runs.folder import read_request
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory


@pytest.fixture
def zorba(monkeypatch, capsys):
    def call(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["zorba", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return left.value.code or 0, captured.out, captured.err

    return call


@pytest.mark.slow
def test_importance_of_a_run_makes_a_plan_that_may_leave_blocks_idle(zorba, tiny_opt_folder, tmp_path):
    tiny = (
        "--model", str(tiny_opt_folder), "--rounds", "3",
        "--seq-len", "16", "--perturbations", "2", "--batch-size", "2",
        "--eval-rows", "8", "--force", "--runs-folder", str(tmp_path / "runs"),
    )  # fmt: skip
    budgets = ("--budgets", "2,1,1,1")
    code, out, _ = zorba("train", *tiny, *budgets, "--vary", "permute", "--json")
    assert code == 0
    first = json.loads(out)["run"]
    code, out, _ = zorba("importance", first, "--json")
    read = json.loads(out)
    assert (code, read["rounds"], read["scalars"], len(read["blocks"])) == (0, 3, 3 * 4 * 2, 3)
    assert read["energies"] == [block["energy"] for block in read["blocks"]]
    assert set(read["blocks"][0]) == {
        "block", "energy", "energy_interval", "noise", "noise_interval", "identifiable"
    }  # fmt: skip
    assert "95 % interval" in zorba("importance", first)[1]
    assert zorba("importance", first, "--last", "9")[0] == 2
    changed = shutil.copytree(first, tmp_path / "changed")
    config = read_sealed(changed / "config.json")
    (changed / "config.json").write_text(json.dumps(config | {"block_scales": "1,2,1"}))
    code, out, error = zorba("importance", str(changed), "--json")
    assert (code, out) == (2, "")
    assert "config.json is not the one that trajectory.log was written under" in error
    code, out, _ = zorba(
        "allocate", *budgets, "--blocks", "3", "--solver", "gain", "--idle-blocks", "allow",
        "--energies", ",".join(map(str, read["energies"])), "--json",
    )  # fmt: skip
    planned = json.loads(out)
    if not any(read["energies"]):  # three rounds of a random model may show none
        assert code == 2
        return
    gain = ("--solver", "gain", "--importance", first, "--idle-blocks", "allow")
    code, out, error = zorba("train", *tiny, *budgets, *gain)
    assert (code, "Lambda" in out) == (0, True), error
    assert len(planned["blocks_per_client"]) == 4
    assert zorba("train", *tiny, *budgets, "--importance", first)[0] == 2
    square_M = importance(first).square_M
    assert min(square_M) > 0
    code, out, error = zorba("train", *tiny, *budgets, "--importance", first, "--lengths", "--json")
    assert code == 0, error
    config = json.loads((Path(json.loads(out)["run"]) / "config.json").read_text())
    length_M = np.array(config["block_scales"].split(","), float)
    np.testing.assert_allclose(length_M, np.minimum((square_M.max() / square_M) ** 0.25, 10), rtol=1e-3)
    again = json.loads(zorba("importance", json.loads(out)["run"], "--json")[1])
    from_log = importance_of(scalar_rounds(*log_of(json.loads(out)["run"])), resamples=0)
    np.testing.assert_allclose(again["noise"], from_log.noise_M / length_M**2)
    for wrong in (("--lengths",), ("--importance", first, "--lengths", "--block-scales", "1,2,2")):
        code, _, error = zorba("train", *tiny, *budgets, *wrong)
        assert (code, error.count("\n"), "--lengths" in error) == (2, 1, True)


@pytest.mark.slow
def test_a_run_whose_scalars_do_not_tell_blocks_apart_is_no_ground_for_a_plan(zorba, tiny_opt_folder, tmp_path):
    tiny = (
        "--model", str(tiny_opt_folder), "--rounds", "2", "--seq-len", "16", "--perturbations", "2",
        "--batch-size", "2", "--eval-rows", "4", "--force", "--runs-folder", str(tmp_path / "runs"),
    )  # fmt: skip
    whole = json.loads(zorba("train", *tiny, "--budgets", "3,3,3", "--json")[1])["run"]
    assert not importance(whole).identifiable_M.any()
    for use in (("--solver", "gain"), ("--lengths",), ("--preset", "best")):
        code, out, error = zorba("train", *tiny, "--budgets", "2,1,1", "--importance", whole, *use)
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert "its scalars do not tell blocks 0, 1, 2 apart" in error
        assert "--vary rotate" in error
    varied = json.loads(zorba("train", *tiny, "--budgets", "2,1,1", "--vary", "rotate", "--rounds", "6", "--json")[1])[
        "run"
    ]
    assert importance(varied).identifiable_M.all()


def log_of(run):
    request = read_request(run)
    return read_trajectory(request.path / TRAJECTORY), request.allocation


@pytest.mark.parametrize("scales", ["1,2", "1,x,2", "0,1,1", "1,nan,1", "1,1e9,1", ",,"])
def test_lengths_that_make_no_sense_are_refused_in_one_line(zorba, tiny_opt_folder, scales):
    code, _, error = zorba(
        "train", "--model", str(tiny_opt_folder), "--budgets", "2,1,1", "--seq-len", "8", "--block-scales", scales
    )
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("zorba: block_scales ")  # before a notice of anything


def test_a_plan_with_an_idle_block_is_trained_where_that_is_said(zorba, tiny_opt_folder, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"num_blocks": 3, "num_clients": 3, "blocks_per_client": [[0], [0, 2], [2]]}))
    tiny = (
        "--model", str(tiny_opt_folder), "--rounds", "1",
        "--seq-len", "16", "--perturbations", "1", "--batch-size", "2",
        "--eval-rows", "8", "--force", "--runs-folder", str(tmp_path / "runs"), "--allocation", str(plan),
    )  # fmt: skip
    code, _, error = zorba("train", *tiny)
    assert (code, "nobody activates block 1" in error, "--idle-blocks allow" in error) == (2, True, True)
    code, out, _ = zorba("train", *tiny, "--idle-blocks", "allow")
    assert code == 0
    assert "blocks without a client" in out


def test_a_run_that_sends_gradients_has_no_importance(zorba, rows_divided_once, tiny_opt_folder, tmp_path):
    settings = dataclasses.replace(SETTINGS.for_method("fedit"), rounds=1)
    run = fine_tune(num_clients=2, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    status, _, said = zorba("importance", str(run.path))
    assert status == 2
    assert "its method is fedit; importance is read of scalars" in said
