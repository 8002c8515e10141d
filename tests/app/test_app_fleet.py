"""The Fleet page without a browser."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app.shared.scenario import FLEET_KINDS, Scenario
from app.shared.scenario_link import scenario_to_link
from tests.app.shown import TRADE_OFF
from zorba_core.fleet import MIXES


@pytest.fixture
def fleet_page(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))

    def opened(**parameters):
        app = AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60).switch_page(TRADE_OFF)
        for key, value in parameters.items():
            app.query_params[key] = value
        return app.switch_page("screens/fleet/fleet.py").run()

    return opened


def texts(app) -> str:
    return "\n".join(part.value for part in [*app.markdown, *app.caption, *app.warning, *app.info, *app.success])


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def button(app, label: str):
    return next(one for one in app.button if one.label.startswith(label))


def paste(app, text: str):
    app.text_area(key="fleet_pasted").set_value(text)
    return button(app, "Use what is pasted").click().run()


@pytest.mark.parametrize("kind", [kind for kind in FLEET_KINDS if kind != "table"])
def test_every_kind_shows_its_clients(fleet_page, kind):
    app = fleet_page(fleet=kind, clients="20")
    assert not app.exception
    assert metrics(app)["Clients"] == "20"
    assert len(app.dataframe[-1].value) == 20
    if kind in MIXES:
        assert MIXES[kind].source[:20] in texts(app)
        assert MIXES[kind].date in texts(app)


def test_values_of_the_page_survive_another_page_and_another_kind(fleet_page):
    app = fleet_page(fleet="steam", model="opt-1.3b")
    app.slider(key="card").set_value(60).run()
    app.switch_page("screens/tradeoff/tradeoff.py").run()
    assert app.session_state["scenario"].card_share == 0.6
    assert app.query_params["card"] == "60"
    app.selectbox(key="fleet").select("uniform").run()
    assert "card" not in app.query_params
    app.selectbox(key="fleet").select("steam").run()
    app.switch_page("screens/fleet/fleet.py").run()
    assert app.slider(key="card").value == 60


def test_clients_too_small_for_a_block_are_named(fleet_page):
    app = fleet_page(fleet="steam", model="opt-1.3b")
    assert metrics(app)["Too small"] == "8"
    assert "8 of 50 clients cannot hold one block" in texts(app)
    assert "4 GB card" in texts(app)


def test_a_drawn_fleet_turns_into_a_table_of_ones_own(fleet_page):
    app = fleet_page(clients="7", seed="3")
    button(app, "Edit these clients").click().run()
    scenario = app.session_state["scenario"]
    assert scenario.fleet_kind == "table"
    drawn = Scenario(num_clients=7, seed=3).fleet()
    assert [name for name, _ in scenario.table] == list(drawn.names)
    assert all(0 <= gib - exact < 1e-4 for (_, gib), exact in zip(scenario.table, drawn.capacity_N_gib, strict=True))
    assert "rows" in app.query_params


def test_an_empty_table_offers_an_example(fleet_page):
    app = fleet_page(fleet="table")
    assert "No clients yet" in texts(app)
    button(app, "Start with an example").click().run()
    assert metrics(app)["Clients"] == "12"


def test_a_pasted_csv_becomes_the_fleet_and_a_bad_one_leaves_it(fleet_page):
    app = paste(fleet_page(), "client,vram_gib\nbig,1.9\nmedium,1.5\nother,1.2")
    assert "3 clients read" in texts(app)
    assert metrics(app)["Clients"] == "3"
    paste(app, "client,vram_gib\nbig,=1+1")
    assert "'=1+1'" in texts(app).replace("\\", "")
    assert "the fleet is as it was" in texts(app)
    assert metrics(app)["Clients"] == "3"


def upload(app, name: str, content: bytes):
    app.file_uploader[0].set_value((name, content, "text/plain"))
    return app.run()


@pytest.mark.parametrize("then", ["another file", "another scenario", "another page"])
def test_what_is_wrong_with_a_file_is_said_until_something_else_is_shown(fleet_page, then):
    app = upload(fleet_page(), "bad_one.csv", b"gpu,memory\n1,2\n")
    assert "bad\\_one.csv cannot be used; the fleet is as it was" in texts(app)
    app.run()
    assert "cannot be used" in texts(app)
    if then == "another file":
        upload(app, "good.csv", b"vram_gib\n1.5\n1.9\n")
        assert "good.csv: 2 clients read." in texts(app)
    elif then == "another scenario":
        app.number_input(key="clients").set_value(9).run()
    else:
        app.switch_page("screens/paper/paper.py").run()
        app.switch_page("screens/fleet/fleet.py").run()
    assert "cannot be used" not in texts(app)


def test_a_link_too_short_for_its_table_says_so_on_every_page(fleet_page, monkeypatch):
    rows = "\n".join(f"client-{n},{1 + n % 97 / 97:.4f}" for n in range(2_000))
    app = paste(fleet_page(), "client,vram_gib\n" + rows)
    assert "too long for a link" in texts(app)
    assert "rows" not in app.query_params
    fresh = fleet_page(fleet="table")
    for page in ("fleet", "tradeoff", "allocation"):
        fresh.switch_page(f"screens/{page}/{page}.py").run()
        assert "The link does not hold its table of clients" in texts(fresh), page
    fresh.switch_page("screens/fleet/fleet.py").run()
    button(fresh, "Start with an example").click().run()
    assert "does not hold" not in texts(fresh)


def test_shares_that_exceed_the_whole_get_one_sentence(fleet_page):
    app = fleet_page(fleet="three-kinds", share="70", medium_share="70")
    assert "add up to more than all clients" in texts(app)
    app.slider(key="share").set_value(10).run()
    assert not app.warning


def test_a_link_with_rows_that_are_no_numbers_shows_them_to_be_mended(fleet_page):
    link = scenario_to_link(Scenario(fleet_kind="table", table=(("a", 1.9), ("b", "eight"), (None, None), ("d", -1.0))))
    app = fleet_page(**link)
    assert not app.exception
    assert "'eight'" in texts(app).replace("\\", "")
    assert "went wrong" not in texts(app)
