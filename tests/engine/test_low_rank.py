"""Low-rank directions: what they are, and that every estimator and update takes them as any other direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.engine.test_cohort import LABELS, MU, SEEDS, TOLERANCE, assert_same, batches, random_allocation
from zorba_core.engine import noise
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.direction_kinds import DirectionKind
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

SHAPES = (((40, 30), (40,), (7, 50)), ((500, 400),))


def low_rank(network: Blocks, rank: int = 1, dtype: torch.dtype = torch.float64) -> Directions:
    return Directions("low-rank", network.shapes_M, rank=rank, dtype=dtype)


@pytest.mark.parametrize("rank", [1, 3])
def test_a_matrix_moves_along_products_of_two_vectors_and_a_vector_along_its_own_numbers(rank):
    drawn = Directions("low-rank", SHAPES, rank=rank, dtype=torch.float64).block(5, 0)
    numbers = noise.normals(5, 0, 0, rank * (40 + 30) + 40 + rank * (7 + 50)).double()
    u, z, bias, u2, z2 = numbers.split([40 * rank, 30 * rank, 40, 7 * rank, 50 * rank])
    first = u.view(40, rank) @ z.view(30, rank).T / math.sqrt(rank)
    second = u2.view(7, rank) @ z2.view(50, rank).T / math.sqrt(rank)
    assert torch.allclose(drawn, torch.cat([first.flatten(), bias, second.flatten()]), rtol=1e-14, atol=1e-15)
    assert torch.linalg.matrix_rank(drawn[:1200].view(40, 30)) == rank


def test_rank_one_is_the_default_and_settings_choose_it(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), LABELS)
    for rank in (1, 4):
        directions = directions_of(network, Settings(direction="low-rank", rank=rank))
        matrix = directions.block(0, 1)[: 16 * 16].view(16, 16)  # a block's first parameter: keys' 16 x 16
        assert torch.linalg.matrix_rank(matrix.double(), rtol=1e-5) == rank
    assert Settings().rank == 1


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_moved_as_by_the_whole_direction_piece_by_piece(dtype, rank):
    shapes = [((700, 600), (700,), (1, 300_000), (3, 5))]  # more than one piece, and a row longer than a piece
    directions = Directions("low-rank", shapes, rank=rank, dtype=dtype)
    weights = Directions("gaussian", directions.sizes_M, dtype=dtype).block(9, 0)
    moved = weights.clone()
    directions.add_to(moved, 3, 0, 1e-3)
    assert torch.equal(moved, weights + directions.block(3, 0).mul_(1e-3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cohort_has_the_bits_of_the_reference(make_tiny_model, dtype):
    network = Blocks(make_tiny_model("opt", num_blocks=4), LABELS, dtype=dtype)
    directions = low_rank(network, 2, dtype)
    asked = (network, batches(9), random_allocation(0, 4, 9), SEEDS, directions)
    assert_same(estimate(*asked, mu=MU), estimate_cohort(*asked, mu=MU), TOLERANCE[dtype])


def test_an_update_moves_the_weights_by_a_sum_of_the_directions(make_tiny_model):
    network = Blocks(make_tiny_model("gpt2"), LABELS, dtype=torch.float64)
    directions, before = low_rank(network, 2), [network.block_weights(m).clone() for m in range(3)]
    rho_bar_MQ = np.array([[0.5, -1.0], [0.0, 0.0], [2.0, 0.25]])
    update_blocks(network, rho_bar_MQ, SEEDS, directions, 0.1)
    for m in range(3):
        step = sum(rho * directions.block(seed, m) for rho, seed in zip(rho_bar_MQ[m], SEEDS, strict=True))
        assert torch.allclose(network.block_weights(m), before[m] - 0.1 * step, rtol=0, atol=1e-14)


def test_a_rank_belongs_to_low_rank_directions():
    with pytest.raises(InvalidInputError, match=r"rank is 2 and the direction is gaussian.*use direction low-rank"):
        Settings(rank=2)
    with pytest.raises(InvalidInputError, match="rank is 0"):
        Settings(direction="low-rank", rank=0)


def test_a_kind_of_factors_cannot_have_a_norm():
    with pytest.raises(InvalidInputError, match="norm"):
        DirectionKind("flat", "Flat", "no such thing", noise.normals, norm=math.sqrt, low_rank=True)
