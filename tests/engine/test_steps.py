"""The length of a step: schedules of the learning rate, and normalisation by the scalars' own size."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from zorba_core.allocation import Allocation
from zorba_core.engine.loop import init, repeat_round, step
from zorba_core.engine.methods.steps import BETA, MEAN_SQUARE, lr_of_round
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rounds import FederatedRows
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError

SETTINGS = TrainSettings(rounds=4, num_seeds=16, num_perturbations=3, batch_size=4, seq_len=8, lr=1e-3)
A_MN = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1]], bool)


def rows_of(count: int, seed: int) -> Encoded:
    generator = torch.Generator().manual_seed(seed)
    label_R = torch.randint(0, 2, (count,), generator=generator)
    token_ids_RL = torch.randint(30, 45, (count, 8), generator=generator) + 15 * label_R[:, None]
    return Encoded(token_ids_RL, torch.full((count,), 7), label_R)


ROWS = FederatedRows(rows_of(60, 1), [np.arange(n, 60, 4) for n in range(4)], rows_of(40, 2))


def test_schedules_rise_over_the_warmup_and_fall_to_nothing_after_the_last_round():
    rates = {
        name: [
            lr_of_round(dataclasses.replace(SETTINGS, lr=1.0, rounds=12, warmup=2, schedule=name), t)
            for t in range(1, 14)
        ]
        for name in ("constant", "cosine", "linear")
    }
    for values in rates.values():
        assert values[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates["constant"][2:] == [1.0] * 11
    assert rates["linear"][2:] == pytest.approx([1 - k / 10 for k in range(11)])
    assert rates["cosine"][2:] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(11)], abs=1e-12)


@pytest.mark.parametrize("kind", ["normalised", "normalised-blocks"])
def test_a_normalised_step_divides_by_the_root_of_a_moving_mean(kind, make_tiny_model):
    """Written out beside the trainer, for three rounds; then the log's rounds give the same weights."""
    settings = dataclasses.replace(SETTINGS, step=kind, schedule="linear", warmup=1)
    network = BlockNetwork(make_tiny_model("opt"), [70, 71])
    beside = BlockNetwork(make_tiny_model("opt"), [70, 71])
    state, other, u = init(network, settings), init(beside, settings), None
    for t in (1, 2, 3):
        before = [network.block_weights(m).clone() for m in range(3)]
        state, result = step(state, network, Allocation(A_MN), ROWS, settings)
        weight_MN = A_MN / A_MN.sum(axis=1, keepdims=True)
        rho_bar_MQ = weight_MN @ result.rho_NQ / 3
        now = np.square(3 * rho_bar_MQ).mean(axis=1)
        now = now if kind == "normalised-blocks" else np.array([now.mean()])
        u = now if u is None else BETA * u + (1 - BETA) * now
        assert state.method_state[MEAN_SQUARE] == pytest.approx(u)
        root_M = np.sqrt(np.broadcast_to(u, 3))
        for m in range(3):
            moved = sum(
                rho_bar_MQ[m, q] / root_M[m] * state.directions.block(int(seed), m).double()
                for q, seed in enumerate(result.seeds_Q)
            )
            expected = before[m].double() - lr_of_round(settings, t) * moved
            assert torch.allclose(network.block_weights(m).double(), expected, rtol=1e-5, atol=1e-7)
        other = repeat_round(other, result, beside, Allocation(A_MN), settings)
    assert beside.weights_sha256() == network.weights_sha256()
    assert result.log_update


def test_a_plain_step_at_a_constant_rate_is_what_it_was(make_tiny_model):
    hashes = set()
    for changes in ({}, {"step": "plain", "schedule": "constant", "warmup": 0}):
        network = BlockNetwork(make_tiny_model("opt"), [70, 71])
        settings = dataclasses.replace(SETTINGS, **changes)
        state, result = step(init(network, settings), network, Allocation(A_MN), ROWS, settings)
        assert state.method_state == {}
        assert not result.log_update
        hashes.add(network.weights_sha256())
    assert len(hashes) == 1


@pytest.mark.parametrize("method", ["fedzo", "fedit"])
def test_methods_whose_clients_share_no_scalars_cannot_normalise(method):
    with pytest.raises(InvalidInputError, match=f"{method} exchanges"):
        TrainSettings(method=method, step="normalised")
