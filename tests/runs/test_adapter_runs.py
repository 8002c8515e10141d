"""Whole runs whose adapters are trained: what they write, and what is made of it."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.engine.blocks import Blocks
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import Run
from zorba_core.runs.models import load_model
from zorba_core.runs.session import fine_tune
from zorba_core.runs.use.export import export_run
from zorba_core.runs.use.predicting import predict
from zorba_core.runs.use.tuned_model import open_tuned

LORA = SETTINGS.replace(rounds=4, train="lora", lora_rank=2, lora_targets="q_proj,fc2", lr=0.05)


@pytest.fixture(scope="module")
def run(rows_divided_once, tiny_opt_folder, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("lora")
    return fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LORA, runs_folder=folder, force=True, save_model=True)


def test_new_adapters_train_by_the_gradient(rows_divided_once, tiny_opt_folder, tmp_path):
    """Of new adapters one matrix is zero and has all of the gradient: preflight must measure the step all the same."""
    settings = LORA.replace(rounds=1, method="fedit", directions=None)
    run = fine_tune(num_clients=3, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    assert run.summary["rounds_done"] == 1


def test_saved_weights_are_as_readable_as_the_files_beside_them(run, tmp_path):
    export_run(run.path, tmp_path / "exported")
    for folder in (run.path / "model", tmp_path / "exported"):
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o666 & ~_umask()}


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_the_merged_model_the_log_and_the_exported_model_predict_alike(run, tmp_path):
    texts = ["a dull film", "a splendid film"]
    saved = open_tuned(run)
    assert saved.source == "saved model"
    assert not saved.network.has_adapters
    assert saved.network.weights_sha256() == run.summary["saved_weights_sha256"] != run.summary["weights_sha256"]
    expected = predict(saved, texts)
    (run.path / "model").rename(tmp_path / "elsewhere")
    try:
        rebuilt = open_tuned(run)
        assert rebuilt.network.weights_sha256() == run.summary["weights_sha256"]
        assert rebuilt.network.has_adapters
        assert np.allclose(predict(rebuilt, texts).probability_RC, expected.probability_RC, atol=1e-5)
        export_run(rebuilt, tmp_path / "exported")
    finally:
        (tmp_path / "elsewhere").rename(run.path / "model")
    assert Blocks(load_model(tmp_path / "exported"), [0]).weights_sha256() == saved.network.weights_sha256()


def test_an_exported_adapter_is_apart_from_its_base(run, tmp_path):
    export_run(run, tmp_path / "apart", adapter=True)
    names = {path.name for path in (tmp_path / "apart").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    assert "model.safetensors" not in names


def test_a_run_without_adapters_has_none_to_export(whole, tmp_path):
    with pytest.raises(InvalidInputError, match="trained the blocks' own weights"):
        export_run(whole, tmp_path / "apart", adapter=True)
    assert not (tmp_path / "apart").exists()


def test_a_run_may_begin_from_the_adapters_of_another(run, tiny_opt_folder, tmp_path):
    export_run(run, tmp_path / "apart", adapter=True)
    start = LORA.replace(rounds=1, adapter=str(tmp_path / "apart"), lora_alpha=4.0)
    again = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=start, runs_folder=tmp_path / "runs", force=True)
    assert again.environment["base_weights_sha256"] == run.summary["weights_sha256"]
    assert again.summary["initial_accuracy"] == run.summary["final_accuracy"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lora_rank": 3}, "have rank 2 and alpha 4.0, and rank 3 .* add --lora-rank 2 --lora-alpha 4.0"),
        ({"lora_targets": "fc1"}, "for another base model or other layers .*; check --model and --lora-targets"),
        ({"adapter": "nowhere"}, "nowhere has no adapters: adapter_config.json and adapter_model.safetensors"),
    ],
)
def test_adapters_that_do_not_fit_are_refused_in_one_line(run, tiny_opt_folder, tmp_path, changes, says):
    export_run(run, tmp_path / "apart", adapter=True)
    start = LORA.replace(**{"adapter": str(tmp_path / "apart"), **changes})
    with pytest.raises((InvalidInputError, MissingDataError), match=says) as error:
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=start, runs_folder=tmp_path / "runs")
    assert "\n" not in str(error.value)


def test_adapters_of_another_base_are_refused(run, make_tiny_model, tiny_tokenizer, tmp_path):
    export_run(run, tmp_path / "apart", adapter=True)
    make_tiny_model("opt", seed=9).save_pretrained(tmp_path / "other")
    tiny_tokenizer.save_pretrained(tmp_path / "other")
    start = LORA.replace(adapter=str(tmp_path / "apart"))
    with pytest.raises(InvalidInputError, match=r"for another base model, .*tiny-opt.*; give that one with --model"):
        fine_tune(ALLOCATION, model=tmp_path / "other", settings=start, runs_folder=tmp_path / "runs")
