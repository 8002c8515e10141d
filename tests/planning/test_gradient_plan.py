"""Which clients' gradients exact scalars hold together."""

import numpy as np
import pytest

from zorba_core.planning import gradient_plan
from zorba_core.planning.gradient_plan import GradientPlan
from zorba_core.planning.pass_widths import Widths

_BLOCKS, _SIZE = 12, 111_840  # opt-mini
_WIDTHS = Widths(96, 960, 480)


def planned(
    directions: int, *, clients: int = 50, rows: int = 8, signs: bool = True, on_cpu: bool = True
) -> GradientPlan:
    shape_NX = np.full((clients, 2), (rows, 32))
    active_MN = np.ones((_BLOCKS, clients), bool)
    sizes_M = [_SIZE] * _BLOCKS
    options = {"num_directions": directions, "signs": signs, "on_cpu": on_cpu}
    return GradientPlan.of(sizes_M, _WIDTHS, 4, shape_NX, active_MN, **options)


def numbers(plan: GradientPlan) -> int:
    """What is held when the most is: what a piece keeps, and gradients."""
    return plan.positions * (_WIDTHS.saved * (_BLOCKS - 1) + _WIDTHS.backward) + plan.held


@pytest.mark.parametrize("directions", [1, 10, 30, 100])
def test_a_plan_that_takes_a_fortieth_longer_is_preferred_if_it_holds_less(directions, monkeypatch):
    lean = planned(directions)
    monkeypatch.setattr(gradient_plan, "_WORTH", 1.0)
    fastest = planned(directions)
    assert numbers(lean) <= numbers(fastest)
    if directions == 10:  # a share is a piece, and all pieces are alike
        assert numbers(lean) < 0.75 * numbers(fastest)
        assert {len(share) for share in lean.shares} == {5}
    if directions == 100:  # to draw them once more would take too long
        assert lean.shares == fastest.shares
        assert len(lean.shares) < 8


def test_what_takes_longer_to_draw_is_drawn_for_more_clients_at_once():
    signs, normals = planned(10, clients=20), planned(10, clients=20, signs=False)
    assert len(normals.shares) < len(signs.shares)


@pytest.mark.parametrize("most", [512, 1024])
def test_pieces_of_few_positions_are_not_made_smaller_for_memorys_sake(most, monkeypatch):
    monkeypatch.setattr(gradient_plan, "POSITIONS_CPU", most)
    few = planned(10)
    monkeypatch.setattr(gradient_plan, "_WORTH", 1.0)
    assert (few.positions, few.shares) == (planned(10).positions, planned(10).shares)


def test_elsewhere_than_on_a_cpu_the_fastest_is_taken(monkeypatch):
    plan = planned(10, on_cpu=False)
    monkeypatch.setattr(gradient_plan, "_WORTH", 1.0)
    assert plan.shares == planned(10, on_cpu=False).shares


def test_every_client_is_in_one_share_whatever_the_batches():
    generator = np.random.default_rng(0)
    for _ in range(40):
        clients = int(generator.integers(1, 30))
        shape_NX = generator.integers(1, (9, 65), (clients, 2))
        active_MN = generator.random((_BLOCKS, clients)) < 0.4
        directions, max_rows = int(generator.integers(1, 200)), [None, 3][generator.integers(2)]
        plan = GradientPlan.of(
            [_SIZE] * _BLOCKS,
            _WIDTHS,
            4,
            shape_NX,
            active_MN,
            num_directions=directions,
            signs=True,
            max_rows=max_rows,
        )
        assert sorted(n for share in plan.shares for n in share) == list(range(clients))
