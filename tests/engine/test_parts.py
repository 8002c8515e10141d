"""An estimator and a kind of direction that a script registers are used by name like our own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.engine.all_rounds import run_all
from tests.plugin_example.zorba_example import CENTRAL
from zorba_core.allocation import Allocation
from zorba_core.engine import noise
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.parts import DIRECTIONS, ESTIMATORS, DirectionKind
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

FULL = Allocation(np.ones((3, 2), dtype=bool))
SETTINGS = Settings(rounds=2, directions=2, num_seeds=16, batch_size=4, seq_len=8, lr=1e-3)


@pytest.fixture(autouse=True)
def registries_as_before(monkeypatch):
    for registry in (DIRECTIONS, ESTIMATORS):
        monkeypatch.setattr(registry, "_parts", dict(registry))


@pytest.fixture
def weights_of(make_tiny_model):
    def rows(count: int, seed: int) -> Rows:
        generator = torch.Generator().manual_seed(seed)
        label_R = torch.randint(0, 2, (count,), generator=generator)
        token_ids_RL = torch.randint(30, 60, (count, 8), generator=generator)
        return Rows.of_words(token_ids_RL, torch.full((count,), 7), label_R, [70, 71])

    def train(**changes) -> str:
        network = Blocks(make_tiny_model("opt"))
        held = FederatedRows(rows(20, 1), [np.arange(10), np.arange(10, 20)], rows(8, 2))
        run_all(network, FULL, held, SETTINGS.replace(**changes))
        return network.weights_sha256()

    return train


def test_a_registered_estimator_trains_by_its_name(weights_of):
    with pytest.raises(InvalidInputError, match="estimator is 'central'; choose one of cohort, reference, exact"):
        Settings(estimator="central")
    ESTIMATORS.register(CENTRAL)
    assert weights_of(estimator="central") == weights_of(estimator="central")
    assert weights_of(estimator="central") not in (weights_of(estimator="reference"), weights_of(estimator="exact"))


def uniform(seed, block, start, stop, device):
    """Whole multiples of the step in -2..2, from the signs of two blocks' worth of seeds."""
    return noise.signs(seed, block, start, stop, device) + noise.signs(seed + 2**40, block, start, stop, device)


def test_a_registered_direction_is_drawn_and_scaled_by_its_name(weights_of):
    with pytest.raises(InvalidInputError, match="direction is 'ternary'; choose one of gaussian, sphere"):
        Settings(direction="ternary")
    DIRECTIONS.register(DirectionKind("ternary", "Ternary", "-2, 0 or 2", uniform))
    DIRECTIONS.register(DirectionKind("short", "Short", "of norm 3", uniform, norm=lambda d: 3.0))
    drawn = Directions("ternary", [500]).block(7, 0)
    assert set(drawn.tolist()) == {-2.0, 0.0, 2.0}
    assert Directions("short", [300, 200], dtype=torch.float64).block(7, 1).norm() < 3
    whole = torch.cat([Directions("short", [300, 200], dtype=torch.float64).block(7, m) for m in range(2)])
    assert float(whole.norm()) == pytest.approx(3.0, rel=1e-9)
    assert weights_of(direction="ternary") == weights_of(direction="ternary") != weights_of()


def test_every_part_says_what_to_show_of_it_in_one_line(subtests):
    for registry in [DIRECTIONS, ESTIMATORS]:
        with subtests.test(registry=registry):
            for part in registry.values():
                assert part.title
                assert part.help
                assert "\n" not in part.help


def test_code_that_cannot_be_imported_is_one_line_that_names_it(weights_of, subtests):
    for code in ["nowhere:run", "zorba_core.engine.noise:louder", "not a name"]:
        with subtests.test(code=code):
            ESTIMATORS.register(dataclasses.replace(CENTRAL, run=code))
            with pytest.raises(InvalidInputError, match=f"^{code} cannot be imported: .") as caught:
                weights_of(estimator="central")
            assert "\n" not in str(caught.value)
            ESTIMATORS.unregister("central")
