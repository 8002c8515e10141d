"""The dashboard as people meet it: a real server and a real browser that can reach nothing but this machine."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from zorba_core.allocation import Allocation
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.runs.writer import RunWriter

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import FRONT_POINT, serve, settled  # noqa: E402

PATIENCE_MS = 150_000  # for a machine with much else to do; no wait is this long otherwise
TRIES = 6  # of a press
BLOCKS = 4  # activated blocks among the headline numbers of the Trade-off
FLEET_PLOT = "[class*=st-key-affordable_plot] .main-svg"
DARK_PAPER = "rgb(16, 21, 28)"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    writer = RunWriter(runs, "toy", {"dataset": "toy-reviews", "target": 0.7}, {}, Allocation(np.eye(3, dtype=bool)))
    for t, accuracy in enumerate([0.5, 0.6, 0.75]):
        writer.on_round(RoundRecord(t, 0.5 if t else None, 0.6, accuracy, 1.5 * t, 33 * t, 30 * t, 90 * t))
    writer.finish({"stopped_by": "rounds"})
    with serve(runs_folder=runs) as url:
        yield url


@pytest.fixture(scope="module")
def light(browser):
    """One context for all pages in the light theme: what it has loaded once comes from its cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 1500}, reduced_motion="reduce")
    yield context
    context.close()


