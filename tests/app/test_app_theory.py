"""The Theory page: the sliders' numbers are the library's, and where the bound is empty it says so."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from app.screens.theory.controls import Setting
from app.shared.scenario import Scenario
from app.shared.study import study
from tests.app.shown import shown_key
from zorba_core.study.theory import Constants, largest_lr_theorem_1, theorem_1

SCENARIO = Scenario(num_clients=12, num_epsilons=40)
DEFAULTS = {"num_clients": 12, "num_parameters": 1000, "smoothness": 1.0, "mu": 1e-5, "sigma": 1.0, "sigma_global": 0.5}


def visit(app, **query):
    wanted = {"clients": "12", "vectors": "40"} | query
    app.query_params.update(wanted)
    app.run()
    app.switch_page("screens/theory/theory.py")
    app.query_params.update(wanted)  # a change of page clears the address
    return app.run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.error]
    return "\n".join(part.value for part in parts)


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def here() -> float:
    solved = study(SCENARIO)
    return float(solved.front.bias_lambda_E[solved.default_point()])


def test_the_numbers_are_those_of_the_library(app):
    visit(app)
    assert not app.exception
    bound = theorem_1(Constants(largest_lr_theorem_1(12, 1000, 1.0), **DEFAULTS))
    shown = metrics(app)
    assert float(shown["The bound"]) == pytest.approx(bound.average_gradient(here(), 1.0, 1e8), rel=5e-3)
    assert float(shown["Bias"]) == pytest.approx(bound.bias(here()), rel=5e-3)


def test_the_printed_learning_rate_is_1_point_5_times_too_large_and_the_proven_one_is_not(app):
    visit(app)
    assert "1.5 times what D > 0 needs" in texts(app)
    app.selectbox(key="theorem").select("1-proof").run()
    assert "times what D > 0 needs" not in texts(app)


def test_where_lambda_is_too_large_for_the_rate_the_bound_says_nothing_and_names_the_way_out(app):
    front = study(SCENARIO).front
    worst = int(np.nanargmax(np.where(front.on_front_E, front.bias_lambda_E, np.nan)))
    bound = theorem_1(Constants(5 * largest_lr_theorem_1(12, 1000, 1.0), **DEFAULTS))
    assert front.bias_lambda_E[worst] > bound.largest_lambda
    visit(app, rate="5", point=str(worst))
    assert not app.exception
    assert metrics(app)["The bound"] == "∞"
    assert "The bound says nothing here" in texts(app)
    assert f"it needs Λ below {bound.largest_lambda:.3g}" in texts(app)


def test_the_terms_come_as_a_table_whose_rows_add_up():
    constants = Constants(largest_lr_theorem_1(12, 1000, 1.0), **DEFAULTS)
    setting = Setting("1", constants, gap=1.0, num_rounds=1e4, largest_lr=constants.lr)
    table = pd.read_csv(io.BytesIO(setting.terms_csv(0.5)))
    parts = table[["start", "estimate", "dissimilarity", "variance"]].sum(axis=1)
    np.testing.assert_allclose(parts, table["total"])
    assert table["rounds"].iloc[[0, -1]].tolist() == pytest.approx([1, 1e6])


def test_at_a_real_models_size_finite_differences_drown_the_rest(app):
    visit(app)
    app.button(key="model_d").click().run()
    assert app.select_slider(key=shown_key(app, "d")).value == "1e8"
    assert "Finite differences drown everything else" in texts(app)
    app.select_slider(key="mu").set_value("0").run()
    assert "Finite differences drown" not in texts(app)


def test_a_link_restores_theorem_and_constants(app):
    visit(app, theorem="2", d="5e4", noise="2e0", rounds="1e6", kappa="33")
    assert app.selectbox(key="theorem").value == "2"
    assert app.select_slider(key="d").value == "5e4"
    assert app.slider(key="kappa").value == 33
    assert "1,000,000 rounds" in "".join(metric.delta for metric in app.metric)
    assert r"\Phi" in app.latex[0].value


def test_garbage_in_the_link_leaves_the_defaults(app):
    visit(app, theorem="9", d="-4", mu="nan", rounds="inf", rate="<b>")
    assert not app.exception
    assert app.select_slider(key="d").value == "1e3"
    assert app.select_slider(key="rounds").value == "1e8"


def test_what_lambda_hides_sets_this_allocation_beside_full_activation(app):
    visit(app, part="hidden")
    assert not app.exception
    table = app.dataframe[0].value
    assert "balanced: this allocation" in table.index
    assert table.loc["full activation", "Λ"] == f"{1 / 12:.4g}"
    assert table.loc["full activation", "D"] == "12.00"
    assert table.loc["balanced: this allocation", "Λ"] == f"{here():.4g}"
