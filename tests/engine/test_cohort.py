"""The routed cohort against the reference, which goes client by client."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import cohort as cohort_module
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.reference import Estimate, estimate
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.engine.rows import Rows

LABELS = [11, 250, 3]
SEEDS = [4, 2**32 - 1]
MU = 1e-3
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def batch(generator: torch.Generator, rows: int, length: int, vocabulary: int = 400) -> Rows:
    return Rows.of_words(
        torch.randint(2, vocabulary, (rows, length), generator=generator),
        torch.randint(0, length, (rows,), generator=generator),
        torch.randint(0, 3, (rows,), generator=generator),
        LABELS,
    )


def batches(num_clients: int, rows: tuple[int, ...] = (4,), lengths: tuple[int, ...] = (6, 7, 20)) -> list[Rows]:
    """One batch a client; rows and lengths take turns."""
    generator = torch.Generator().manual_seed(7)
    return [batch(generator, rows[n % len(rows)], lengths[n % len(lengths)]) for n in range(num_clients)]


def random_allocation(seed: int, num_blocks: int, num_clients: int, share: float = 0.4) -> np.ndarray:
    """Blocks nobody activates and clients who activate nothing are among the cases."""
    return np.random.default_rng(seed).random((num_blocks, num_clients)) < share


def both(network, batches_N, A_MN, dtype, kind="rademacher", inactive="frozen", **options) -> tuple[Estimate, Estimate]:
    directions = Directions(kind, network.shapes_M, dtype=dtype)
    reference = estimate(network, batches_N, A_MN, SEEDS, directions, mu=MU, inactive=inactive)
    cohort = estimate_cohort(network, batches_N, A_MN, SEEDS, directions, mu=MU, inactive=inactive, **options)
    return reference, cohort


def assert_same(reference: Estimate, cohort: Estimate, tolerance: float) -> None:
    """Relative to the largest rho, as a zero crossing has no relative precision."""
    scale = np.abs(reference.rho_NQ).max()
    assert scale > 0.1
    assert np.abs(cohort.rho_NQ - reference.rho_NQ).max() <= tolerance * scale
    assert cohort.loss_N == pytest.approx(reference.loss_N, rel=1e-10)
    assert cohort.forward_passes == reference.forward_passes


def test_every_family_gets_the_rho_of_the_reference(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for dtype in TOLERANCE:
            with subtests.test(inactive=inactive, dtype=dtype):
                network = Blocks(make_tiny_model(family, num_blocks=4), dtype=dtype)
                A_MN = random_allocation(0, 4, 9)
                assert_same(*both(network, batches(9), A_MN, dtype, inactive=inactive), TOLERANCE[dtype])


def test_random_allocations_with_idle_clients_and_idle_blocks(make_tiny_model, subtests):
    for share in [0.1, 0.5, 1.0]:
        for inactive in ["frozen", "dropped"]:
            for dtype in TOLERANCE:
                with subtests.test(share=share, inactive=inactive, dtype=dtype):
                    network = Blocks(make_tiny_model("opt", num_blocks=6), dtype=dtype)
                    for seed in range(3):
                        A_MN = random_allocation(seed, 6, 11, share)
                        assert_same(*both(network, batches(11), A_MN, dtype, inactive=inactive), TOLERANCE[dtype])


def test_every_kind_of_direction(make_tiny_model, subtests):
    for kind in DIRECTIONS:
        with subtests.test(kind=kind):
            network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
            reference, cohort = both(network, batches(5), random_allocation(1, 3, 5, 0.6), torch.float64, kind)
            # A direction of norm 1 has a rho sqrt(d) times smaller, and rounding over mu stays.
            assert np.abs(cohort.rho_NQ - reference.rho_NQ).max() <= 1e-10 * max(1e-2, np.abs(reference.rho_NQ).max())


def test_pieces_of_any_size(make_tiny_model, monkeypatch, subtests):
    for piece in [3, 4, 5, 17, 1000]:
        for dtype in TOLERANCE:
            with subtests.test(piece=piece, dtype=dtype):
                monkeypatch.setattr(cohort_module, "rows_at_once", lambda network, length, piece=piece: piece)
                network = Blocks(make_tiny_model("opt"), dtype=dtype)
                reference, cohort = both(network, batches(9, lengths=(8, 20)), random_allocation(2, 3, 9), dtype)
                assert_same(reference, cohort, TOLERANCE[dtype])


def test_clients_with_unequal_numbers_of_rows(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    rows = batches(7, rows=(1, 3, 8), lengths=(5, 9))
    assert_same(*both(network, rows, random_allocation(3, 3, 7, 0.6), torch.float64), 1e-10)


def test_clients_with_so_few_positions_that_products_round_differently(make_tiny_model):
    """Below 16 positions the library multiplies by another routine; such clients are computed apart."""
    network = Blocks(make_tiny_model("opt"))
    rows = batches(8, rows=(1, 2), lengths=(3, 5))
    assert_same(*both(network, rows, random_allocation(4, 3, 8, 0.6), torch.float32), 1e-5)


def test_weights_and_batches_are_left_as_they_were(make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        with subtests.test(inactive=inactive):
            network = Blocks(make_tiny_model("opt"))
            rows = batches(4)
            before, ids = network.weights_sha256(), [row.token_ids_RL.clone() for row in rows]
            directions = Directions("gaussian", network.sizes_M)
            estimate_cohort(network, rows, random_allocation(6, 3, 4), SEEDS, directions, mu=0.3, inactive=inactive)
            assert network.weights_sha256() == before
            assert all(torch.equal(row.token_ids_RL, kept) for row, kept in zip(rows, ids, strict=True))


def test_weights_come_back_when_a_pass_fails(make_tiny_model, monkeypatch):
    network = Blocks(make_tiny_model("opt"))
    before, calls = network.weights_sha256(), []
    run_block = network.run_block

    def fails_when_perturbed(block, hidden_BLH):
        calls.append(network.weights_sha256() != before)
        if calls[-1]:
            raise RuntimeError("out of memory")
        return run_block(block, hidden_BLH)

    monkeypatch.setattr(network, "run_block", fails_when_perturbed)
    directions = Directions("gaussian", network.sizes_M)
    with pytest.raises(RuntimeError, match="out of memory"):
        estimate_cohort(network, batches(4), np.ones((3, 4), dtype=bool), SEEDS, directions, mu=MU)
    assert calls[-1]
    assert network.weights_sha256() == before


def test_blocks_run_only_the_rows_that_need_them(make_tiny_model, monkeypatch):
    """A row's cost for a direction is the number of blocks from its first active one on."""
    network = Blocks(make_tiny_model("opt", num_blocks=4))
    positions = []
    run_block = network.run_block
    monkeypatch.setattr(
        network, "run_block", lambda m, hidden: positions.append(hidden[..., 0].numel()) or run_block(m, hidden)
    )
    A_MN = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)  # first active: 2, 3, 0
    directions = Directions("rademacher", network.sizes_M)
    estimate_cohort(network, batches(3, lengths=(8,)), A_MN, [4], directions, mu=MU)
    base, perturbed = 3 * 4, 2 + 1 + 4
    assert sum(positions) == (base + perturbed) * 4 * 8


def test_noise_is_drawn_once_a_direction_and_block_whatever_the_number_of_clients(make_tiny_model, monkeypatch):
    network = Blocks(make_tiny_model("opt"))
    directions = Directions("rademacher", network.sizes_M)
    drawn = []
    add_to = directions.add_to
    monkeypatch.setattr(
        directions, "add_to", lambda weights, seed, m, scale: drawn.append((seed, m)) or add_to(weights, seed, m, scale)
    )
    estimate_cohort(network, batches(20), np.ones((3, 20), dtype=bool), SEEDS, directions, mu=MU)
    assert sorted(drawn) == sorted((seed, m) for seed in SEEDS for m in range(3))