@pytest.fixture
def visit(light, address):
    """Open a page of the dashboard; afterwards assert that it asked no other machine for anything and made no error."""
    seen, errors, pages = [], [], []

    def opened(path="/", ready=FRONT_POINT, context=light):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        pages.append(page)
        page.on("request", lambda request: seen.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(address + path, timeout=PATIENCE_MS)
        settled(page, ready, timeout_s=PATIENCE_MS / 1000)
        return page

    yield opened
    for page in pages:
        page.close()
    assert {urlsplit(url).hostname for url in seen if not url.startswith(("data:", "blob:"))} == {"127.0.0.1"}
    # A page other than the first is asked where the server's root is, by trying: Streamlit's 404s, not ours.
    assert [error for error in errors if "404 (Not Found)" not in error] == []


def selected_blocks(page) -> str:
    return page.locator("[data-testid=stMetricValue]").nth(BLOCKS).inner_text()


def click_front_point(page, index: int, trace: int = 1) -> None:
    """A real press of the mouse on a marker. The front is the second trace of the plot, other methods' follow."""
    press_on(
        page, page.locator("[class*=st-key-front_plot] .scatterlayer .trace").nth(trace).locator(".point").nth(index)
    )


def press_on(page, marker) -> None:
    place = marker.bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    page.mouse.up()


def press_until(page, press, condition: str, arg: str | None = None) -> None:
    """Press until the page answers: a figure that was drawn a moment ago may not listen yet, and the press is lost."""
    for attempt in range(TRIES):
        press()
        last = attempt == TRIES - 1
        try:
            page.wait_for_function(condition, arg=arg, timeout=PATIENCE_MS if last else PATIENCE_MS / TRIES)
            return
        except playwright.TimeoutError:
            if last:
                raise


def press_until_blocks_are_not(page, before: str, press) -> str:
    changed = (
        f"before => document.querySelectorAll('[data-testid=stMetricValue]')[{BLOCKS}]?.innerText.trim() !== before"
    )
    press_until(page, press, changed, before.strip())
    return selected_blocks(page)


def matrix_shown(page) -> str:
    """Where the picture of the matrix comes from: another matrix has another name."""
    return page.locator("[data-testid=stImage] img").first.get_attribute("src")


def test_a_click_on_the_front_shows_who_trains_what_there_and_again_after_a_reload(visit):
    page = visit()
    before, matrix = selected_blocks(page), matrix_shown(page)
    after = press_until_blocks_are_not(page, before, lambda: click_front_point(page, 120))
    page.wait_for_function(
        "before => document.querySelector('[data-testid=stImage] img')?.getAttribute('src') !== before",
        arg=matrix,
        timeout=PATIENCE_MS,
    )
    assert int(after) > int(before)  # further along the front, more blocks
    assert parse_qs(urlsplit(page.url).query)["point"][0].isdecimal()
    page.reload()
    settled(page, FRONT_POINT)
    playwright.expect(page.locator("[data-testid=stMetricValue]").nth(BLOCKS)).to_have_text(after, timeout=PATIENCE_MS)


def test_a_click_on_another_methods_front_goes_over_to_that_method(visit):
    page = visit("/?clients=12&vectors=60&show=two-level")
    knee = selected_blocks(page)
    press_until_blocks_are_not(page, knee, lambda: click_front_point(page, 12, trace=2))  # apart from the other front
    settled(page, FRONT_POINT)
    page.wait_for_function("() => location.search.includes('solver=two-level')", timeout=PATIENCE_MS)
    assert parse_qs(urlsplit(page.url).query)["show"] == ["balanced"]  # what was the main method stays in the picture
    page.get_by_role("link", name="Allocation").click()
    settled(page, "[data-testid=stAppViewContainer] h1:has-text('Who trains which blocks')")
    assert "solver=two-level" in page.url  # the scenario goes along


def test_a_row_of_the_table_selects_and_the_same_point_can_be_clicked_again(visit):
    page = visit()
    knee = selected_blocks(page)
    clicked = press_until_blocks_are_not(page, knee, lambda: click_front_point(page, 120))

    def check_the_third_row() -> None:
        box = page.locator("[class*=st-key-front_table] canvas").first.bounding_box()
        if box is not None:  # else it is being drawn again, and is pressed once it is there
            page.mouse.click(box["x"] + 18, box["y"] + 35 + 33 * 2 + 15)

    picked = press_until_blocks_are_not(page, clicked, check_the_third_row)
    settled(page, FRONT_POINT)
    assert press_until_blocks_are_not(page, picked, lambda: click_front_point(page, 120)) == clicked


def test_the_front_is_handed_out_as_a_pdf(visit):
    page = visit()
    with page.expect_download(timeout=PATIENCE_MS) as download:
        page.get_by_role("button", name="Figure (PDF)").click()
    assert download.value.suggested_filename == "zorba-trade-off.pdf"
    assert download.value.path().read_bytes().startswith(b"%PDF-")


def test_both_pages_follow_a_dark_theme(visit, browser):
    dark = browser.new_context(color_scheme="dark", viewport={"width": 1440, "height": 1500})
    page = visit("/runs", ready="[class*=st-key-curves_plot] .main-svg", context=dark)
    for path, plot in (("runs", "curves_plot"), ("trade-off", "front_plot")):
        if path == "trade-off":
            page.get_by_role("link", name="Trade-off").click()
            settled(page, FRONT_POINT)
        svg = page.locator(f"[class*=st-key-{plot}] .main-svg").first
        assert svg.evaluate("svg => getComputedStyle(svg).backgroundColor") == DARK_PAPER
        app = page.locator("[data-testid=stApp]")
        assert app.evaluate("app => getComputedStyle(app).backgroundColor") == DARK_PAPER


def test_a_file_that_is_no_fleet_gets_one_sentence_and_a_good_one_a_front(visit):
    page = visit("/fleet", ready=FLEET_PLOT)
    page.get_by_text("Bring your own").click()
    upload = page.locator("[data-testid=stFileUploader] input").first
    bad = b"client,vram_gib\nlaptop,eight\n"
    upload.set_input_files({"name": "fleet.csv", "mimeType": "text/csv", "buffer": bad})
    page.locator("[data-testid=stAlert]").filter(has_text="'eight'").wait_for(timeout=PATIENCE_MS)
    assert "50" in page.locator("[data-testid=stMetricValue]").first.inner_text()  # the fleet is as it was
    good = b"client,vram_gib\nworkstation,24\nlaptop,1.5\nedge-box,0.8\n"
    upload.set_input_files({"name": "fleet.csv", "mimeType": "text/csv", "buffer": good})
    page.locator("[data-testid=stAlert]").filter(has_text="3 clients read").wait_for(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Trade-off").click()
    settled(page, FRONT_POINT)
    playwright.expect(page.locator("[data-testid=stMarkdown]").first).to_contain_text("3 clients", timeout=PATIENCE_MS)
    assert "rows=" in page.url


def test_on_a_phone_the_page_does_not_scroll_sideways(visit):
    page = visit()
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("() => document.querySelector('[data-testid=stMain]').scrollWidth <= 390")
    page.wait_for_function("() => document.querySelector('[class*=st-key-front_plot] .main-svg').clientWidth <= 390")
    plot = page.locator("[class*=st-key-front_plot] .main-svg").first.bounding_box()
    assert 300 < plot["width"] <= 390
    slider = page.locator("[class*=st-key-weight]").first.bounding_box()
    cards = [card.bounding_box() for card in page.locator("[data-testid=stMetric]").all()[:2]]
    assert cards[0]["y"] == cards[1]["y"], "side by side"
    assert cards[0]["y"] < slider["y"] < plot["y"] < 844 / 2 + 150, "two cards, the slider and the plot in view"
