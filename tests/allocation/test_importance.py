"""Energies and noises of blocks from scalars: the fast sums against pairs written out, and against the truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.allocation.gain import BlockFacts, block_lengths
from zorba_core.allocation.importance import ScalarRound, _mean_above_zero, importance_of
from zorba_core.allocation.varied import VARIATIONS, thinned, varied
from zorba_core.errors import InvalidInputError

EVERYONE = np.ones(6, bool)


def written_out(rounds: list[ScalarRound]) -> tuple[np.ndarray, np.ndarray]:
    """One equation for every pair of clients and direction, and one for every client and direction; pairs once with
    equal weights, and again with those of the variances that follow from it."""
    energy_M = noise_M = None
    for _ in range(2):
        pairs, products, owns, squares = [], [], [], []
        for each in rounds:
            clients = np.flatnonzero(each.reported_N & each.A_MN.any(axis=0))
            variance = {n: 1.0 for n in clients}
            if energy_M is not None:
                variance = {n: float(each.A_MN[:, n] @ (energy_M + noise_M)) for n in clients}
                mean = np.mean(list(variance.values()))
                variance = {n: max(value / mean, 0.1) for n, value in variance.items()}
            for q in range(each.rho_NQ.shape[1]):
                for n, k in itertools.combinations(clients, 2):
                    scale = np.sqrt(each.weight / (variance[n] * variance[k]))
                    pairs.append(scale * (each.A_MN[:, n] & each.A_MN[:, k]))
                    products.append(scale * each.rho_NQ[n, q] * each.rho_NQ[k, q])
                for n in clients:
                    scale = np.sqrt(each.weight)
                    owns.append(scale * each.A_MN[:, n])
                    squares.append(scale * each.rho_NQ[n, q] ** 2)
        energy_M, _ = nnls(np.array(pairs, float), np.array(products))
        noise_M, _ = nnls(np.array(owns, float), np.array(squares) - np.array(owns, float) @ energy_M)
    return energy_M, noise_M


def made_rounds(energy_M, noise_M, budgets, count: int, Q: int, seed: int = 0, how: str = "permute", size: int = 30):
    """Scalars of blocks with ``size`` parameters each, whose gradients have those energies and noises."""
    generator = np.random.default_rng(seed)
    M, N = len(energy_M), len(budgets)
    plain = solve(AllocationProblem(budgets, M)).allocation
    mean_MD = generator.standard_normal((M, size))
    mean_MD *= np.sqrt(energy_M)[:, None] / np.linalg.norm(mean_MD, axis=1, keepdims=True)
    for t in range(1, count + 1):
        A_MN = varied(plain, how, seed, t).A_MN
        own_NMD = mean_MD + generator.standard_normal((N, M, size)) * np.sqrt(np.array(noise_M) / size)[:, None]
        v_QMD = generator.standard_normal((Q, M, size))
        rho_NQ = np.einsum("mn,nmd,qmd->nq", A_MN.astype(float), own_NMD, v_QMD)
        yield ScalarRound(A_MN, rho_NQ, np.ones(N, bool))


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_all_pairs_written_out(seed):
    generator = np.random.default_rng(seed)
    rounds = []
    for t in range(4):
        A_MN = generator.random((5, 6)) < 0.5
        A_MN[t, 0] = True
        reported_N = generator.random(6) < 0.8
        reported_N[:2] = True
        rounds.append(ScalarRound(A_MN, generator.standard_normal((6, 7)), reported_N, 0.5**t))
    energy_M, noise_M = written_out(rounds)
    read = importance_of(rounds, resamples=0)
    assert read.energy_M == pytest.approx(energy_M, abs=1e-6 * energy_M.max())
    assert read.noise_M == pytest.approx(noise_M, abs=1e-6 * noise_M.max())


def test_energies_and_noises_are_found_within_their_intervals():
    energy_M, noise_M = np.array([4.0, 2.0, 0.5, 0.1, 0.0, 1.0]), np.array([3.0, 1.0, 2.0, 4.0, 1.0, 0.5])
    rounds = list(made_rounds(energy_M, noise_M, [2, 3, 4, 2, 3, 1, 2, 3], count=60, Q=20))
    read = importance_of(rounds)
    assert read.identifiable_M.all()
    assert np.abs(read.energy_M - energy_M).max() < 0.5
    assert np.abs(read.noise_M - noise_M).max() < 0.8
    inside = (read.energy_low_M <= energy_M + 1e-9) & (energy_M <= read.energy_high_M + 1e-9)
    assert inside.sum() >= 5
    assert (read.energy_high_M - read.energy_low_M).max() < 2.0
    few = importance_of(rounds[:3])
    assert (few.energy_high_M - few.energy_low_M).mean() > (read.energy_high_M - read.energy_low_M).mean()
    facts = read.facts()
    assert facts.energy_M.min() == pytest.approx(read.energy_M.max() / 100)


@pytest.mark.parametrize(
    ("how", "budgets", "seen"), [("fixed", [4] * 6, 0), ("rotate", [4] * 6, 0), ("permute", [4] * 6, 12)]
)
def test_what_always_stands_together_cannot_be_told_apart(how, budgets, seen):
    rounds = list(made_rounds(np.ones(12), np.ones(12), budgets, count=12, Q=2, how=how))
    assert importance_of(rounds, resamples=0).identifiable_M.sum() == seen


def test_a_varied_allocation_keeps_what_every_client_holds_and_every_measure():
    plain = solve(AllocationProblem([5, 3, 2, 1, 1, 4], 7)).allocation
    for how in VARIATIONS:
        rounds = [varied(plain, how, 3, t) for t in range(1, 9)]
        assert all(np.array_equal(each.blocks_held_N, plain.blocks_held_N) for each in rounds)
        assert {round(each.bias_lambda, 12) for each in rounds} == {round(plain.bias_lambda, 12)}
        assert {round(each.mean_inverse_popularity, 12) for each in rounds} == {
            round(plain.mean_inverse_popularity, 12)
        }
        assert len({each.A_MN.tobytes() for each in rounds}) == {"fixed": 1, "rotate": 7, "permute": 8}[how]
        assert np.array_equal(varied(plain, how, 3, 5).A_MN, rounds[4].A_MN)
    assert np.array_equal(varied(plain, "rotate", 3, 1).A_MN, plain.A_MN)
    assert not np.array_equal(varied(plain, "permute", 4, 1).A_MN, varied(plain, "permute", 3, 1).A_MN)


def test_clients_that_hold_everything_are_thinned_to_half_and_others_are_not():
    full = Allocation(np.ones((5, 4), bool))
    half = thinned(full)
    assert half.blocks_held_N.tolist() == [3] * 4
    assert half.popularity_M.min() > 0
    assert thinned(half) is half
    rounds = [ScalarRound(varied(half, "permute", 0, t).A_MN, np.ones((4, 2)), np.ones(4, bool)) for t in range(1, 9)]
    assert importance_of(rounds, resamples=0).identifiable_M.all()


def test_rounds_that_say_nothing_are_refused():
    nobody = ScalarRound(np.ones((3, 6), bool), np.ones((6, 2)), np.eye(6, dtype=bool)[0])
    with pytest.raises(InvalidInputError, match="no round in which two clients reported"):
        importance_of([nobody])
    with pytest.raises(InvalidInputError, match="show no energy in any block"):
        importance_of([ScalarRound(np.ones((3, 6), bool), np.zeros((6, 2)), EVERYONE)]).facts()


def test_mean_squares_stay_above_zero_where_the_equations_cross_it():
    mean_M, deviation_M = np.array([3.0, 0.0, -1.0, -30.0, 2.0]), np.array([1.0, 2.0, 1.0, 1.0, 0.0])
    found_M = _mean_above_zero(mean_M, deviation_M)
    draws = np.random.default_rng(0).normal(mean_M[:3], deviation_M[:3], (400_000, 3))
    np.testing.assert_allclose(found_M[:3], [column[column > 0].mean() for column in draws.T], rtol=0.01)
    assert 0 < found_M[3] < 0.05
    assert found_M[4] == pytest.approx(2.0)


def test_lengths_follow_the_mean_squared_gradients_and_not_the_directions_of_the_run():
    """Scalars along directions twice as long in a block: the same lengths once that is said."""
    rng, facts = np.random.default_rng(3), BlockFacts.of(3, [4.0, 1.0, 0.25], [4.0, 1.0, 0.25])
    truth = (8.0 / np.array([8.0, 2.0, 0.5])) ** 0.25
    rounds = drawn_rounds(rng, facts, np.ones(3))
    np.testing.assert_allclose(importance_of(rounds).lengths(), truth, rtol=0.15)
    scale_M = np.array([1.0, 2.0, 3.0])
    scaled = drawn_rounds(rng, facts, scale_M)
    np.testing.assert_allclose(importance_of(scaled).along_unit_directions(scale_M).lengths(), truth, rtol=0.15)


def drawn_rounds(rng, facts, scale_M, rounds=60, clients=20, directions=10):
    """Scalars of clients that each activate some of three blocks, whose directions are that long."""
    made, sizes = [], 50
    mean = [rng.standard_normal(sizes) for _ in range(3)]
    mean = [g * np.sqrt(energy / (g @ g)) for g, energy in zip(mean, facts.energy_M, strict=True)]
    for _ in range(rounds):
        A_MN = rng.random((3, clients)) < 0.5
        A_MN[rng.integers(3, size=clients), np.arange(clients)] = True
        v_Q = [scale * rng.choice([-1.0, 1.0], (directions, sizes)) for scale in scale_M]
        rho_NQ = np.zeros((clients, directions))
        for m in range(3):
            g_N = mean[m] + rng.standard_normal((clients, sizes)) * np.sqrt(facts.noise_M[m] / sizes)
            rho_NQ += A_MN[m][:, None] * (g_N @ v_Q[m].T)
        made.append(ScalarRound(A_MN, rho_NQ, np.ones(clients, bool)))
    return made


def test_lengths_are_the_fourth_roots_and_bounded():
    np.testing.assert_allclose(block_lengths([16.0, 1.0, 16.0]), [1, 2, 1])
    assert block_lengths([1.0, 0.0, 1e-9]).tolist() == [1, 10, 10]
    with pytest.raises(InvalidInputError, match="all 0"):
        block_lengths([0.0, 0.0])
