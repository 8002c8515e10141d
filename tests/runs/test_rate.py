"""The learning rate that finds itself: on opt-mini and the toy reviews, with six tiny clients."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from zorba_core.allocation import Problem, solve
from zorba_core.data.task import get_task
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs import rate
from zorba_core.runs.load import federated_rows, open_network
from zorba_core.runs.rate import ENOUGH_DIRECTIONS, SAFETY, find_rate, hold_out

SETTINGS = Settings(
    direction="low-rank", directions=64, batch_size=2, seq_len=32, eval_rows=16, schedule="cosine", rounds=30
)


@pytest.fixture(scope="module")
def parts():
    network, tokenizer = open_network("opt-mini", SETTINGS)
    rows, _ = federated_rows(get_task("toy-reviews"), tokenizer, 6, SETTINGS)
    return network, solve(Problem([4] * 6, network.num_blocks)).allocation, rows


@pytest.fixture(scope="module")
def found(parts):
    return find_rate(*parts, SETTINGS)


class Script:
    """Trial rounds whose losses are known before; a round moves one block by its rate."""

    held_out_rows = 64

    def __init__(self, network, losses, written=False):
        self._network, self._losses, self.written = network, iter(losses), written

    def begin(self, start):
        pass

    def step(self, lr):
        self._network.block_weights(0).add_(lr)

    def loss(self):
        return next(self._losses)


def test_the_rates_double_until_one_raises_the_held_out_loss(found):
    largest = _largest_stable(found)
    assert [later.lr / first.lr for first, later in itertools.pairwise(found.trials)] == pytest.approx(
        [2.0] * (len(found.trials) - 1)
    )
    above = [trial for trial in found.trials if trial.lr > largest]
    assert above
    assert all(trial.loss is None or trial.loss >= found.initial_loss for trial in above)
    assert found.lr <= _share_of(largest)


def test_the_rate_is_a_share_of_the_largest_stable_one_and_less_where_three_rounds_raise_the_loss_far(
    parts, monkeypatch
):
    monkeypatch.setattr(rate, "_MOST_RATES", 3)
    losses = [1.0, 0.95, 0.9, 0.85, 1.4, 1.6, 1.2, 3.1, 1.6, 1.2, 0.9]
    chosen = rate.search_rate(Script(parts[0], losses), parts[0], SETTINGS)
    share = _share_of(chosen.trials[-1].lr)
    assert chosen.refused == pytest.approx((share, share / 2), rel=0.05)
    assert chosen.lr == pytest.approx(share / 4, rel=0.05)
    assert chosen.rounds == 1 + 3 + 3 + 1 + 3  # after a loss of 3.1 no round is waited for
    assert f"but three rounds at {chosen.refused[-1]:.2g} raised it" in chosen.sentence()


def test_a_rate_at_which_three_rounds_raise_the_loss_a_little_is_taken(parts, monkeypatch):
    monkeypatch.setattr(rate, "_MOST_RATES", 3)
    losses = [1.0, 0.95, 0.9, 0.85, 1.2, 1.4, 1.3]
    chosen = rate.search_rate(Script(parts[0], losses), parts[0], SETTINGS)
    assert chosen.refused == ()
    assert chosen.lr == _share_of(chosen.trials[-1].lr)


def test_a_rate_is_tested_unless_labels_are_chosen_and_the_range_test_lowered_the_loss_by_a_fifth(parts, monkeypatch):
    monkeypatch.setattr(rate, "_MOST_RATES", 3)
    for last, written, rounds in [(0.79, False, 4), (0.81, False, 7), (0.79, True, 7)]:
        losses = [1.0, 0.95, 0.9, last, 0.9, 0.8, 0.7]
        chosen = rate.search_rate(Script(parts[0], losses, written), parts[0], SETTINGS)
        assert (chosen.rounds, chosen.refused, chosen.lr) == (rounds, (), _share_of(chosen.trials[-1].lr))


def test_a_rate_whose_loss_still_rises_at_the_end_of_the_test_is_refused(parts, monkeypatch):
    monkeypatch.setattr(rate, "_MOST_RATES", 3)
    losses = [3.1, 2.6, 2.0, 1.2, 2.5, 2.7, 3.9, 2.4, 2.3, 2.2]
    chosen = rate.search_rate(Script(parts[0], losses, written=True), parts[0], SETTINGS)
    assert chosen.refused == (_share_of(chosen.trials[-1].lr),)
    assert chosen.lr == pytest.approx(chosen.refused[0] / 2, rel=0.05)


def _share_of(lr, directions=SETTINGS.directions):
    return float(f"{SAFETY * math.sqrt(min(1.0, directions / ENOUGH_DIRECTIONS)) * lr:.2g}")


def _largest_stable(found):
    return max(trial.lr for trial in found.trials if trial.loss is not None and trial.loss < found.initial_loss)


def test_it_is_the_same_for_the_same_request_and_moves_no_weight(parts, monkeypatch):
    network, allocation, rows = parts
    monkeypatch.setattr(rate, "_MOST_RATES", 2)
    before = network.weights_sha256()
    found = find_rate(network, allocation, rows, SETTINGS)
    assert find_rate(network, allocation, rows, SETTINGS.replace(lr=123.0)) == found
    assert network.weights_sha256() == before


def test_few_directions_are_tried_several_times_and_get_a_lower_share(parts, monkeypatch):
    monkeypatch.setattr(rate, "_MOST_RATES", 3)
    few = find_rate(*parts, SETTINGS.replace(directions=16))
    assert few.rounds == 1 + 3 * 3 + 3
    assert few.lr == _share_of(_largest_stable(few), directions=16)


def test_a_method_that_takes_the_gradient_gets_a_rate_too(parts, monkeypatch):
    network, _, rows = parts
    monkeypatch.setattr(rate, "_MOST_RATES", 2)
    whole = solve(Problem([network.num_blocks] * 6, network.num_blocks)).allocation
    settings = SETTINGS.replace(method="fedit", directions=None, estimator=None)
    assert find_rate(network, whole, rows, settings).lr > 0


def test_held_out_rows_are_the_clients_own_and_leave_each_client_a_row(parts):
    _, _, rows = parts
    split = hold_out(rows, 0)
    kept, held = np.concatenate(split.held_N), np.concatenate(rows.held_N)
    assert len(kept) + len(split.evaluation) == len(held)
    assert all(len(own) >= 1 for own in split.held_N)
    with pytest.raises(InvalidInputError, match="too few rows"):
        hold_out(dataclasses.replace(rows, held_N=[np.array([n]) for n in range(6)]), 0)


def test_a_loss_that_no_rate_lowers_is_said(parts, monkeypatch):
    monkeypatch.setattr(rate, "_MOST_RATES", 1)
    monkeypatch.setattr(rate, "_FIRST_STRIDE", 1e30)
    monkeypatch.setattr(rate, "_TRIES", 1)
    with pytest.raises(RunError, match=r"every learning rate from .* raised the held-out loss"):
        find_rate(*parts, SETTINGS)


def test_a_loss_that_stays_as_it_was_gives_a_rate_and_a_warning(parts):
    losses = itertools.chain([1.0], itertools.repeat(1.001))
    chosen = rate.search_rate(Script(parts[0], losses), parts[0], SETTINGS)
    assert chosen.lr == _share_of(max(trial.lr for trial in chosen.trials))
    assert "no trial round lowered the held-out loss of 1.000" in chosen.sentence()
