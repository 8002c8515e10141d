"""The pages Allocation and Findings."""

from __future__ import annotations

import re

import pytest

from tests.app.conftest import texts
from zorba_core.files import read_json


def test_a_cell_changed_by_a_link_changes_the_numbers(app):
    app.query_params["clients"] = "10"
    app.switch_page("views/allocation.py").run()
    assert "0 cells changed" in texts(app)
    before = [metric.value for metric in app.metric]
    app.query_params["flips"] = "0.0"
    app.session_state["scenario_page"] = "elsewhere"  # as on arrival by a link
    app.run()
    assert "1 cell changed" in texts(app)
    assert [metric.value for metric in app.metric] != before
    next(button for button in app.button if button.label == "Start again").click().run()
    assert [metric.value for metric in app.metric] == before
    next(button for button in app.button if button.label == "Undo").click().run()
    assert "1 cell changed" in texts(app)


@pytest.mark.parametrize(
    ("flips", "says"),
    [("_".join(f"{n}.0" for n in range(12)), "has"), ("99.99_a.b", "0 cells changed")],
)
def test_a_matrix_that_cannot_run_says_why(app, flips, says):
    app.query_params["clients"], app.query_params["flips"] = "12", flips
    assert says in texts(app.switch_page("views/allocation.py").run())


def test_a_fleet_without_an_allocation_is_explained(app):
    app.query_params["shape"], app.query_params["rows"] = "list", "0.1x5"
    assert "Every client is too small" in texts(app.switch_page("views/allocation.py").run())


def test_five_sentences_stand_above_all_claims(app, root):
    said = texts(app.switch_page("views/findings.py").run())
    claims = read_json(root / "artifacts/claims.json")
    assert f"{len(claims)} of {len(claims)} claims" in said
    assert said.count("\n- ") + said.startswith("- ") == 5


@pytest.mark.parametrize(("page", "starts"), [("findings", "- "), ("explore", "That is open")])
def test_numbers_in_sentences_are_those_of_the_claims(app, root, page, starts):
    said = texts(app.switch_page(f"views/{page}.py").run())
    lines = [line for line in said.splitlines() if line.startswith(starts)]
    claims = read_json(root / "artifacts/claims.json")
    known = numbers(" ".join(f"{claim['measured']} {claim['note']}" for claim in claims))
    assert lines
    for line in lines:
        assert numbers(line) - {"95"} <= known, line  # a 95% interval


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d+|\d\d+", text.replace(",", "")))


def test_claims_are_filtered_by_verdict_and_words(app, root):
    app.query_params["verdict"], app.query_params["find"] = "contradicted", "theorem"
    texts(app.switch_page("views/findings.py").run())
    shown = app.dataframe[0].value
    assert set(shown["verdict"]) == {"contradicted"}
    assert "Theorem 3" in set(shown["where"])
