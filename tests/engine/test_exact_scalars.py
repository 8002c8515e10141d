"""One backward pass for all clients against forward mode, which goes client by client and direction by direction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_cohort import SEEDS, batches, random_allocation
from zorba_core.engine import directions as directions_module
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import exact
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.errors import InvalidInputError

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def both(network, batches_N, A_MN, dtype, kind="rademacher", inactive="frozen") -> tuple[Estimate, Estimate]:
    directions = Directions(kind, network.shapes_M, dtype=dtype)
    forward_mode = estimate_jvp(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
    backward = estimate_exact(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
    return forward_mode, backward


def assert_same(expected: Estimate, estimate: Estimate, tolerance: float) -> None:
    """Relative to the largest rho, as a zero crossing has no relative precision."""
    scale = np.abs(expected.rho_NQ).max()
    assert scale > 0.1
    assert np.abs(estimate.rho_NQ - expected.rho_NQ).max() <= tolerance * scale
    assert estimate.loss_N == pytest.approx(expected.loss_N, rel=max(1e-12, tolerance / 10))


def test_every_family_gets_the_derivatives_of_forward_mode(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for dtype in TOLERANCE:
            with subtests.test(inactive=inactive, dtype=dtype):
                network = Blocks(make_tiny_model(family), dtype=dtype)
                before = network.weights_sha256()
                forward_mode, backward = both(network, batches(7), random_allocation(0, 3, 7), dtype, inactive=inactive)
                # Llama's norms compute in float32 whatever they are given.
                assert_same(forward_mode, backward, TOLERANCE[torch.float32 if family == "llama" else dtype])
                assert network.weights_sha256() == before
                assert not any(parameter.requires_grad for parameter in network.model.parameters())
                assert all("forward" not in vars(module) for module in network.model.modules())


def test_blocks_are_dropped_from_a_network_that_nothing_was_computed_with_before(make_tiny_model):
    """A block without weights is a copy of one that is not watched."""
    networks = [Blocks(make_tiny_model("opt-post-norm"), dtype=torch.float64) for _ in range(2)]
    directions, A_MN = Directions("gaussian", networks[0].sizes_M, dtype=torch.float64), random_allocation(0, 3, 5, 0.5)
    expected = estimate_jvp(networks[0], batches(5), A_MN, SEEDS, directions, inactive="dropped")
    for estimate in (estimate_exact, estimate_jvp):
        assert_same(expected, estimate(networks[1], batches(5), A_MN, SEEDS, directions, inactive="dropped"), 1e-10)


def test_random_allocations_with_idle_clients_and_idle_blocks(make_tiny_model, subtests):
    for share in [0.1, 0.5, 1.0]:
        for inactive in ["frozen", "dropped"]:
            with subtests.test(share=share, inactive=inactive):
                network = Blocks(make_tiny_model("opt", num_blocks=6), dtype=torch.float64)
                for seed in range(2):
                    A_MN = random_allocation(seed, 6, 8, share)
                    assert_same(*both(network, batches(8), A_MN, torch.float64, inactive=inactive), 1e-10)


def test_every_kind_of_direction(make_tiny_model, subtests):
    for kind in DIRECTIONS:
        with subtests.test(kind=kind):
            network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
            forward_mode, backward = both(network, batches(5), random_allocation(1, 3, 5, 0.6), torch.float64, kind)
            assert backward.rho_NQ == pytest.approx(forward_mode.rho_NQ, rel=1e-9, abs=1e-12)


def test_clients_with_unequal_numbers_of_rows_in_pieces_and_shares_of_any_size(make_tiny_model, monkeypatch, subtests):
    for rows in [(1, 3, 8), (2,)]:
        with subtests.test(rows=rows):
            network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
            A_MN, batches_N = random_allocation(3, 3, 7, 0.6), batches(7, rows=rows, lengths=(5, 9))
            whole = both(network, batches_N, A_MN, torch.float64)
            assert_same(*whole, 1e-10)
            for table_bytes, positions, at_once in ((0, 1, 1), (200_000, 30, 2), (10**9, 10**6, 16)):
                monkeypatch.setattr(exact, "TABLE_BYTES", table_bytes)
                monkeypatch.setattr(exact, "_POSITIONS_CPU", positions)
                monkeypatch.setattr(directions_module, "AT_ONCE", at_once)
                assert_same(whole[0], both(network, batches_N, A_MN, torch.float64)[1], 1e-10)


class Doubling(nn.Module):
    """A layer that nothing is known of: its one number scales what passes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_layer_whose_gradient_is_not_known_is_refused_with_the_way_out(make_tiny_model):
    model = make_tiny_model("opt")
    block = model.model.decoder.layers[1]
    block.fc2 = nn.Sequential(block.fc2, Doubling())
    with pytest.raises(InvalidInputError, match="block 1 has a Doubling; use estimator cohort"):
        both(Blocks(model), batches(2), np.ones((3, 2), bool), torch.float32)


