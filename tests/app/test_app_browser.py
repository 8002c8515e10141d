"""The dashboard as people meet it: a real server and a real browser that can reach nothing but this machine."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from zorba_core.allocation import Allocation
from zorba_core.training.callbacks import RoundRecord
from zorba_core.training.run_writer import RunWriter

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import FRONT_POINT, chromium, serve, settled  # noqa: E402

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
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, address):
    """Open a page of the dashboard; afterwards assert that it asked no other machine for anything and made no error."""
    seen, contexts = [], []

    def opened(path="/", ready=FRONT_POINT, **options):
        context = browser.new_context(viewport={"width": 1440, "height": 1500}, reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: seen.append(request.url))
        page.on("pageerror", lambda error: pytest.fail(f"an error in the page: {error}"))
        page.goto(address + path)
        settled(page, ready)
        page.wait_for_timeout(500)
        return page

    yield opened
    for context in contexts:
        context.close()
    hosts = {urlsplit(url).hostname for url in seen if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}


def selected_blocks(page) -> str:
    return page.locator("[data-testid=stMetricValue]").nth(2).inner_text()


def click_front_point(page, index: int) -> None:
    """A real press of the mouse on the front's marker; the front is the second trace of the plot."""
    box = page.locator("[class*=st-key-front_plot] .scatterlayer .trace").nth(1).locator(".point").nth(index)
    place = box.bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    page.mouse.up()


def wait_until_blocks_are_not(page, before: str) -> str:
    page.wait_for_function(
        "before => document.querySelectorAll('[data-testid=stMetricValue]')[2]?.innerText.trim() !== before",
        arg=before.strip(),
        timeout=10_000,
    )
    return selected_blocks(page)


def drawn_matrix(page) -> str:
    """The heatmap's pixels, as the image that plotly drew."""
    return page.locator("[class*=st-key-allocation_plot] .heatmaplayer image").first.get_attribute("href")


def test_a_click_on_the_front_shows_who_trains_what_there_and_again_after_a_reload(visit):
    page = visit()
    before, matrix = selected_blocks(page), drawn_matrix(page)
    click_front_point(page, 120)
    after = wait_until_blocks_are_not(page, before)
    page.wait_for_function(
        "before => document.querySelector('[class*=st-key-allocation_plot] .heatmaplayer image')"
        "?.getAttribute('href') !== before",
        arg=matrix,
        timeout=10_000,
    )
    assert int(after) > int(before)  # further along the front, more blocks
    assert parse_qs(urlsplit(page.url).query)["point"][0].isdecimal()
    page.reload()
    settled(page, FRONT_POINT)
    page.wait_for_timeout(300)
    assert selected_blocks(page) == after


def test_a_row_of_the_table_selects_and_the_same_point_can_be_clicked_again(visit):
    page = visit()
    click_front_point(page, 120)
    clicked = wait_until_blocks_are_not(page, selected_blocks(page)) if selected_blocks(page) == "108" else None
    clicked = clicked or selected_blocks(page)
    box = page.locator("[class*=st-key-front_table] canvas").first.bounding_box()
    page.mouse.click(box["x"] + 18, box["y"] + 35 + 33 * 2 + 15)  # the check box of the third row
    picked = wait_until_blocks_are_not(page, clicked)
    settled(page, FRONT_POINT)
    page.wait_for_timeout(800)
    click_front_point(page, 120)
    assert wait_until_blocks_are_not(page, picked) == clicked


def test_both_pages_follow_a_dark_theme(visit):
    page = visit("/runs", ready="[class*=st-key-curves_plot] .main-svg", color_scheme="dark")
    for path, plot in (("runs", "curves_plot"), ("explore", "front_plot")):
        if path == "explore":
            page.get_by_role("link", name="Explore").click()
            settled(page, FRONT_POINT)
        svg = page.locator(f"[class*=st-key-{plot}] .main-svg").first
        assert svg.evaluate("svg => getComputedStyle(svg).backgroundColor") == DARK_PAPER
        app = page.locator("[data-testid=stApp]")
        assert app.evaluate("app => getComputedStyle(app).backgroundColor") == DARK_PAPER


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"client,vram_gib\nlaptop,eight\n", "'eight'"),
        (b"gpu,memory\n1,2\n", "columns are gpu, memory"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8"),
    ],
)
def test_a_csv_that_is_no_fleet_gets_one_sentence(visit, content, says):
    page = visit("/?fleet=csv", ready="[data-testid=stFileUploader]")
    page.locator("[data-testid=stFileUploaderDropzone] input, [data-testid=stFileUploader] input").first.set_input_files(
        {"name": "fleet.csv", "mimeType": "text/csv", "buffer": content}
    )
    page.wait_for_selector("[data-testid=stAlert] >> text=cannot be read", timeout=10_000)
    assert says in page.locator("[data-testid=stAlert]").first.inner_text()


def test_one_click_leaves_out_the_clients_that_are_too_small(visit):
    page = visit("/?fleet=two-kinds&small=0.5&clients=20", ready="[data-testid=stAlert]")
    assert "14 of 20 clients cannot hold" in page.locator("[data-testid=stAlert]").inner_text()
    page.get_by_role("button", name="Leave out 14 clients").click()
    settled(page, FRONT_POINT)
    assert "leave_out=true" in page.url.lower()


def test_on_a_phone_nothing_is_wider_than_the_screen(visit):
    page = visit()
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(800)
    widest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('[data-testid=stMainBlockContainer] *')]"
        ".filter(e => e.offsetParent && !e.closest('[data-testid=stDataFrame]')).map(e => e.getBoundingClientRect().right))"
    )
    assert widest <= 391
