"""What was decided on one page and counts on the next: each page's own link restores it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.screens.allocation.edits import MAX_LINKED, Edits
from app.shared.scenario import Scenario
from app.shared.study import study
from tests.app.shown import TRADE_OFF

TIMEOUT_S = 60
GOING_ON = ("allocation", "theory", "train")
EDITED = ("theory", "train")


def at_page(app, name: str):
    """Go there by the menu, which takes nothing along in the address."""
    app.query_params.clear()
    return app.switch_page(f"screens/{name}/{name}.py").run()


def opened(app, name: str):
    """The page as somebody sees it who opens a copy of the address."""
    fresh = AppTest.from_file(app._script_path, default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
    for key, value in app.query_params.items():
        fresh.query_params[key] = value
    return fresh.switch_page(f"screens/{name}/{name}.py").run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.subheader]
    return "\n".join(part.value for part in parts)


def shown(app) -> str:
    """Words and numbers of the page, without the estimate, which follows what else the machine is doing."""
    lasting = re.sub(r"\*\*About .*?first accuracy after .*?\. ", "", texts(app))
    return lasting + str([(metric.label, metric.value, metric.delta) for metric in app.metric])


def edit(app, cells) -> None:
    """As the matrix reports clicks."""
    operations = [{"id": n + 1, "kind": "toggle", "block": m, "client": k} for n, (m, k) in enumerate(cells)]
    identity, edits = app.session_state["allocation_edits"]
    app.session_state["allocation_edits"] = (identity, edits.apply(operations))
    app.run()


def knee_matrix():
    front = study(Scenario()).front
    return front.solution(front.knee).allocation.A_MN


def addable(count: int) -> list[tuple[int, int]]:
    """Cells that the knee leaves empty and whose client has room for one more block."""
    A_MN = knee_matrix()
    room_N = study(Scenario()).everything.problem.budget_N - A_MN.sum(axis=0)
    cells = [(int(m), int(n)) for n in np.flatnonzero(room_N > 0) for m in np.flatnonzero(~A_MN[:, n])[: room_N[n]]]
    assert len(cells) >= count
    return cells[:count]


@pytest.mark.parametrize("name", GOING_ON)
def test_the_weight_on_convergence_is_in_the_link_of_the_pages_that_follow_it(app, name):
    app.run()
    knee = shown(at_page(app, name))
    app.query_params.clear()
    app.switch_page("screens/tradeoff/tradeoff.py").run()
    app.slider(key="weight").set_value(90).run()
    at_page(app, name)
    assert app.query_params["weight"] == "90"
    assert shown(app) != knee
    fresh = opened(app, name)
    assert shown(fresh) == shown(app)
    assert shown(at_page(fresh, "tradeoff")) == shown(at_page(app, "tradeoff"))


@pytest.mark.parametrize("name", GOING_ON)
def test_the_axes_that_the_recommended_point_follows_are_in_the_link_too(app, name):
    app.run()
    app.slider(key="weight").set_value(20).run()
    app.selectbox(key="y").select("effective_clients").run()
    at_page(app, name)
    assert app.query_params["y"] == "effective_clients"
    assert shown(opened(app, name)) == shown(app)


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize("count", [2, 60])
def test_a_matrix_changed_by_hand_is_in_the_link_of_the_pages_that_go_on_from_it(app, name, count):
    at_page(app, "allocation")
    edit(app, addable(count))
    assert app.query_params["flips"]
    at_page(app, name)
    assert "edited by hand" in texts(app)
    fresh = opened(app, name)
    assert "edited by hand" in texts(fresh)
    assert shown(fresh) == shown(app)
    assert f"{count} cells changed." in texts(at_page(fresh, "allocation"))


@pytest.mark.parametrize("view", ["solvers", "steps", "proof"])
def test_every_view_of_the_allocation_keeps_the_changed_cells_in_its_link(app, view):
    at_page(app, "allocation")
    edit(app, addable(2))
    app.segmented_control(key="view").set_value(view).run()
    at_page(app, "tradeoff")
    at_page(app, "allocation")
    assert app.query_params["view"] == view
    assert app.query_params["flips"]


def test_changes_too_many_for_a_link_are_said_before_and_after_it_is_opened(app, monkeypatch):
    monkeypatch.setattr("app.screens.allocation.edits.MAX_LINKED", 40)
    at_page(app, "allocation")
    edit(app, addable(60))
    for name in ("allocation", *EDITED):
        at_page(app, name)
        assert "60 changed cells are too many for a link" in texts(app), name
        fresh = opened(app, name)
        assert "The link does not hold the 60 cells that were changed by hand" in texts(fresh), name
        assert "edited by hand" not in texts(fresh)
        assert "does not hold the 60 cells" in texts(opened(fresh, name)), "a reload says so, too"


def test_train_says_that_a_matrix_that_cannot_run_is_not_the_one_it_trains(app):
    at_page(app, "allocation")
    edit(app, [(int(m), 0) for m in np.flatnonzero(knee_matrix()[:, 0])])  # client 0 would train nothing
    at_page(app, "train")
    assert "The matrix changed by hand cannot run: the point's own is used here." in texts(app)
    assert app.query_params["flips"]
    assert "cannot run" in texts(opened(app, "train"))


def test_most_changes_of_a_fleet_of_fifty_fit_into_a_link():
    rng = np.random.default_rng(0)
    base_MN = rng.random((24, 50)) < 0.5
    for share in (0.01, 0.1, 0.5):
        edits = Edits(base_MN).become(base_MN ^ (rng.random(base_MN.shape) < share))
        text = edits.as_link()
        assert len(text) <= MAX_LINKED
        np.testing.assert_array_equal(Edits(base_MN).flip(text).A_MN, edits.A_MN)


@pytest.mark.parametrize("garbage", ["~m", "~m%%%", "~mAAAA", "~meJwDAAAAAAE", "~nx", "~n" + "9" * 5000])
def test_a_garbled_list_of_changes_counts_as_one_that_the_link_does_not_hold(garbage):
    edits = Edits(np.eye(3, dtype=bool)).flip(garbage)
    assert not edits.is_changed
    assert edits.unheld == 1
