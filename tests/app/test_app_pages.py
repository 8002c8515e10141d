"""What the pages do, without a browser: Streamlit's AppTest runs the script and hands over its widgets."""

from __future__ import annotations

import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from app.screens.registry import PAGES
from app.shared.scenario import Scenario
from app.shared.scenario_link import scenario_to_link
from app.shared.study import study
from app.shared.tradeoff import AXES
from tests.app.shown import shown_key
from zorba_core.allocation import MEASURES
from zorba_core.plots import front_order

TIMEOUT_S = 60


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.subheader]
    return "\n".join(part.value for part in parts)


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def button(app, label: str):
    return next(one for one in app.button if one.label == label)


def click_on_the_plot(app, point: int) -> None:
    """On a point of the balanced solver, which is the first of the solvers."""
    app.session_state["front_plot"] = {"selection": {"points": [{"customdata": {"0": point, "1": 0}}]}}


def pick_in_the_table(app, row: int) -> None:
    app.session_state[shown_key(app, "front_table")] = {"selection": {"rows": [row], "columns": [], "cells": []}}


def test_the_first_page_shows_the_knee_of_the_papers_fleet(app):
    app.run()
    assert not app.exception
    result = study(Scenario())
    shown = metrics(app)
    knee = result.front.knee
    assert shown["Λ, convergence bias"] == f"{result.front.bias_lambda_E[knee]:.4g}"
    assert shown["VRAM by the paper's model"] == f"{result.front.vram_ratio_E[knee]:.1%}"
    assert shown["Activated blocks"] == str(result.front.total_blocks_E[knee])
    assert "Selected: the knee" in texts(app)


def test_a_saving_that_whole_blocks_leave_free_anyway_costs_nothing(app):
    # Each holds all 12 blocks of OPT-125M, about 1.9 GiB, and has much left.
    scenario = Scenario(fleet_kind="table", table=tuple((f"c{n}", 2.4) for n in range(6)), num_epsilons=60)
    everything = study(scenario).everything_ratio
    assert 0.7 < everything < 0.9
    app.query_params |= scenario_to_link(scenario)
    app.run()
    lines = [line for line in texts(app).splitlines() if line.startswith("- Saving")]
    assert lines[0] == "- Saving **10%** costs nothing: that much stays free anyway."
    assert "× Λ**" in lines[2]


def test_a_click_selects_a_point_and_a_row_of_the_table_another(app):
    front = study(Scenario()).front
    rows = front_order(front)
    app.run()
    click_on_the_plot(app, int(rows[20]))
    app.run()
    assert metrics(app)["Activated blocks"] == str(front.total_blocks_E[rows[20]])
    assert app.session_state[shown_key(app, "front_table")]["selection"]["rows"] == [20]  # the table follows
    pick_in_the_table(app, 60)
    app.run()
    assert metrics(app)["Activated blocks"] == str(front.total_blocks_E[rows[60]])
    assert app.query_params["point"] == str(rows[60])
    button(app, "Back to the recommended point").click().run()
    assert "Selected: the knee" in texts(app)
    assert "point" not in app.query_params


def test_a_new_scenario_starts_at_its_knee(app):
    app.run()
    click_on_the_plot(app, 5)
    app.run()
    assert "Selected: point 5" in texts(app)
    app.number_input(key="clients").set_value(20).run()
    assert "Selected: the knee" in texts(app)
    assert "**20 clients**" in texts(app)


def test_a_link_restores_scenario_and_point(app):
    link = {"model": "opt-1.3b", "solver": "two-level", "tau": "client", "clients": "9", "vectors": "40", "point": "3"}
    for key, value in link.items():
        app.query_params[key] = value
    app.run()
    scenario = Scenario(model="opt-1.3b", solver="two-level", tau_mode="client", num_clients=9, num_epsilons=40)
    assert app.session_state["scenario"] == scenario
    assert metrics(app)["Activated blocks"] == str(study(scenario).front.total_blocks_E[3])


