from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy import stats

from zorba_core.engine import noise
from zorba_core.engine.noise import normals, signs

KINDS = {"signs": signs, "normals": normals}
SIZE = 2**18
PINNED = ["5e4bb03cb811e5ff", "f9b970689e33c4e9"]
FIRST_SIGNS = [1, -1, -1, 1, -1, -1, -1, -1, 1, 1, -1, 1]
# Keys that a poor generator would confuse: neighbours, powers of two, all ones, seed and block exchanged.
KEYS = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2**32, 0), (2**32 - 1, 11), (11, 2**32 - 1), (2**64 - 1, 0)]


@pytest.fixture(params=KINDS)
def draw(request):
    return KINDS[request.param]


def test_philox_gives_the_published_words(subtests):
    for counter, key, words in [  # kat_vectors of Random123, the authors' own implementation
        ([0] * 4, [0] * 2, [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]),
        (
            [2**64 - 1] * 4,
            [2**64 - 1] * 2,
            [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
        ),
    ]:
        with subtests.test(counter=counter, key=key, words=words):
            number = sum(
                word << 64 * place for place, word in enumerate(counter)
            )  # NumPy steps the counter before it draws
            generator = np.random.Philox(counter=(number - 1) % 2**256, key=key)
            assert generator.random_raw(4).tolist() == words


def test_the_bits_are_pinned():
    """A change here changes what every earlier run drew. On a GPU, tests/gpu compares with the CPU's bits."""
    drawn = [draw(2**32 - 5, 7, 100, 5000).numpy().tobytes() for draw in KINDS.values()]
    assert [hashlib.sha256(noise).hexdigest()[:16] for noise in drawn] == PINNED
    assert signs(1, 2, 0, 12).tolist() == FIRST_SIGNS


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


def test_signs_are_fair_and_have_norm_sqrt_d(subtests):
    for key in KEYS:
        with subtests.test(key=key):
            drawn = signs(*key, 0, SIZE).double()
            assert drawn.square().sum().item() == SIZE
            assert abs(drawn.mean().item()) < 4.5 / math.sqrt(SIZE)


def test_normals_have_the_moments_of_the_standard_normal(subtests):
    for key in KEYS:
        with subtests.test(key=key):
            drawn = normals(*key, 0, SIZE).double()
            for power, expected, deviation in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]:
                assert (drawn**power).mean().item() == pytest.approx(expected, abs=4.5 * math.sqrt(deviation / SIZE))


def test_the_levels_of_a_normal_are_as_documented():
    levels = torch.from_numpy(noise.normal_levels()).double()
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
