"""The Train page and its address: which run it opens, and the folder of one's own model."""

from __future__ import annotations

import shutil

import pytest
from streamlit.testing.v1 import AppTest

from app.shared.folders import ROOT
from tests.app.shown import TRADE_OFF
from tests.app.test_app_train import TIMEOUT_S, alive, texts, train, write_job, write_run

OLDER, NEWER = "20260101-000000-abcdef", "20260102-000000-abcdef"


@pytest.fixture
def app(app, monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    return app


def opened(app):
    fresh = AppTest.from_file(app._script_path, default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
    for key, value in app.query_params.items():
        fresh.query_params[key] = value
    return train(fresh)


def headings(app) -> list[str]:
    return [text.value for text in app.markdown if text.value.startswith("## ")]


def train_it(app):
    """The link of the Allocation page."""
    app.switch_page("screens/allocation/allocation.py").run()
    (link,) = [link for link in app.get("page_link") if link.proto.label == "Train it"]
    app.query_params.clear()
    if link.proto.query_string:
        key, value = link.proto.query_string.split("=")
        app.query_params[key] = value
    return app.switch_page("screens/train/train.py").run()


@pytest.mark.parametrize("still_running", [False, True])
def test_train_it_opens_the_form_and_no_older_run(app, runs, still_running):
    run = write_run(runs, summary=None if still_running else {"stopped_by": "rounds"})
    write_job(runs, run=run, title="Older run", **(alive() if still_running else {}))
    app.run()
    train_it(app)
    assert not app.exception
    assert headings(app)[0] == "## Which allocation"
    assert "## Older run" not in headings(app)
    assert f"watch_{OLDER}" in [button.key for button in app.button]  # it is in the list
    assert headings(opened(app))[0] == "## Which allocation"
    app.button(key=f"watch_{OLDER}").click().run()
    assert headings(app)[0] == "## Older run"


def test_a_link_to_a_run_that_is_gone_says_so_and_opens_no_other(app, runs):
    write_job(runs, run=write_run(runs, summary={"stopped_by": "rounds"}), title="Other run", id=NEWER)
    app.query_params["job"] = OLDER
    train(app)
    assert f"The link names the run `{OLDER}`, which is not in the list" in texts(app)
    assert "## Other run" not in headings(app)
    assert "which is not in the list" in texts(opened(app))


def test_a_link_to_a_run_that_was_resumed_since_opens_that_run(app, runs):
    first = write_run(runs, summary={"stopped_by": "rounds"})
    write_job(runs, run=first, title="Resumed since", id="20260103-000000-abcdef")
    write_job(runs, run=first, title="Before", id=OLDER)
    shutil.copytree(first, runs / "another")
    write_job(runs, run=runs / "another", title="Newest", id="20260104-000000-abcdef")
    app.query_params["job"] = OLDER
    train(app)
    assert headings(app)[0] == "## Resumed since"


def test_the_folder_of_ones_own_model_is_in_the_link(app):
    folder = str(ROOT / "artifacts" / "models" / "opt-mini")
    train(app)
    app.selectbox(key="train_model").select("folder").run()
    app.text_input(key="train_folder").set_value(folder).run()
    fresh = opened(app)
    assert fresh.text_input(key="train_folder").value == folder
    assert f"--model {folder}" in fresh.code[0].value
    fresh.query_params.clear()
    fresh.switch_page("screens/paper/paper.py").run()
    fresh.query_params.clear()
    train(fresh)
    assert fresh.text_input(key="train_folder").value == folder
    assert fresh.query_params["train_folder"] == folder


def test_a_folder_that_is_not_there_is_said_and_no_other_model_is_taken(app):
    app.query_params["train_model"], app.query_params["train_folder"] = "folder", "/models/not-here"
    train(app)
    assert "'/models/not-here' is no folder on this machine" in texts(app).replace("\\", "")
    assert "train_start" not in [button.key for button in app.button]
