"""A click in the menu while the first picture is still drawn interrupts the run. What the link says holds all the same,
and what the browser draws is what the server thinks it draws: at the next click the browser reports it."""

from __future__ import annotations

import datetime
import json
import os

import pytest
from streamlit.runtime.scriptrunner import RerunException
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from app.shared.scenario import Scenario
from tests.app.shown import TRADE_OFF
from tests.app.written_runs import picked, write_run

TIMEOUT_S = 60
LINK = {"clients": "12", "vectors": "60", "seed": "3", "fleet": "steam", "card": "70", "weight": "70", "x": "gib"}
LINK |= {"a": "clients=9&vectors=30&point=4", "d": "1e4", "gap": "2.5", "train_rounds": "40", "point": "20"}
SCENARIO = Scenario(fleet_kind="steam", card_share=0.7, num_clients=12, num_epsilons=60, seed=3)
PAGES = ("fleet", "tradeoff", "allocation", "toy", "theory", "train", "runs", "paper")


@pytest.fixture
def interrupted(root, tmp_path, monkeypatch):
    """The dashboard opened by a link; its first run ends at the given message to the browser, which never shows it.
    The next run has an empty address, as after a click in the menu."""
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))
    send = LocalScriptRunner._enqueue_forward_msg

    def opened(at: int, link: dict[str, str]) -> AppTest:
        app = AppTest.from_file(str(root / "app" / "main.py"), default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
        for key, value in link.items():
            app.query_params[key] = value
        sent = 0

        def interrupt(self, message):
            nonlocal sent
            sent += self._execing
            if self._execing and sent == at:
                raise RerunException(RerunData(query_string="", page_script_hash=app._page_hash))
            send(self, message)

        monkeypatch.setattr(LocalScriptRunner, "_enqueue_forward_msg", interrupt)
        app.run()
        assert sent > at, "the first run ended before it was interrupted"
        return app

    return opened


def drawn(element) -> object:
    """What a browser draws that sees the element for the first time."""
    proto = element.proto
    if element.type == "selectbox":
        return proto.raw_value if proto.set_value else proto.options[proto.default]
    if element.type == "date_input":
        (day,) = proto.value if proto.set_value else proto.default
        return day.replace("/", "-")
    if element.type == "select_slider" or element.type == "slider":
        return list(proto.value if proto.set_value else proto.default)
    return proto.value if proto.set_value else proto.default


def held(element) -> object:
    if element.type == "selectbox":
        return element.proto.options[element.index]
    if element.type == "select_slider":
        return [list(element.proto.options).index(element.format_func(element.value))]
    if element.type == "date_input":
        return element.value.isoformat()
    return [element.value] if element.type == "slider" else element.value


def disagreeing(app: AppTest) -> dict[str, tuple[object, object]]:
    kinds = (app.number_input, app.slider, app.selectbox, app.toggle, app.select_slider, app.text_input, app.date_input)
    pairs = {one.key: (drawn(one), held(one)) for kind in kinds for one in kind}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


# Before the menu is there, between the sidebar's controls, in the page, behind its last widget.
@pytest.mark.parametrize("at", [1, 4, 9, 12, 15, 18, 21, 24, 27, 30, 40, 60])
def test_an_interrupted_first_run_keeps_what_the_link_says(interrupted, at):
    app = interrupted(at, LINK)
    assert app.session_state["scenario"] == SCENARIO
    assert disagreeing(app) == {}
    assert app.slider(key="weight").value == 70
    assert app.selectbox(key="x").value == "gib"
    for key in ("clients", "card", "weight", "x", "point"):
        assert app.query_params[key] == LINK[key]
    assert "a" in app.query_params


@pytest.mark.parametrize("page", PAGES)
def test_what_every_page_draws_after_an_interruption_is_what_it_holds(interrupted, page):
    app = interrupted(20, LINK)
    app.switch_page(f"screens/{page}/{page}.py").run()
    assert not app.exception
    assert disagreeing(app) == {}
    assert app.session_state["scenario"] == SCENARIO
    if page == "theory":
        assert app.select_slider(key="d").value == "1e4"
        assert app.slider(key="gap").value == 2.5
    if page == "train":
        assert app.number_input(key="train_rounds").value == 40


@pytest.mark.parametrize("page", PAGES)
def test_an_interrupted_change_of_page_keeps_the_scenario(interrupted, page, monkeypatch):
    app = interrupted(20, {})
    seen = 0
    send = LocalScriptRunner._enqueue_forward_msg

    def interrupt(self, message):
        nonlocal seen
        seen += self._execing
        if self._execing and seen == 18:
            raise RerunException(RerunData(query_string="", page_script_hash=self._page_hash_at_hand))
        send(self, message)

    run_script = LocalScriptRunner._run_script

    def remember_page(self, rerun_data):
        self._page_hash_at_hand = rerun_data.page_script_hash
        run_script(self, rerun_data)

    monkeypatch.setattr(LocalScriptRunner, "_run_script", remember_page)
    monkeypatch.setattr(LocalScriptRunner, "_enqueue_forward_msg", interrupt)
    app.switch_page(f"screens/{page}/{page}.py").run()
    assert not app.exception
    assert disagreeing(app) == {}
    assert app.session_state["scenario"] == Scenario()


def test_the_runs_page_draws_the_picks_and_the_day_that_the_link_names(interrupted, tmp_path):
    day = datetime.datetime(2026, 3, 1, 12)
    for number in range(6):
        path = write_run(tmp_path / "runs", [0.5, 0.6], seed=number)
        began = (day + datetime.timedelta(days=number)).timestamp()
        os.utime(path / "config.json", (began, began))
    names = [path.name for path in sorted((tmp_path / "runs").iterdir())]
    wanted = [name for name in names if (tmp_path / "runs" / name / "config.json").stat().st_mtime > day.timestamp()][
        :4
    ]
    app = interrupted(20, {"since": "2026-03-02", "runs": wanted, "one_run": wanted[2]})
    app.switch_page("screens/runs/runs.py").run()
    assert not app.exception
    assert disagreeing(app) == {}
    assert app.date_input[0].value == datetime.date(2026, 3, 2)
    assert app.selectbox(key="one_run").value == wanted[2]
    assert sorted(picked(app)) == sorted(wanted)
    marked = json.loads(app.dataframe[0].proto.selection_default)["selection"]["rows"]
    assert sorted(app.dataframe[0].value["run"].iloc[marked]) == sorted(wanted)


def test_the_train_page_draws_the_folder_that_the_link_names(interrupted):
    app = interrupted(20, {"train_model": "folder", "train_folder": "/models/not-here"})
    app.switch_page("screens/train/train.py").run()
    assert disagreeing(app) == {}
    assert app.text_input(key="train_folder").value == "/models/not-here"
