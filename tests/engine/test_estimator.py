from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import batch_loss, estimate
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.engine.rows import Rows

LABELS = [11, 250]
A_MN = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], dtype=bool)
SEEDS = [4, 17]


def batch(seed: int, rows: int = 4, length: int = 6) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    return Rows.of_words(
        torch.randint(2, 400, (rows, length), generator=generator),
        torch.randint(1, length, (rows,), generator=generator),
        torch.randint(0, 2, (rows,), generator=generator),
        LABELS,
    )


BATCHES = [batch(seed) for seed in range(3)]


@pytest.fixture
def network(make_tiny_model) -> Blocks:
    # A smooth activation: the kinks of OPT's ReLU are everywhere, and across one the difference quotient is off.
    return Blocks(make_tiny_model("opt", activation="gelu"), dtype=torch.float64)


def gradient_by_block(network: Blocks, rows: Rows, active_M, inactive="frozen") -> dict[int, torch.Tensor]:
    """grad F_n of each active block, by autograd through the network's own pieces."""
    network.model.requires_grad_(True)
    hidden = network.embed(rows.token_ids_RL)
    for m in range(network.num_blocks):
        runs = active_M[m] or inactive == "frozen"
        hidden = network.run_block(m, hidden) if runs else network.run_block_without_weights(m, hidden)
    loss = rows.losses(network, rows.read(hidden)).mean()
    gradients = {}
    for m in np.flatnonzero(active_M):
        parameters = list(network.model.model.decoder.layers[m].parameters())
        pieces = torch.autograd.grad(loss, parameters, retain_graph=True)
        gradients[int(m)] = torch.cat([piece.reshape(-1) for piece in pieces])
    network.model.requires_grad_(False)
    return gradients


def test_rho_tends_to_the_directional_derivative_and_its_error_falls_as_mu(network, subtests):
    for kind in DIRECTIONS:
        for inactive in ["frozen", "dropped"]:
            with subtests.test(kind=kind, inactive=inactive):
                directions = Directions(kind, network.sizes_M, dtype=torch.float64)
                exact_NQ = np.zeros((3, len(SEEDS)))
                for n in range(3):
                    for m, gradient in gradient_by_block(network, BATCHES[n], A_MN[:, n], inactive).items():
                        exact_NQ[n] += [float(gradient @ directions.block(seed, m)) for seed in SEEDS]
                # A direction of norm 1 is sqrt(d) times shorter, and takes a longer mu to the same distance.
                unit = np.sqrt(sum(network.sizes_M)) if kind == "unit-sphere" else 1.0
                error = {}
                for mu in (1e-5, 1e-6):
                    rho_NQ = estimate(network, BATCHES, A_MN, SEEDS, directions, mu=mu * unit, inactive=inactive).rho_NQ
                    error[mu] = np.abs(rho_NQ - exact_NQ).max() / np.abs(exact_NQ).max()
                assert error[1e-6] < 1e-3
                assert error[1e-5] / error[1e-6] == pytest.approx(10, rel=0.05)


@pytest.mark.slow
def test_the_mean_of_many_estimates_points_along_the_gradient(make_tiny_model):
    network = Blocks(make_tiny_model("opt", num_blocks=1), dtype=torch.float64)
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    size, count = network.sizes_M[0], 1500
    rho_NQ = estimate(network, BATCHES[:1], np.ones((1, 1)), range(count), directions, mu=1e-6).rho_NQ
    mean = sum(rho * directions.block(seed, 0) for seed, rho in enumerate(rho_NQ[0])) / count
    gradient = gradient_by_block(network, BATCHES[0], [True])[0]
    # The mean of K estimates is g plus noise of norm |g| sqrt(d / K).
    cosine = F.cosine_similarity(mean, gradient, dim=0).item()
    assert cosine == pytest.approx(1 / np.sqrt(1 + size / count), abs=0.03)


def test_estimation_leaves_the_weights_bit_for_bit(make_tiny_model, subtests):
    for dtype in [torch.float32, torch.float64]:
        with subtests.test(dtype=dtype):
            network = Blocks(make_tiny_model("opt"), dtype=dtype)
            before = network.weights_sha256()
            estimate(network, BATCHES, A_MN, SEEDS, Directions("gaussian", network.sizes_M, dtype=dtype), mu=0.3)
            assert network.weights_sha256() == before


def test_only_active_blocks_are_perturbed(network):
    """A client that activates a block alone gets the rho of a direction that is zero elsewhere."""
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    only_block_1 = np.array([[0], [1], [0]], dtype=bool)
    rho = estimate(network, BATCHES[:1], only_block_1, [4], directions, mu=1e-3).rho_NQ[0, 0]
    at_w = batch_loss(network, BATCHES[0])
    network.block_weights(1).add_(1e-3 * directions.block(4, 1))
    assert rho == (batch_loss(network, BATCHES[0]) - at_w) / 1e-3


def test_a_round_costs_one_base_pass_and_one_for_each_direction_and_client(network):
    directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
    assert estimate(network, BATCHES, A_MN, SEEDS, directions, mu=1e-3).forward_passes == 3 * (1 + 2)