def test_the_preference_moves_the_recommended_point_and_lands_in_the_link(app):
    app.run()
    shown = []
    for weight in (0, 50, 100):
        app.slider(key="weight").set_value(weight).run()
        shown.append(int(metrics(app)["Activated blocks"]))
    front = study(Scenario()).front
    assert shown == sorted(set(shown))
    assert shown[0] == front.total_blocks_E[front.on_front_E].min()
    assert shown[2] == front.total_blocks_E[front.on_front_E].max()
    assert app.query_params["weight"] == "100"


@pytest.mark.parametrize("measure", AXES[1:])
@pytest.mark.parametrize("cost", ["ratio", "gib", "blocks"])
def test_every_pair_of_axes_has_a_front_and_a_price(app, measure, cost):
    app.query_params["y"], app.query_params["x"] = measure, cost
    app.run()
    assert not app.exception
    assert not app.warning
    assert "compared with using all there is" in texts(app)
    assert len(app.dataframe[0].value) > 5
    assert ("nothing to trade" in texts(app)) == (not MEASURES[measure].traded)


def test_other_methods_join_the_picture_and_their_points_take_over(app):
    app.query_params["clients"], app.query_params["vectors"] = "12", "40"
    app.query_params["show"] = "bound,exact,two-level"
    app.run()
    assert not app.exception
    assert app.query_params["show"] == "bound,two-level,exact"
    app.selectbox(key="solver").select("exact").run()
    assert app.session_state["scenario"].solver == "exact"
    assert "points of this front are proven" in texts(app)
    assert len(app.dataframe[0].value) <= 16


def test_a_hand_edited_allocation_goes_on_until_another_point_is_chosen(app):
    def script():
        import numpy as np
        import streamlit as st

        from app.shared import selection, state
        from app.shared.scenario import Scenario
        from zorba_core.allocation import Allocation

        st.session_state.setdefault("scenario", Scenario(num_clients=12, num_epsilons=30))
        if st.button("edit"):
            selection.set_edited(Allocation(np.ones((12, 12), bool)))
        if st.button("other"):
            state.update(seed=1)
        allocation, where_from = selection.current_allocation()
        st.markdown(f"{allocation.total_blocks} {where_from}")

    page = AppTest.from_function(script, default_timeout=TIMEOUT_S).run()
    expected = study(Scenario(num_clients=12, num_epsilons=30))
    assert page.markdown[0].value.startswith(f"{expected.front.total_blocks_E[expected.front.knee]} the knee")
    page.button[0].click().run()
    assert page.markdown[0].value == "144 edited by hand"
    page.button[1].click().run()
    assert "the knee" in page.markdown[0].value


def test_clients_that_are_too_small_are_named_and_can_be_left_out(app):
    app.query_params["fleet"], app.query_params["small"], app.query_params["clients"] = "two-kinds", "0.5", "20"
    app.run()
    assert "14 of 20 clients cannot hold" in texts(app)
    assert set(app.dataframe[0].value["client"]) <= {f"client-{n}" for n in range(20)}
    assert not app.metric
    app.session_state["scenario"] = app.session_state["scenario"].replace(leave_out_small=True)
    app.run()
    assert not app.warning
    assert "14 clients are too small for one block by the paper's model and left out" in texts(app)
    assert metrics(app)["Effective clients"]


def test_a_bug_becomes_one_sentence_and_never_a_traceback(app, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("app.shared.components.numbers", broken)
    app.run()
    assert not app.exception
    assert "Something went wrong on our side" in texts(app)
    assert "secret" not in texts(app)
    assert "secret detail" in caplog.text


def test_the_dashboard_starts_without_torch(root):
    code = (
        "import sys; from streamlit.testing.v1 import AppTest; "
        "app = AppTest.from_file('app/main.py', default_timeout=60).switch_page('screens/tradeoff/tradeoff.py').run(); "
        "print(bool(app.metric), {'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == "True set()\n"


def test_a_page_is_one_folder_and_one_registration(root):
    assert [page.title for page in PAGES.values()] == [
        "Fleet", "Trade-off", "Allocation", "Toy", "Theory", "Train", "Runs", "Paper",
    ]  # fmt: skip
    assert all((root / "app" / page.path).is_file() for page in PAGES.values())
    assert [page.name for page in PAGES.values() if page.default] == ["tradeoff"]
