"""The bundled base model learns by forward passes alone: short runs, enough to see it."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation import Problem, solve
from zorba_core.engine.settings import Settings
from zorba_core.runs import Run
from zorba_core.runs.train import fine_tune

# Four clients with four of the twelve blocks each.
ALLOCATION = solve(Problem(np.full(4, 4), num_blocks=12)).allocation
SETTINGS = Settings(rounds=6, eval_every=6, eval_rows=150)


def losses(run: Run) -> tuple[float, float]:
    loss = run.evaluations["eval_loss"]
    return loss.iloc[0], loss.iloc[-1]


@pytest.mark.slow
def test_opt_mini_learns_the_toy_reviews(tmp_path):
    before, after = losses(fine_tune(ALLOCATION, dataset="toy-reviews", settings=SETTINGS, runs_folder=tmp_path))
    assert after < 0.9 * before


@pytest.mark.slow
@pytest.mark.data
def test_opt_mini_learns_sst2(tmp_path):
    before, after = losses(fine_tune(ALLOCATION, dataset="sst2", settings=SETTINGS, runs_folder=tmp_path))
    assert after < 0.85 * before
