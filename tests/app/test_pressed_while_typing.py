"""Buttons of pages in a real browser: pressed right after a field was typed into, and those that lead within a page."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from app.screens.train.jobs import list_jobs
from app.screens.train.processes import stop
from app.shared.scenario_link import scenario_from_link

pytestmark = [pytest.mark.browser, pytest.mark.slow]
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import serve, settled  # noqa: E402

SCREEN = {"width": 1440, "height": 1400}
FORM = "[class*=st-key-train_start] button:visible"
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    yield folder
    for job in list_jobs(folder).jobs:
        stop(folder, job)
        stop(folder, job)  # at once


@pytest.fixture(scope="module")
def address(runs):
    with serve(runs_folder=runs) as address:
        yield address


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def press_at_once(page, button) -> None:
    """As a tap does: no time between the press and the release, nor between leaving the field and either."""
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()


def type_into(page, label: str, text: str) -> None:
    field = page.get_by_label(label, exact=True).first
    field.click()
    field.press("Control+A")
    page.keyboard.type(text)


def test_a_run_has_the_rounds_that_were_typed_right_before_start(address, runs, page):
    page.goto(f"{address}/train?clients=4&vectors=40&job=new")
    settled(page, FORM, timeout_s=PATIENCE_MS / 1000)
    type_into(page, "Rounds T", "11")
    press_at_once(page, page.locator(FORM))
    page.wait_for_selector("[class*=st-key-stop_]", timeout=PATIENCE_MS)
    (job,) = list_jobs(runs).jobs
    assert job.rounds == 11
    assert job.command[job.command.index("--rounds") + 1] == "11"


def test_a_table_has_the_clients_that_were_typed_right_before_it_was_asked_for(address, page):
    page.goto(f"{address}/fleet?clients=6&vectors=40")
    settled(page, "[class*=st-key-vram_plot] .main-svg", timeout_s=PATIENCE_MS / 1000)
    type_into(page, "Clients N", "9")
    press_at_once(page, page.get_by_role("button", name="Edit these clients"))
    page.wait_for_selector("[class*=st-key-fleet_editor] canvas", timeout=PATIENCE_MS)
    page.wait_for_function("location.search.includes('rows=')", timeout=PATIENCE_MS)
    parameters = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    scenario, _ = scenario_from_link(parameters)
    assert len(scenario.table) == 9


def test_the_five_things_to_know_lead_to_their_rows(address, page):
    page.goto(f"{address}/paper")
    settled(page, "[class*=st-key-show_]", timeout_s=PATIENCE_MS / 1000)
    page.locator("[class*=st-key-show_theorem-3] button").click()
    page.wait_for_function("location.search.includes('claim_text=theorem-3')", timeout=PATIENCE_MS)
    find = page.get_by_label("Find", exact=True).first  # is drawn again after the address was written
    playwright.expect(find).to_have_value("theorem-3", timeout=PATIENCE_MS)


def test_the_skip_link_waits_for_a_control_that_is_not_drawn_yet(address, page):
    page.goto(f"{address}/paper")
    settled(page, "[class*=st-key-show_]", timeout_s=PATIENCE_MS / 1000)
    page.evaluate("() => { window.zorbaMain = 'comes_late'; document.getElementById('zorba-skip').focus(); }")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.testid") == "stMainBlockContainer"
    page.evaluate("""() => {
        const late = document.createElement("div");
        late.className = "st-key-comes_late";
        late.innerHTML = "<button id='late'>Late</button>";
        document.querySelector("[data-testid=stMainBlockContainer]").append(late);
    }""")
    page.wait_for_function("document.activeElement.id === 'late'", timeout=5000)
