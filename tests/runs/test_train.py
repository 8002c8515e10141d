"""Fine-tuning runs: what their folder says, and what is refused before anything is written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.command import call
from zorba_core.allocation import Allocation
from zorba_core.data.task import Overrides
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import read_json
from zorba_core.fleet import Fleet
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.load import read_spec, suited_threads, use_threads
from zorba_core.runs.record import Callback
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = Settings(rounds=3, directions=2, num_seeds=8, batch_size=2, eval_every=2, eval_rows=50)


def test_an_allocation_becomes_a_run_of_three_files(tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path)
    assert sorted(path.name for path in run.path.iterdir()) == ["config.json", "rounds.jsonl", "summary.json"]
    assert np.array_equal(run.allocation.A_MN, ALLOCATION.A_MN)
    assert run.settings == SETTINGS
    assert run.evaluations["round"].tolist() == [0, 2, 3]
    summary = run.summary
    assert (summary["stopped_by"], summary["rounds_done"], summary["total_blocks"]) == ("rounds", 3, 6)
    assert summary["best_accuracy"] == run.evaluations["eval_accuracy"].max()
    assert summary["lambda"] == pytest.approx(ALLOCATION.bias_lambda)
    spec = read_spec(tiny_opt_folder)
    block = (spec.ffn_ratio + 3 * spec.num_heads + 1) * spec.hidden_size * 2 * 64 * 4  # (alpha + 3K + 1) H B L, float32
    expected_gib = (spec.num_parameters * 4 + 2 * block) / 2**30
    assert summary["vram_gib"]["per_client"] == pytest.approx([expected_gib] * 3)
    assert {"torch", "git_commit", "git_dirty", "device", "seed"} <= run.environment.keys()
    assert sum(run.environment["data"]["rows_per_client"]) == run.environment["data"]["train_rows"]


def test_a_simulation_takes_exact_scalars_and_says_so(tiny_opt_folder, tmp_path, logged):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path)
    assert run.config["estimator"] == "exact"
    assert any(line.startswith("exact scalars: finite differences at mu 0.001") for line in logged())
    assert run.summary["backward_passes"] > 0


@pytest.mark.parametrize(("has", "takes"), [(1, 1), (2, 2), (16, 4)])
def test_a_large_model_takes_the_threads_of_the_machine_and_a_small_one_takes_one(has, takes):
    with use_threads(has):
        assert suited_threads(135_000_000) == takes
        assert suited_threads(2_000_000) == 1


def test_a_run_ends_at_the_first_evaluation_with_the_target_accuracy(tiny_opt_folder, tmp_path):
    settings = SETTINGS.replace(target=0.01)
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path)
    assert (run.summary["stopped_by"], run.summary["rounds_done"], run.summary["rounds_to_target"]) == ("target", 0, 0)
    (run.path / "summary.json").unlink()
    again = read_run(run.path).resume()
    assert {**again.summary, "memory": 0} == {**run.summary, "memory": 0}


def test_a_run_whose_rate_is_far_too_large_ends_with_the_base_model_and_says_so(tiny_opt_folder, tmp_path, caplog):
    settings = Settings(rounds=6, directions=2, num_seeds=8, eval_rows=10, eval_every=1, lr=1e30)
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    assert (run.finished, run.summary["final_round"]) == (True, 0)
    assert run.summary["final_accuracy"] == run.summary["initial_accuracy"]
    assert run.summary["weights_sha256"] == run.environment["base_weights_sha256"]
    assert "back to round 0, at half the rate" in caplog.text
    assert "the run's result is round 0" in caplog.text


@pytest.mark.parametrize(("failure", "raised"), [(ArithmeticError, ArithmeticError), (MemoryError, RunError)])
def test_a_failure_of_any_kind_leaves_no_summary(tiny_opt_folder, tmp_path, failure, raised):
    class PowerCut(Callback):
        def on_round(self, done):
            if done.round == 2:
                raise failure("killed")

    with pytest.raises(raised):
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path, callbacks=[PowerCut()])
    (run,), _ = list_runs(tmp_path)
    assert (run.finished, run.rounds_done) == (False, 2)


def test_equal_shares_are_null_in_the_config_and_resume(tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, alpha=math.inf, runs_folder=tmp_path)
    assert read_json(run.path / "config.json")["alpha"] is None
    (run.path / "summary.json").unlink()
    assert call("resume", str(run.path)).status == 0
    assert read_run(run.path).summary["weights_sha256"] == run.summary["weights_sha256"]


def test_a_wrong_request_is_refused_before_anything_is_written(tiny_opt_folder, tmp_path):
    for change, error, words in [
        ({"overrides": Overrides(label_words=("good",))}, InvalidInputError, "2 labels need 2 different label words"),
        ({"alpha": -1.0}, InvalidInputError, "alpha"),
        ({"alpha": float("nan")}, InvalidInputError, "alpha"),
        ({"allocation": Allocation(np.ones((5, 3)))}, InvalidInputError, "5 blocks and the model has 3"),
        ({"allocation": Fleet.uniform("opt-125m", clients=5)}, InvalidInputError, "solve it first: zorba.solve"),
    ]:
        request = {
            "allocation": ALLOCATION,
            "model": tiny_opt_folder,
            "settings": SETTINGS,
            "runs_folder": tmp_path,
        } | change
        with pytest.raises(error, match=words) as caught:
            fine_tune(**request)
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []
