from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from zorba_core.allocation import Allocation
from zorba_core.cli import main
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import train
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import tuning
from zorba_core.runs.tuning import hold_out, tune

ALLOCATION = Allocation(np.ones((3, 4), dtype=bool))
SETTINGS = Settings(directions=4, num_seeds=64, batch_size=4, seq_len=8)


@pytest.fixture
def rows() -> FederatedRows:
    """One answer is always right; the evaluation rows are unusable, so reading them would show."""
    generator = torch.Generator().manual_seed(1)
    train = Rows.of_words(
        torch.randint(30, 60, (120, 8), generator=generator),
        torch.randint(2, 8, (120,), generator=generator),
        torch.ones(120, dtype=torch.long),
        [70, 71],
    )
    return FederatedRows(train, [np.arange(n, 120, 4) for n in range(4)], None)


@pytest.fixture
def network(make_tiny_model) -> Blocks:
    return Blocks(make_tiny_model("opt"))


def test_the_advised_rate_learns_and_the_weights_are_left_bit_for_bit(network, rows):
    before = network.weights_sha256()
    found = tune(network, ALLOCATION, rows, SETTINGS, first_rounds=3, horizon=10)
    assert network.weights_sha256() == before
    assert found.rounds_computed == 7 * 3 + 3 * (5 - 3) + 2 * (10 - 5) + 2 * 10
    assert [c.rounds for c in found.candidates].count(10) == 4
    assert [c.left_after for c in found.candidates].count(None) == 4
    split = hold_out(rows, SETTINGS.seed)
    (chosen,) = [c for c in found.candidates if f"{c.lr:.3g}" == f"{found.lr:.3g}"]
    settings = SETTINGS.replace(lr=chosen.lr, rounds=10, eval_every=1, estimator="exact")
    rounds = list(train(network, ALLOCATION, split, settings))
    assert rounds[0].eval_loss == found.initial_loss
    ends = [rounds[t].eval_loss for t in (8, 9, 10)]
    assert np.mean(ends) == pytest.approx(chosen.loss, rel=1e-12)
    assert chosen.loss < found.initial_loss


def test_the_end_decides_and_the_edge_of_stability_is_kept_away_from(network, rows, monkeypatch):
    """Losses written down: what leads after the first rounds is unstable later, and what is best lies close to that."""
    ends = {0.32: 0.9, 0.16: 0.8, 0.08: 0.3, 0.04: 0.4, 0.02: 0.6}

    def loss(self, lr, rounds):
        self.history.setdefault(lr, [])
        ladder = sorted(ends)
        near = min(ladder, key=lambda known: abs(math.log(known / lr)))
        self._loss[lr] = (0.5 - lr) if rounds < 10 else ends[near] + 0.05 * abs(math.log2(lr / near))
        return self._loss[lr]

    monkeypatch.setattr(tuning._Trial, "loss", loss)
    monkeypatch.setattr(tuning, "evaluate", lambda network, rows: SimpleNamespace(loss=1.0))
    found = tune(network, ALLOCATION, rows, SETTINGS, lr_grid=sorted(ends), first_rounds=2, horizon=20)
    assert found.lr == 0.08  # 0.16 and 0.32 lead at first, and end at 0.8 and 0.9: half of 0.16 is the most


def test_the_advice_has_nearly_the_best_gain_of_what_is_stable(network, rows):
    found = tune(network, ALLOCATION, rows, SETTINGS, first_rounds=2, horizon=12)
    losses = {c.lr: c.loss for c in found.candidates if c.left_after is None and c.loss is not None}
    best = min(losses.values())
    advised = min(losses, key=lambda lr: abs(lr - found.lr))
    assert found.initial_loss - losses[advised] >= 0.9 * (found.initial_loss - best)


def test_held_out_rows_belong_to_no_client_and_every_client_keeps_some(rows):
    split = hold_out(rows, seed=0)
    assert len(split.evaluation) == 120 // 5
    assert sum(map(len, split.held_N)) + len(split.evaluation) == 120
    assert all(set(now) < set(was.tolist()) for now, was in zip(split.held_N, rows.held_N, strict=True))
    few = FederatedRows(rows.train, [np.array([n]) for n in range(4)], None)
    with pytest.raises(InvalidInputError, match="too few rows"):
        hold_out(few, seed=0)


def test_a_rate_that_diverges_is_dropped_and_an_edge_is_said(network, rows):
    found = tune(network, ALLOCATION, rows, SETTINGS, lr_grid=[1e30, 1e-3, 1e-9, 1e-10], first_rounds=2, horizon=4)
    assert [c.lr for c in found.candidates] == [1e30, 1e-3, 1e-9, 1e-10]
    assert found.candidates[0].loss is None
    assert found.candidates[0].left_after is not None
    assert found.lr == 1e-3
    assert found.note == ""
    short = {"first_rounds": 2, "horizon": 4}
    assert "largest of the grid" in tune(network, ALLOCATION, rows, SETTINGS, lr_grid=[1e-3, 1e-9], **short).note


def test_rates_that_all_fail_are_no_advice(network, rows):
    with pytest.raises(RunError, match="no learning rate from"):
        tune(network, ALLOCATION, rows, SETTINGS, lr_grid=[1e30, 1e28], first_rounds=2, horizon=4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lr_grid": [0.1]}, "at least 2 different"),
        ({"lr_grid": [0.1, -1.0]}, r"learning rate -1\.0"),
        ({"lr_grid": [0.1, math.nan]}, "learning rate nan"),
        ({"first_rounds": 0}, "first_rounds is 0"),
        ({"first_rounds": 9, "horizon": 5}, "horizon is 5 and first_rounds 9"),
        ({"settings": SETTINGS.replace(mu=1e-12, estimator="cohort")}, "no learning rate helps: .*swallows"),
    ],
)
def test_what_cannot_be_tuned_is_refused(network, rows, change, says):
    request = {"settings": SETTINGS} | change
    with pytest.raises(InvalidInputError, match=says):
        tune(network, ALLOCATION, rows, request.pop("settings"), **request)


def test_the_command_prints_a_rate_and_a_table(tiny_opt_folder, monkeypatch, capsys):
    options = ["--model", str(tiny_opt_folder), "--clients", "3", "--batch-size", "2", "--directions", "2"]
    monkeypatch.setattr(
        sys,
        "argv",
        ["zorba", "tune", *options, "--lrs", "0.01,0.0001", "--first-rounds", "2", "--horizon", "4", "--json"],
    )
    with pytest.raises(SystemExit) as left:
        main()
    captured = capsys.readouterr()
    if left.value.code:  # a model with random weights need not learn in two rounds
        assert "no learning rate from" in captured.err
    else:
        assert json.loads(captured.out)["lr"] in (0.01, 0.0001)
    monkeypatch.setattr(sys, "argv", ["zorba", "tune", *options, "--lrs", "0.01;0.1"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "numbers separated by commas" in capsys.readouterr().err
