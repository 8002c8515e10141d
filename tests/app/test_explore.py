"""The page Explore: shape the VRAM, see the curve and the matrix."""

from __future__ import annotations

import pytest

from app.scenario import SHAPES
from tests.app.conftest import texts

SMI = b"name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nTesla T4, 15360 MiB\nTesla T4, 15360 MiB\n"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_a_curve_and_a_sentence(app, shape):
    app.query_params["shape"] = shape
    said = texts(app.run())
    assert "GiB together" in said
    assert "no allocation gets below" in said
    assert "clients train each block" in said


def test_the_fleet_of_the_paper_comes_with_its_three_scenarios(app):
    assert "SC1 to SC3" in texts(app.run())
    assert "SC1 to SC3" not in texts(app.button_group(key="shape").set_value("bell").run())
    app.button_group(key="shape").set_value("uniform").run()
    assert "SC1 to SC3" not in texts(app.number_input(key="length").set_value(256).run())


def test_a_choice_is_written_into_the_address(app):
    app.run().number_input(key="clients").set_value(20).run()
    texts(app)
    assert app.query_params["clients"] == "20"


def test_the_slider_moves_the_point_and_keeps_it_when_the_shape_changes(app):
    app.run()
    slider = app.select_slider(key="spend")
    slider.set_value(slider.options[60]).run()
    spent = float(app.query_params["spend"])
    assert f"{spent:.1f} GiB" in texts(app)
    app.button_group(key="shape").set_value("small").run()
    assert f"{spent:.1f} GiB" in texts(app) or abs(float(app.select_slider(key="spend").value) - spent) < 1


def test_a_number_out_of_range_is_named_and_not_used(app):
    app.run().number_input(key="clients").set_value(5000).run()
    assert "Clients is 5000; it must be at most 2000. The former value is used." in texts(app)
    assert "50 clients" in texts(app)


def test_a_range_beyond_the_slider_is_cut_to_it(app):
    app.query_params["span"] = "0.2,300"
    texts(app.run())
    assert app.slider(key="span").value == (0.2, 3.0)


def test_another_batch_moves_a_range_that_nobody_has_set(app):
    app.run()
    before = app.slider(key="span").value
    app.number_input(key="batch").set_value(4).run()
    texts(app)
    assert app.slider(key="span").value < before
    assert "span" not in app.query_params


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"shape": "list", "rows": "0.1x5"}, "Every client is too small"),
        ({"shape": "list", "rows": "0.6x3"}, "9 fewer than the model has"),
        ({"shape": "uniform", "span": "0,0.2"}, "Every client is too small"),
    ],
)
def test_a_fleet_that_cannot_train_is_explained_and_not_an_error(app, words, says):
    for name, word in words.items():
        app.query_params[name] = word
    assert says in texts(app.run())


def test_clients_that_are_too_small_are_left_out_and_one_press_keeps_them(app):
    app.query_params["shape"], app.query_params["rows"] = "list", "0.55x10,1.5x20"
    assert "10 clients are too small" in texts(app.run())
    button = next(button for button in app.button if button.label.startswith("Include them"))
    assert "too small" not in texts(button.click().run())


def test_a_kept_fleet_stays_beside_the_next_and_is_in_the_address(app):
    app.run()
    next(button for button in app.button if button.label == "Keep for comparison").click().run()
    app.button_group(key="shape").set_value("two").run()
    said = texts(app)
    assert "Fleets kept for comparison" in said
    assert app.query_params["compared"] == "0|Uniform 0.59–1.91|"
    next(button for button in app.button if button.label.startswith("Forget")).click().run()
    assert "compared" not in app.query_params


def test_a_click_that_comes_before_the_page_has_drawn_a_choice_loses_nothing(app):
    app.run().button_group(key="shape").set_value("three")
    app.number_input(key="clients").set_value(20)
    slider = app.select_slider(key="spend")
    slider.set_value(slider.options[60])
    next(button for button in app.button if button.label == "Keep for comparison").click().run()
    texts(app)
    assert app.button_group(key="shape").value == "three"
    item = app.query_params["compared"]
    assert "Three kinds" in item
    assert "clients=20" in item
    assert float(app.query_params["spend"]) == pytest.approx(float(slider.options[60]), abs=1)


def test_a_choice_just_before_another_page_is_opened_goes_along(app):
    app.query_params["flips"] = "0.0"
    slider = app.run().select_slider(key="spend")
    assert "1 cell changed by hand" in texts(app)
    slider.set_value(slider.options[60])
    app.query_params.clear()  # as a page's link does
    app.switch_page("views/allocation.py").run()
    assert "0 cells changed" in texts(app)  # of another matrix
    assert float(app.query_params["spend"]) == pytest.approx(float(slider.options[60]), abs=1)


def test_no_more_than_four_fleets_are_kept(app):
    for slot in range(4):
        app.query_params["compared"] = [f"{slot}|f{slot}|seed={slot}" for slot in range(4)]
    app.run()
    assert next(button for button in app.button if button.label == "Keep for comparison").disabled
    assert len(app.dataframe[0].value) == 5


def test_another_model_starts_with_its_own_sizes(app):
    app.query_params["span"] = "0.7,1.2"
    app.run().selectbox(key="model").set_value("opt-1.3b").run()
    texts(app)
    assert "span" not in app.query_params
    assert app.slider(key="span").value == (5.63, 23.78)


def test_an_uploaded_file_becomes_the_rows_of_the_table(app):
    app.query_params["shape"], app.query_params["model"] = "list", "opt-1.3b"
    app.run().file_uploader(key="table_file").upload("smi.csv", SMI, "text/csv").run()
    texts(app)
    assert app.query_params["rows"] == "15x2,22.494x1"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\x89PNG\r\n", b"a;b\n1;2\n", b"client,vram_gib\na,eight\n", b"PK\x03\x04\x00"),
        *(b"GiB,clients\n1.5,20000\n", b"GiB\n100000000\n"),  # a fleet, but more than a page can draw
    ],
)
def test_a_file_that_is_no_fleet_is_refused_in_one_sentence(app, content):
    app.query_params["shape"] = "list"
    app.run().file_uploader(key="table_file").upload("x.csv", content, "text/csv").run()
    assert "ploaded table" in texts(app)
    assert "50 clients" in texts(app)


def test_new_draw_changes_the_clients_and_as_in_the_paper_takes_it_back(app):
    app.run()
    before = texts(app)
    next(button for button in app.button if button.label == "New draw").click().run()
    assert texts(app) != before
    next(button for button in app.button if button.label == "As in the paper").click().run()
    assert texts(app) == before


def test_every_method_can_be_drawn_and_its_matrix_shown(app):
    app.query_params["methods"], app.query_params["clients"] = "bound,paper,two-level,exact", "12"
    app.run()
    paper = texts(app)
    app.button_group(key="follow").set_value("two-level").run()
    assert texts(app) != paper
