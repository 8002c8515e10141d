"""A solver that somebody else registered is offered on the pages like ours, and links name them."""

from __future__ import annotations

import pytest

from app.shared import components
from app.shared.command import as_command
from app.shared.scenario import Scenario
from tests.allocation.test_solver_registry import dice  # noqa: F401

SMALL = {"clients": "12", "vectors": "20"}


@pytest.fixture
def drawn(monkeypatch):
    """The trade-off plots, as they are drawn."""
    figures = []
    monkeypatch.setattr(components, "figure", lambda figure, **arguments: figures.append(figure))
    return figures


@pytest.fixture
def app(app, dice):  # noqa: F811
    for key, value in SMALL.items():
        app.query_params[key] = value
    return app.run()


def test_it_can_be_chosen_and_is_drawn_and_named(app, drawn, dice):  # noqa: F811
    assert "Dice" in app.selectbox(key="solver").options
    assert dice.help in app.selectbox(key="solver").help
    app.selectbox(key="solver").select("dice").run()
    assert not app.exception
    assert app.session_state["scenario"].solver == "dice"
    assert app.query_params["solver"] in ("dice", ["dice"])
    assert any("Dice" in (trace.name or "") for trace in drawn[-1].data)
    app.selectbox(key="tau").select("total").run()
    assert not app.exception


def test_its_front_stands_beside_that_of_the_chosen_solver(app, drawn):
    app.pills(key="show").set_value(["dice"]).run()
    assert not app.exception
    assert {"Balanced", "Dice"} <= {(trace.name or "").split(",")[0].removesuffix(" front") for trace in drawn[-1].data}


def test_it_is_asked_what_it_does_with_as_many_blocks(app):
    app.switch_page("screens/allocation/allocation.py")
    for key, value in (SMALL | {"view": "solvers", "only_differences": "false"}).items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    assert "Dice" in app.dataframe[0].value.columns


def test_the_command_of_a_page_names_it(dice):  # noqa: F811
    scenario = Scenario(solver="dice", tau_mode="total", num_clients=9, num_epsilons=5, seed=3)
    assert "--solver dice --by total" in as_command(scenario)
