from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy import stats

from zorba_core.engine import noise
from zorba_core.engine.directions import Directions
from zorba_core.engine.noise import normals, philox4x64, signs

KINDS = {"signs": signs, "normals": normals}
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
SIZE = 2**18
PINNED = ["5e4bb03cb811e5ff", "f9b970689e33c4e9"]
FIRST_SIGNS = [1, -1, -1, 1, -1, -1, -1, -1, 1, 1, -1, 1]
# Keys that a poor generator would confuse: neighbours, powers of two, all ones, seed and block exchanged.
KEYS = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2**32, 0), (2**32 - 1, 11), (11, 2**32 - 1), (2**64 - 1, 0)]


@pytest.fixture(params=KINDS)
def draw(request):
    return KINDS[request.param]


def int64(unsigned: int) -> torch.Tensor:
    return torch.from_numpy(np.array([unsigned], dtype=np.uint64).view(np.int64))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # kat_vectors of Random123, the authors' own implementation
        ([0] * 4, [0] * 2, [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]),
        (
            [2**64 - 1] * 4,
            [2**64 - 1] * 2,
            [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
        ),
        (
            [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
            [0x452821E638D01377, 0xBE5466CF34E90C6C],
            [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
        ),
    ],
)
def test_philox_gives_the_published_words(counter, key, words):
    drawn = philox4x64(tuple(int64(word) for word in counter), tuple(key))
    assert drawn.numpy().view(np.uint64).ravel().tolist() == words


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", [0, 1])
def test_numpy_and_torch_integer_operations_draw_the_same_bits(key, kind):
    for first, last in [(0, 3), (1000, 1200), (2**40, 2**40 + 5)]:
        assert torch.equal(
            torch.from_numpy(noise._raw_words(*key, kind, first, last)), noise._words_by_torch(*key, kind, first, last)
        )


@pytest.mark.parametrize("device", DEVICES)
def test_the_bits_are_pinned_on_every_device(device):
    """A change here changes what every earlier run drew."""
    digests = [
        hashlib.sha256(draw(2**32 - 5, 7, 100, 5000, device).cpu().numpy().tobytes()).hexdigest()[:16]
        for draw in KINDS.values()
    ]
    assert digests == PINNED
    assert signs(1, 2, 0, 12, device).tolist() == FIRST_SIGNS


def test_any_slice_is_a_part_of_the_whole(draw):
    whole = draw(3, 4, 0, 3000)
    for start, stop in [(0, 1), (7, 9), (15, 17), (255, 257), (256, 512), (999, 2999), (13, 13), (0, 3000)]:
        assert torch.equal(draw(3, 4, start, stop), whole[start:stop])


def test_the_number_of_threads_changes_nothing(draw):
    before = torch.get_num_threads()
    alone = draw(3, 4, 0, SIZE)
    try:
        torch.set_num_threads(2)
        assert torch.equal(draw(3, 4, 0, SIZE), alone)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("key", KEYS)
def test_signs_are_fair_and_have_norm_sqrt_d(key):
    drawn = signs(*key, 0, SIZE).double()
    assert drawn.square().sum().item() == SIZE
    assert abs(drawn.mean().item()) < 4.5 / math.sqrt(SIZE)


@pytest.mark.parametrize("key", KEYS)
def test_normals_have_the_moments_of_the_standard_normal(key):
    drawn = normals(*key, 0, SIZE).double()
    for power, expected, deviation in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]:
        assert (drawn**power).mean().item() == pytest.approx(expected, abs=4.5 * math.sqrt(deviation / SIZE))


def test_the_levels_of_a_normal_are_as_documented():
    levels = noise._normal_levels("cpu").double()
    assert torch.equal(levels, -levels.flip(0))
    assert (levels.diff() > 0).all()
    assert torch.equal(levels / noise.NORMAL_STEP, (levels / noise.NORMAL_STEP).round())
    moments = [(levels**power).mean().item() for power in (2, 4, 6, 8)]
    assert moments == pytest.approx([1, 2.9998, 14.991, 104.66], rel=1e-4)
    assert moments[0] == pytest.approx(1, abs=1e-7)
    assert levels.max().item() == pytest.approx(4.388, abs=1e-3)
    below = stats.norm.cdf(levels.numpy())
    steps = np.arange(len(levels)) / len(levels)
    assert max(np.abs(below - steps).max(), np.abs(below - steps - 1 / len(levels)).max()) < 1e-5


def test_seeds_blocks_and_kinds_are_uncorrelated():
    drawn = np.stack([draw(*key, 0, SIZE).numpy() for draw in KINDS.values() for key in KEYS])
    correlation = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlation).max() < 4.5 / math.sqrt(SIZE)


@pytest.mark.parametrize("kind", ["gaussian", "sphere", "rademacher", "low-rank"])
@pytest.mark.parametrize("seeds", [(5,), (9, 2**32 - 1, 0)])
def test_directions_side_by_side_are_each_ones_own_bits(kind, seeds):
    """Blocks of less than a byte of signs, of a piece and a little, and of matrices."""
    directions = Directions(kind, [3, 2**17 + 1234, ((40, 30), (7,))])
    for block, size in enumerate(directions.sizes_M):
        joined_KD = torch.full((len(seeds), size), torch.nan)
        for start, stop, v_KS in directions.side_by_side(seeds, block):
            joined_KD[:, start:stop] = v_KS
        assert torch.equal(joined_KD, torch.stack([directions.block(seed, block) for seed in seeds]))
