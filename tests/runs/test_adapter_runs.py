"""Whole runs whose adapters are trained: what they write, and what is made of it."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.data.own_rows import text_rows
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import label_log_probabilities
from zorba_core.errors import InvalidInputError
from zorba_core.runs import Run
from zorba_core.runs.export import export_run
from zorba_core.runs.models import load_model
from zorba_core.runs.predict import encoded, label_probabilities
from zorba_core.runs.replay import open_model
from zorba_core.runs.train import fine_tune

LORA = SETTINGS.replace(rounds=4, lora_rank=2, lr=0.05)


@pytest.fixture(scope="module")
def run(rows_divided_once, tiny_opt_folder, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("lora")
    return fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LORA, runs_folder=folder, force=True)


def test_new_adapters_train_by_the_gradient(rows_divided_once, tiny_opt_folder, tmp_path):
    """Of new adapters one matrix is zero and has all of the gradient: preflight must measure the step all the same."""
    settings = LORA.replace(rounds=1, method="fedit", directions=None, estimator=None)
    run = fine_tune(num_clients=3, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    assert run.summary["rounds_done"] == 1


def test_exported_weights_are_as_readable_as_the_files_beside_them(run, tmp_path):
    export_run(run, tmp_path / "exported")
    umask = os.umask(0)
    os.umask(umask)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "exported").iterdir()} == {0o666 & ~umask}


def test_the_exported_model_has_the_adapters_merged_and_predicts_as_the_run_does(run, tmp_path):
    texts = ["a dull film", "a splendid film"]
    rebuilt = open_model(run)
    assert rebuilt.network.has_adapters
    export_run(run, tmp_path / "exported")
    merged = Blocks(load_model(tmp_path / "exported"))
    assert merged.weights_sha256() != run.environment["base_weights_sha256"]
    rows, _ = encoded(rebuilt, text_rows(run.task, texts))
    expected = label_probabilities(rebuilt, rebuilt.network, rows)
    assert np.allclose(np.exp(label_log_probabilities(merged, rows)), expected, atol=1e-5)


def test_an_exported_adapter_is_apart_from_its_base(run, tmp_path):
    export_run(run, tmp_path / "apart", adapter=True)
    names = {path.name for path in (tmp_path / "apart").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= names
    assert "model.safetensors" not in names


def test_a_run_without_adapters_has_none_to_export(whole, tmp_path):
    with pytest.raises(InvalidInputError, match="this model has no adapters"):
        export_run(whole, tmp_path / "apart", adapter=True)
    assert not (tmp_path / "apart").exists()
