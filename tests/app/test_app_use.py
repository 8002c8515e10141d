"""The Runs page with a finished run: trying its model."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.shown import TRADE_OFF
from tests.app.written_runs import see, texts, write_run
from zorba_core.allocation import Allocation
from zorba_core.engine.settings import Settings
from zorba_core.plots import answer_figure, clients_figure, confusion_figure
from zorba_core.runs.session import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.fixture
def app(root, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(whole.path.parent))
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "none"))
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60).switch_page(TRADE_OFF)


def try_text(app, whole, text):
    app.text_input(key=f"try_text_{whole.name}").set_value(text)
    next(button for button in app.button if button.label == "Predict").click().run()


def test_a_typed_text_is_answered_before_and_after(app, whole):
    see(app)
    try_text(app, whole, "the acting was fine")
    assert not app.exception
    answer = whole.predict("the acting was fine", base=True)
    (said,) = [part.value for part in app.markdown if "fine-tuning." in part.value or "before and after" in part.value]
    assert f"**{answer['prediction'][0]}**" in said
    if answer["prediction"][0] != answer["base_prediction"][0]:
        assert f"**{answer['base_prediction'][0]}** before" in said


def test_without_a_text_the_page_asks_for_one(app, whole):
    see(app)
    app.text_input(key=f"try_text_{whole.name}").set_value("  ")
    next(button for button in app.button if button.label == "Predict").click().run()
    assert "Type a text first" in texts(app)


def test_what_fails_is_one_sentence(app, whole, tmp_path):
    see(app)
    gone = whole.path / "trajectory.log"
    gone.rename(tmp_path / "trajectory.log")
    try:
        try_text(app, whole, "another text")
        assert not app.exception
        assert "The model gives no answer" in texts(app)
    finally:
        (tmp_path / "trajectory.log").rename(gone)


def test_a_run_without_what_a_model_is_made_of_offers_nothing(app, tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))
    write_run(tmp_path / "runs", [0.5, 0.6])
    see(app)
    assert not app.exception
    assert "Try it" not in texts(app)


@pytest.fixture(scope="module")
def writing(tiny_opt_folder, tmp_path_factory):
    """A run whose answers are written."""
    settings = Settings(rounds=1, directions=1, batch_size=2, seq_len=40, eval_rows=8, mu=1e-2)
    return fine_tune(
        Allocation(np.ones((3, 2), dtype=bool)),
        dataset="toy-verdicts",
        model=tiny_opt_folder,
        settings=settings,
        runs_folder=tmp_path_factory.mktemp("writing"),
        force=True,
    )


def test_a_run_that_writes_counts_exact_matches_and_answers_with_a_text(app, writing, monkeypatch):
    monkeypatch.setenv("ZORBA_RUNS", str(writing.path.parent))
    see(app)
    assert not app.exception
    assert "Best exact match" in {metric.label for metric in app.metric}
    assert "accuracy" not in texts(app).lower()
    app.text_input(key=f"try_text_{writing.name}").set_value("the soup was fine")
    next(button for button in app.button if button.label == "Predict").click().run()
    assert not app.exception
    answer = writing.predict("the soup was fine", base=True)
    assert (answer["prediction"][0] or " ") in [code.value for code in app.code]


def test_the_figures_say_what_the_numbers_say(whole):
    report = whole.evaluate()
    heatmap = confusion_figure(report.after.confusion_CC, report.after.labels).data[0]
    for label, entry in enumerate(report.after.per_label.values()):
        if entry["rows"]:
            assert heatmap.z[label][label] == pytest.approx(entry["recall"])
    clients = clients_figure(report.per_client, report.accuracy)
    assert list(clients.data[0].x) == [str(entry["client"]) for entry in report.per_client]
    many = {f"label {number}": 1 / 77 for number in range(77)}
    bars = answer_figure({**many, "label 70": 0.5}, many).data[0]
    assert len(bars.x) <= 8
    assert "label 70" in bars.y  # what the base model would have said
