"""The Runs page and its address: what a link restores, and what it says when it cannot."""

from __future__ import annotations

import shutil

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.shown import TRADE_OFF, shown_key
from tests.app.written_runs import pick, picked, see, texts, three_seeds, write_run

pytestmark = pytest.mark.usefixtures("no_experiments")
TIMEOUT_S = 60


def opened(app):
    """The page as somebody sees it who opens a copy of the address."""
    fresh = AppTest.from_file(app._script_path, default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
    for key, value in app.query_params.items():
        fresh.query_params[key] = value
    return see(fresh)


def names_in(app) -> list[str]:
    return list(app.dataframe[0].value["run"])


def test_a_link_restores_thirty_picked_runs(app, runs):
    for seed in range(31):
        write_run(runs, [0.5, 0.6], seed=seed)
    see(app)
    pick(app, *range(30))
    assert "link_off" not in texts(app)
    fresh = opened(app)
    assert picked(fresh) == names_in(app)[:30]


def test_a_link_restores_that_nothing_is_picked(app, runs):
    three_seeds(runs)
    see(app)
    pick(app)
    assert picked(opened(app)) == []


def test_a_deleted_run_is_named_and_no_other_is_drawn_instead(app, runs):
    three_seeds(runs)
    see(app)
    pick(app, 1, 4)
    first, second = picked(app)
    shutil.rmtree(runs / first)
    app.run()
    assert f"This picked run is not here any more: {first}." in texts(app).replace("\\", "")
    assert picked(app) == [second]
    shutil.rmtree(runs / second)
    for page in (app.run(), opened(app)):
        assert picked(page) == []
        assert f"These picked runs are not here any more: {first}, {second}." in texts(page).replace("\\", "")
    app.button(key="forget_gone").click().run()
    assert "not here any more" not in texts(app)
    assert picked(app) == []


def test_a_link_from_another_page_counts_more_than_what_was_picked_before(app, runs):
    three_seeds(runs)
    see(app)
    pick(app, 1, 4)
    wanted = names_in(app)[3]
    app.switch_page("screens/paper/paper.py").run()
    app.query_params.clear()
    app.query_params["runs"] = wanted  # as "Open in Runs" and the ledger's evidence do
    app.query_params["cost"] = "bytes"
    see(app)
    assert picked(app) == [wanted]
    assert app.selectbox(key=shown_key(app, "cost")).value == "bytes"
    app.query_params.clear()
    app.switch_page("screens/paper/paper.py").run()
    app.query_params.clear()
    see(app)  # by the menu: as it was
    assert picked(app) == [wanted]
