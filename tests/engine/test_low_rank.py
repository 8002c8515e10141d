"""Low-rank directions: what they are, and that scalars and steps along them need no direction written out.

The cohort's scalars along them are in ``test_cohort.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_cohort import SEEDS, batches, random_allocation
from zorba_core.engine import noise
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import exact
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.low_rank import with_exact_sums
from zorba_core.engine.update import update_blocks

SHAPES = (((40, 30), (40,), (7, 50)), ((500, 400),))


def low_rank(network: Blocks, dtype: torch.dtype = torch.float64) -> Directions:
    return Directions("low-rank", network.shapes_M, dtype=dtype)


def test_a_matrix_moves_along_a_product_of_signs_and_a_vector_along_its_own_signs():
    drawn = Directions("low-rank", SHAPES).block(5, 0)
    u, z, bias, u2, z2 = noise.signs(5, 0, 0, 40 + 30 + 40 + 7 + 50).split([40, 30, 40, 7, 50])
    assert torch.equal(drawn, torch.cat([torch.outer(u, z).flatten(), bias, torch.outer(u2, z2).flatten()]))
    assert torch.linalg.matrix_rank(drawn[:1200].view(40, 30)) == 1
    assert drawn.norm() == pytest.approx(math.sqrt(len(drawn)))


def test_weights_are_moved_as_by_the_whole_direction(subtests):
    for dtype in [torch.float32, torch.float64]:
        with subtests.test(dtype=dtype):
            directions = Directions("low-rank", [((700, 600), (700,), (1, 300_000), (3, 5))], dtype=dtype)
            weights = Directions("gaussian", directions.sizes_M, dtype=dtype).block(9, 0)
            moved = weights.clone()
            directions.add_to(moved, 3, 0, 1e-3)
            assert torch.equal(moved, weights + directions.block(3, 0).mul_(1e-3))


def test_exact_scalars_without_gradients_are_those_of_forward_mode(family, make_tiny_model, subtests):
    """Whatever the shapes of batches and whoever activates what; the label positions are all that is read."""
    for inactive in ["frozen", "dropped"]:
        with subtests.test(inactive=inactive):
            network = Blocks(make_tiny_model(family, num_blocks=4), dtype=torch.float64)
            asked = (network, batches(9), random_allocation(3, 4, 9, 0.5), SEEDS, low_rank(network))
            expected, exact = estimate_jvp(*asked, inactive=inactive), estimate_exact(*asked, inactive=inactive)
            assert np.abs(expected.rho_NQ).max() > 0.1
            # Llama's norms compute in float32 whatever they are given.
            tolerance = 1e-5 if family == "llama" else 1e-10
            assert exact.rho_NQ == pytest.approx(expected.rho_NQ, rel=tolerance, abs=tolerance)


def test_a_layer_has_the_same_scalars_through_its_gradient_and_without_it(make_tiny_model, monkeypatch):
    network, seeds_Q, products = Blocks(make_tiny_model("opt"), dtype=torch.float64), range(300), []
    directions, linear = low_rank(network), exact.F.linear
    monkeypatch.setattr(exact.F, "linear", lambda *args: products.append(args) or linear(*args))
    sums = exact._LowRankScalars(network, np.ones((network.num_blocks, 2), bool), seeds_Q, directions)
    for part, u_Qm, z_Qn in [each for each in directions.factors(seeds_Q, 0) if each.part.is_matrix]:
        dy_Pm, x_Pn = (torch.randn(500, size, dtype=torch.float64) for size in (part.rows, part.columns))
        gradient_nm = x_Pn.t() @ dy_Pm
        one = torch.eye(min(part.rows, part.columns), dtype=torch.float64)
        sums._total_CQ.zero_()
        products.clear()
        sums.add_matrix(0, part.start, 0, dy_Pm, x_Pn)
        assert len(products) == 1  # 500 positions: the gradient is smaller
        few = (one, gradient_nm.t()) if part.rows < part.columns else (gradient_nm, one)  # the same gradient
        sums.add_matrix(0, part.start, 1, *few)
        assert len(products) == 3
        assert sums.scalars()[0] == pytest.approx(((u_Qm @ gradient_nm.t()) * z_Qn).sum(1).numpy(), rel=1e-9)
        assert sums.scalars()[1] == pytest.approx(sums.scalars()[0], rel=1e-9)


def test_scalars_and_steps_are_those_of_directions_written_out(subtests):
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.float64, 1e-12)]:
        with subtests.test(dtype=dtype, tolerance=tolerance):
            directions, seeds_Q = Directions("low-rank", SHAPES, dtype=dtype), list(range(7, 307))
            v_QD = torch.stack([directions.block(seed, 0) for seed in seeds_Q]).double()
            gradient_CD = Directions("gaussian", directions.sizes_M, dtype=dtype).block(9, 0)[None].repeat(2, 1)
            expected_CQ = gradient_CD.double() @ v_QD.t()
            found_CQ = directions.scalars(gradient_CD, seeds_Q, 0)
            assert torch.allclose(found_CQ, expected_CQ, rtol=0, atol=tolerance * float(expected_CQ.abs().max()))
            rho_Q = np.random.default_rng(0).normal(size=300)
            step, expected_D = directions.step(rho_Q, seeds_Q, 0).double(), torch.from_numpy(rho_Q) @ v_QD
            # Each rho loses at most half of a unit in 2**-23 (or 2**-52) of their sum.
            assert torch.allclose(step, expected_D, rtol=0, atol=10 * tolerance * float(expected_D.abs().max()))


def test_a_step_has_the_same_bits_in_every_order_of_addition(subtests):
    """So it has on every device, in every library and with any number of threads."""
    for count in [1, 7, 200, 3000]:
        for dtype in [torch.float32, torch.float64]:
            with subtests.test(count=count, dtype=dtype):
                directions, rng = Directions("low-rank", SHAPES, dtype=dtype), np.random.default_rng(count)
                rho_Q, seeds_Q = rng.standard_t(2, size=count) * 1e-3, rng.integers(2**32, size=count)
                step = directions.step(rho_Q, seeds_Q, 1)
                order = rng.permutation(count)
                assert torch.equal(directions.step(rho_Q[order], seeds_Q[order], 1), step)
                rounded_Q = with_exact_sums(rho_Q, dtype)
                one_by_one = torch.zeros_like(step)
                for q in order[: 300 if count > 300 else count]:
                    one_by_one.add_(directions.block(int(seeds_Q[q]), 1), alpha=float(rounded_Q[q]))
                if count <= 300:
                    assert torch.equal(one_by_one, step)


def test_scalars_are_rounded_far_below_what_they_are_worth():
    rho_Q = np.random.default_rng(1).normal(size=200)
    rounded_Q = with_exact_sums(rho_Q, torch.float32)
    assert 0 < np.linalg.norm(rounded_Q - rho_Q) < 3e-5 * np.linalg.norm(rho_Q)
    assert np.array_equal(with_exact_sums(np.zeros(3), torch.float32), np.zeros(3))


def test_an_update_moves_the_weights_by_a_sum_of_the_directions(make_tiny_model):
    network = Blocks(make_tiny_model("gpt2"), dtype=torch.float64)
    directions, before = low_rank(network), [network.block_weights(m).clone() for m in range(3)]
    rho_bar_MQ = np.array([[0.5, -1.0], [0.0, 0.0], [2.0, 0.25]])
    update_blocks(network, rho_bar_MQ, SEEDS, directions, 0.1)
    for m in range(3):
        step = sum(rho * directions.block(seed, m) for rho, seed in zip(rho_bar_MQ[m], SEEDS, strict=True))
        assert torch.allclose(network.block_weights(m), before[m] - 0.1 * step, rtol=0, atol=1e-14)
