from __future__ import annotations

import math

import pytest
import torch

from zorba_core.engine.directions import Directions
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.engine.randomness import stream

SIZES = (1000, 37, 2500)


def whole(directions: Directions, seed: int) -> torch.Tensor:
    return torch.cat([directions.block(seed, m) for m in range(len(directions.sizes_M))])


def test_a_block_is_the_same_whatever_was_drawn_before_it(subtests):
    for kind in DIRECTIONS:
        with subtests.test(kind=kind):
            alone = Directions(kind, SIZES).block(7, 2)
            others_first = Directions(kind, SIZES)
            others_first.block(9, 2), others_first.block(7, 1)
            assert torch.equal(alone, others_first.block(7, 2))


def test_a_sphere_has_its_norm_over_all_blocks(subtests):
    for kind, norm in [("sphere", math.sqrt(sum(SIZES))), ("unit-sphere", 1.0)]:
        with subtests.test(kind=kind, norm=norm):
            assert whole(Directions(kind, SIZES, dtype=torch.float64), 3).norm().item() == pytest.approx(norm, rel=1e-6)


def test_float64_runs_use_the_directions_of_float32_runs(subtests):
    for kind in ["gaussian", "rademacher"]:
        with subtests.test(kind=kind):
            single, double = (
                Directions(kind, SIZES).block(5, 0),
                Directions(kind, SIZES, dtype=torch.float64).block(5, 0),
            )
            assert torch.equal(single.double(), double)


def test_streams_of_keys_that_would_meet_by_addition_differ():
    keys = [("batch", 1, 23), ("batch", 12, 3), ("batch", 123), ("batch", 23, 1), ("batch", 1, 23, 0), ("other", 1, 23)]
    assert len({int(stream(*key).integers(2**62)) for key in keys}) == len(keys)


def test_weights_are_moved_as_by_the_whole_direction_piece_by_piece(subtests):
    for kind in DIRECTIONS:
        for dtype in [torch.float32, torch.float64]:
            with subtests.test(kind=kind, dtype=dtype):
                size = 2**17 + 2**15 + 5  # more than one piece, and a part
                directions = Directions(kind, (size,), dtype=dtype)
                weights = 0.05 * Directions("gaussian", (size,), dtype=dtype).block(9, 0)
                moved = weights.clone()
                directions.add_to(moved, 3, 0, 1e-3)
                assert torch.equal(moved, weights + directions.block(3, 0).mul_(1e-3))
