from __future__ import annotations

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.runs import list_runs, notices
from zorba_core.runs.session import fine_tune, read_spec

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
SETTINGS = Settings(rounds=3, directions=2, num_seeds=8, batch_size=2, eval_every=2, eval_rows=50)


def test_an_allocation_becomes_a_run_that_says_what_it_was_made_of(tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path)
    assert run.path.parent == tmp_path
    assert np.array_equal(run.allocation.A_MN, ALLOCATION.A_MN)
    assert run.metrics["round"].tolist() == [0, 1, 2, 3]
    assert run.evaluations["round"].tolist() == [0, 2, 3]
    summary = run.summary
    assert (summary["stopped_by"], summary["rounds_done"], summary["total_blocks"]) == ("rounds", 3, 6)
    assert summary["best_accuracy"] == run.evaluations["eval_accuracy"].max()
    assert summary["lambda"] == pytest.approx(ALLOCATION.bias_lambda)
    assert summary["forward_passes"] == 3 * 3 * (1 + 2)
    spec = read_spec(tiny_opt_folder)
    block = (spec.ffn_ratio + 3 * spec.num_heads + 1) * spec.hidden_size * 2 * 64 * 4  # (alpha + 3K + 1) H B L, float32
    expected_gib = (spec.num_parameters * 4 + 2 * block) / 2**30
    assert summary["vram_gib"]["per_client"] == pytest.approx([expected_gib] * 3)
    assert run.config["lr"] == SETTINGS.lr
    assert {"torch", "git_commit", "git_dirty", "device", "dtype", "threads", "seed"} <= run.environment.keys()
    assert sum(run.environment["data"]["rows_per_client"]) == run.environment["data"]["train_rows"]


def test_one_seed_gives_one_set_of_weights_and_another_seed_another(tiny_opt_folder, tmp_path):
    def weights(seed: int) -> str:
        settings = Settings(rounds=2, directions=2, num_seeds=8, batch_size=2, eval_rows=10, seed=seed)
        return fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path).summary[
            "weights_sha256"
        ]

    assert weights(0) == weights(0)
    assert weights(0) != weights(1)
    assert len(list_runs(tmp_path).runs) == 4


def test_the_saved_model_is_the_one_the_summary_fingerprints(tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path, save_model=True)
    saved = Blocks(AutoModelForCausalLM.from_pretrained(run.path / "model"), [0, 1])
    assert saved.weights_sha256() == run.summary["weights_sha256"]
    assert saved.weights_sha256() != run.environment["base_weights_sha256"]
    assert read_spec(run.path / "model").num_blocks == 3


def test_a_run_that_diverges_keeps_its_metrics_and_has_no_summary(tiny_opt_folder, tmp_path):
    settings = Settings(rounds=20, directions=2, num_seeds=8, eval_rows=10, eval_every=1, lr=1e30)
    with pytest.raises(RunError, match="the metrics so far are in"):
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    (run,), problems = list_runs(tmp_path)
    assert not run.finished
    assert run.metrics["round"].tolist()[0] == 0
    assert problems == ()
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


def test_a_forced_run_that_diverges_names_what_it_was_forced_over_and_not_its_rate_alone(tiny_opt_folder, tmp_path):
    settings, told = Settings(rounds=2, mu=1e30, batch_size=4, seq_len=16, directions=2), []
    with pytest.raises(RunError, match=r"forced although finite differences at mu 1e\+30 are not finite"):
        fine_tune(
            ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True, notice=told.append
        )
    assert told[0] == "forced: finite differences at mu 1e+30 are not finite"


@pytest.mark.parametrize(("rows", "said"), [(None, True), (10, False)])
def test_a_run_whose_evaluations_are_most_of_it_says_so(tiny_opt_folder, tmp_path, monkeypatch, rows, said):
    monkeypatch.setattr(notices, "_MANY_ROWS", 50)
    lines: list[str] = []
    settings = SETTINGS.replace(rounds=1, eval_every=1, eval_rows=rows)
    fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, notice=lines.append)
    assert any(line.startswith("each evaluation reads ") and "eval_rows" in line for line in lines) == said


@pytest.mark.parametrize(("failure", "raised"), [(ArithmeticError, ArithmeticError), (MemoryError, RunError)])
def test_a_failure_of_any_kind_leaves_no_summary(tiny_opt_folder, tmp_path, failure, raised):
    class PowerCut(Callback):
        def on_round(self, record):
            if record.round == 2:
                raise failure("killed")

    with pytest.raises(raised):
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path, callbacks=[PowerCut()])
    (run,), _ = list_runs(tmp_path)
    assert not run.finished


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"dataset": "mnist"}, InvalidInputError, "unknown dataset 'mnist'"),
        ({"model": "no-such-model"}, InvalidInputError, "unknown model 'no-such-model'"),
        ({"label_words": ["good", "goodness"]}, InvalidInputError, r"begins \(or is\) the label word"),
        ({"label_words": ["good"]}, InvalidInputError, "2 labels need 2 different label words"),
        ({"alpha": -1.0}, InvalidInputError, "alpha"),
        ({"alpha": float("nan")}, InvalidInputError, "alpha"),
        ({"name": "../escape"}, InvalidInputError, "run name"),
        ({"allocation": Allocation(np.ones((5, 3)))}, InvalidInputError, "5 blocks and the model has 3"),
        ({"settings": Settings(seq_len=100)}, InvalidInputError, "model has 64 positions"),
        ({"settings": Settings(lr=1e3)}, InvalidInputError, "these settings cannot learn: a round moves"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(tiny_opt_folder, tmp_path, change, error, words):
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


def test_a_dataset_that_is_not_there_names_the_ways_to_provide_it(tiny_opt_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path / "nothing"))
    with pytest.raises(MissingDataError, match="ZORBA_DATA"):
        fine_tune(ALLOCATION, dataset="sst2", model=tiny_opt_folder, settings=SETTINGS, runs_folder=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
