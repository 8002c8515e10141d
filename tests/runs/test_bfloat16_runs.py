"""Runs with weights of 16 bits resume to the same bits, whatever the method keeps on disk for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.runs.resumable import SETTINGS, After4
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.mark.parametrize("method", ["fedit", "fedzo", "decomfl", "meerkat"])
def test_an_interrupted_run_ends_with_the_bits_of_a_whole_one(tiny_opt_folder, tmp_path, method):
    settings = replace(SETTINGS.for_method(method), dtype="bfloat16", rounds=6)
    request = {"num_clients": 3, "model": tiny_opt_folder, "settings": settings, "force": True}
    whole = fine_tune(**request, runs_folder=tmp_path / "whole", save_model=True)
    half = fine_tune(**request, runs_folder=tmp_path / "half", callbacks=[After4()])
    assert half.summary["rounds_done"] == 4
    assert resume(half.path).summary["weights_sha256"] == whole.summary["weights_sha256"]
    if method != "fedit":  # its log has no scalars
        assert replay(whole.path).network.weights_sha256() == whole.summary["weights_sha256"]
    saved = load_file(whole.path / "model" / "model.safetensors")
    assert {weights.dtype for name, weights in saved.items() if ".layers." in name} == {torch.bfloat16}