def test_each_client_passes_forward_once_and_backward_once_whatever_the_directions(make_tiny_model, monkeypatch):
    """And blocks before the first active one are not differentiated."""
    network = Blocks(make_tiny_model("opt", num_blocks=4))
    A_MN = np.array([[0, 0], [0, 0], [1, 1], [0, 1]], dtype=bool)
    runs, run_block = [], network.run_block

    def counted(m, hidden_BLH):
        out = run_block(m, hidden_BLH)
        runs.append((m, hidden_BLH[..., 0].numel(), out.requires_grad))
        return out

    monkeypatch.setattr(network, "run_block", counted)
    directions = Directions("rademacher", network.sizes_M)
    estimate = estimate_exact(network, batches(2, lengths=(8,)), A_MN, range(40), directions)
    assert runs == [(0, 64, False), (1, 64, False), (2, 64, True), (3, 64, True)]
    assert (estimate.forward_passes, estimate.backward_passes) == (2, 2)


def test_noise_is_drawn_once_a_direction_and_block_for_clients_that_fit_together(make_tiny_model, monkeypatch):
    network = Blocks(make_tiny_model("opt"))
    directions, asked = Directions("rademacher", network.sizes_M), []
    drawn = directions._drawn
    monkeypatch.setattr(directions, "_drawn", lambda seed, m: asked.append((seed, m)) or drawn(seed, m))
    estimate_exact(network, batches(20), np.ones((3, 20), dtype=bool), SEEDS, directions)
    assert sorted(asked) == sorted((seed, m) for seed in SEEDS for m in range(3))


def test_a_client_whose_loss_is_not_finite_leaves_the_others_as_they_are(poisoned_network):
    network, batches_N = poisoned_network
    directions = Directions("rademacher", network.sizes_M)
    A_MN = np.ones((3, len(batches_N)), dtype=bool)
    estimate = estimate_exact(network, batches_N, A_MN, SEEDS, directions)
    healthy = [0, 2, 3]
    alone = estimate_exact(network, [batches_N[n] for n in healthy], A_MN[:, healthy], SEEDS, directions)
    assert not np.isfinite(estimate.rho_NQ[1]).any()
    assert not np.isfinite(estimate.loss_N[1])
    assert estimate.rho_NQ[healthy] == pytest.approx(alone.rho_NQ, rel=1e-4, abs=1e-5)


@pytest.fixture
def poisoned_network(make_tiny_model):
    """A token that only client 1 has embeds to infinity."""
    model, batches_N = make_tiny_model("opt"), batches(4, lengths=(6,))
    for n, batch in enumerate(batches_N):
        batch.token_ids_RL[batch.token_ids_RL == 5] = 6
        if n == 1:
            batch.token_ids_RL[:, 0] = 5
    with torch.no_grad():
        model.get_input_embeddings().weight[5] = torch.inf
    return Blocks(model), batches_N


def test_finite_differences_tend_to_it(make_tiny_model):
    network = Blocks(make_tiny_model("opt", activation="gelu"), dtype=torch.float64)
    directions, rows, A_MN = Directions("gaussian", network.sizes_M, dtype=torch.float64), batches(4), np.ones((3, 4))
    derivative_NQ = estimate_exact(network, rows, A_MN, SEEDS, directions).rho_NQ
    error = [
        np.abs(estimate_cohort(network, rows, A_MN, SEEDS, directions, mu=mu).rho_NQ - derivative_NQ).max()
        for mu in (1e-5, 1e-6)
    ]
    assert error[0] / error[1] == pytest.approx(10, rel=0.05)
