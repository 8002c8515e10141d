"""The Toy page: claims, classes and the counter-example."""

from __future__ import annotations

from tests.app.shown import shown_key
from zorba_core.study.toy.observations import exact_v, facts, lettered_classes

FACTS = facts()


def visit(app, **query):
    app.query_params["clients"], app.query_params["vectors"] = "6", "20"
    app.run()
    app.switch_page("screens/toy/toy.py")
    for key, value in query.items():
        app.query_params[key] = value
    return app.run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.error, *app.latex]
    return "\n".join(part.value for part in parts)


def test_every_claim_is_one_click_away_with_its_verdict_and_numbers(app):
    visit(app)
    assert "265" in texts(app)
    assert "17 classes" in texts(app)
    for fact in FACTS:
        app.segmented_control(key="claim").set_value(fact.key).run()
        assert not app.exception
        assert f"**{fact.title}: {fact.verdict}.**" in texts(app)
        assert fact.finding in texts(app)
        assert app.query_params["claim"] == fact.key


def test_a_click_on_a_matrix_shows_its_numbers_and_the_list_another(app):
    visit(app)
    app.session_state["toy_map"] = {"selection": {"points": [{"customdata": {"0": "k"}}]}}
    app.run()
    assert app.selectbox(key=shown_key(app, "class")).value == "k"
    assert str(exact_v(lettered_classes()["k"].representative)) in texts(app)
    assert r"\tfrac{49}{36}" in texts(app)
    app.selectbox(key=shown_key(app, "class")).select("q").run()
    assert r"\tfrac{1}{3}" in texts(app)


def test_the_link_names_claim_and_class(app):
    visit(app, claim="lemma-5", **{"class": "m"})
    assert "orders 3 of the 36" in texts(app)
    assert app.selectbox(key="class").value == "m"


def test_garbage_in_the_link_shows_all_classes(app):
    visit(app, claim="<b>", **{"class": "zz"})
    assert not app.exception
    assert "Choose a claim above" in texts(app)


def test_theorem_3_gets_its_smallest_counter_example(app):
    visit(app, claim="theorem-3")
    assert "2/3" in texts(app)
    assert "33/50" in texts(app)
    assert "V rises from 1/3 to 2/5" in texts(app)


def test_the_table_holds_all_classes_with_exact_fractions(app):
    visit(app)
    table = app.dataframe[-1].value
    assert table["class"].tolist() == list(lettered_classes())
    assert table["matrices"].sum() == 265
    assert table.set_index("class").loc["d", "Λ"] == "11/9"
