from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded

A_MN = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], dtype=bool)
SEEDS = [4, 17]


def batch(seed: int) -> Encoded:
    generator = torch.Generator().manual_seed(seed)
    return Encoded(
        torch.randint(2, 400, (4, 6), generator=generator),
        torch.randint(1, 6, (4,), generator=generator),
        torch.randint(0, 2, (4,), generator=generator),
    )


BATCHES = [batch(seed) for seed in range(3)]


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_forward_mode_gives_the_gradient_along_the_direction_in_every_family(make_tiny_model, family, inactive):
    network = BlockNetwork(make_tiny_model(family), [11, 250], dtype=torch.float64)
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    found = estimate_jvp(network, BATCHES, A_MN, SEEDS, directions, inactive=inactive)
    for n in range(3):
        network.model.requires_grad_(True)
        hidden = network.embed(BATCHES[n].token_ids_RL)
        for m in range(3):
            runs = A_MN[m, n] or inactive == "frozen"
            hidden = network.run_block(m, hidden) if runs else network.run_block_without_weights(hidden)
        loss = F.cross_entropy(network.head(BATCHES[n].read(hidden)), BATCHES[n].label_R)
        along_Q = [0.0, 0.0]
        for m in np.flatnonzero(A_MN[:, n]):
            pieces = torch.autograd.grad(loss, list(network.block_module(m).parameters()), retain_graph=True)
            gradient = torch.cat([piece.reshape(-1) for piece in pieces])
            along_Q = [
                along + float(gradient @ directions.block(seed, m)) for along, seed in zip(along_Q, SEEDS, strict=True)
            ]
        network.model.requires_grad_(False)
        assert found.rho_NQ[n] == pytest.approx(along_Q, rel=1e-4 if family == "llama" else 1e-9)  # its norm is float32
        assert found.loss_N[n] == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
@pytest.mark.parametrize("family", ["opt", "gpt2"])
def test_finite_differences_tend_to_it_and_their_error_falls_as_mu(make_tiny_model, family, inactive):
    # A smooth activation: across a kink the difference quotient is off.
    network = BlockNetwork(make_tiny_model(family, activation="gelu"), [11, 250], dtype=torch.float64)
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    exact = estimate_jvp(network, BATCHES, A_MN, SEEDS, directions, inactive=inactive)
    error = {}
    for mu in (1e-5, 1e-6):
        found = estimate(network, BATCHES, A_MN, SEEDS, directions, mu=mu, inactive=inactive)
        error[mu] = np.abs(found.rho_NQ - exact.rho_NQ).max() / np.abs(exact.rho_NQ).max()
    assert error[1e-6] < 1e-3
    assert error[1e-5] / error[1e-6] == pytest.approx(10, rel=0.05)
    assert exact.loss_N == pytest.approx(found.loss_N, rel=1e-12)


def test_the_exact_derivative_in_float32_is_that_of_float64(make_tiny_model):
    """No difference of close numbers is taken, so float32 is enough."""
    rho = {}
    for dtype in (torch.float32, torch.float64):
        network = BlockNetwork(make_tiny_model("opt"), [11, 250], dtype=dtype)
        directions = Directions("rademacher", network.sizes_M, dtype=dtype)
        rho[dtype] = estimate_jvp(network, BATCHES, A_MN, SEEDS, directions).rho_NQ
    assert rho[torch.float32] == pytest.approx(rho[torch.float64], rel=1e-4)


def test_a_client_moves_along_its_own_blocks_only(make_tiny_model):
    """Derivatives along single blocks add up to the derivative along all of them."""
    network = BlockNetwork(make_tiny_model("opt"), [11, 250], dtype=torch.float64)
    directions = Directions("gaussian", network.sizes_M, dtype=torch.float64)
    four = [BATCHES[0]] * 4
    rho_NQ = estimate_jvp(network, four, np.column_stack([np.eye(3), np.ones(3)]), SEEDS, directions).rho_NQ
    assert rho_NQ[:3].sum(axis=0) == pytest.approx(rho_NQ[3], rel=1e-9)


def test_weights_are_not_written_to(make_tiny_model):
    network = BlockNetwork(make_tiny_model("opt"), [11, 250])
    before = network.weights_sha256()
    estimate_jvp(network, BATCHES, A_MN, SEEDS, Directions("gaussian", network.sizes_M))
    assert network.weights_sha256() == before
