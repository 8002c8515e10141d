"""Kinds of cards on the Allocation page: who belongs to which, and what a change of a kind does to the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from app.screens.allocation.kinds import MOST_KINDS, kinds_of, switched
from zorba_core.plots.kinds import kinds_figure


def test_cards_of_one_size_are_a_kind_the_largest_first():
    kinds = kinds_of(np.array([8.0, 24.0, 8.0, 8.001]), np.array([2, 9, 2, 2]))
    assert [kind.clients.tolist() for kind in kinds] == [[1], [0, 2, 3]]
    assert kinds[0].label == "24 GiB, holds 9 blocks: 1 client"
    assert kinds[1].label == "8 GiB, holds 2 blocks: 3 clients"


def test_where_every_card_differs_those_that_hold_as_many_blocks_are_a_kind():
    capacity_N, most_N = np.linspace(4, 30, 3 * MOST_KINDS), np.repeat(np.arange(3), MOST_KINDS)
    kinds = kinds_of(capacity_N, most_N)
    assert [kind.label for kind in kinds] == [
        f"holds {n} block{'' if n == 1 else 's'}: {MOST_KINDS} clients" for n in (2, 1, 0)
    ]
    assert sorted(np.concatenate([kind.clients for kind in kinds])) == list(range(len(capacity_N)))


def test_a_full_card_gets_no_further_block_and_clearing_needs_no_room():
    A_MN = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], bool)
    after, without_room = switched(A_MN, np.array([0, 1]), [1, 2], True, np.array([1, 2, 3]))
    assert after.astype(int).tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 0]]
    assert without_room == 2
    assert not switched(after, np.array([0, 1, 2]), [0, 1, 2], False, np.array([0, 0, 0]))[0].any()
    assert A_MN.sum() == 2  # as it was


def test_the_picture_names_kinds_as_they_are():
    figure = kinds_figure(np.array([[0.25], [1.0]]), ["<b>8 GiB"])
    assert figure.layout.yaxis.ticktext == ("&lt;b>8 GiB",)
    assert figure.data[0].z.tolist() == [[0.25, 1.0]]


@pytest.fixture
def app(app):
    for key, value in {
        "clients": "170",
        "vectors": "12",
        "fleet": "steam",
        "model": "opt-1.3b",
        "leave_out": "true",
    }.items():
        app.query_params[key] = value
    return app


def test_a_kind_is_changed_in_one_step_and_undone_in_one(app):
    app.run()
    app.switch_page("screens/allocation/allocation.py").run()
    assert not app.exception
    if not [box for box in app.selectbox if box.key == "kind_to_change"]:
        pytest.fail("\n".join(element.value for element in [*app.warning, *app.markdown][:5]))
    stored = app.session_state["allocation_edits"][1]
    app.multiselect(key="blocks_to_change").set_value([0, 1]).run()
    app.button(key="kind_clear").click().run()
    edits = app.session_state["allocation_edits"][1]
    assert len(edits.done) == len(stored.done) + 1
    assert edits.num_changed >= 1
    assert any("cleared on" in caption.value for caption in app.caption)
    app.button(key="edit_undo").click().run()
    assert not app.session_state["allocation_edits"][1].is_changed
