"""Changing a matrix with mouse and keys, and walking through Algorithm 1, in a real browser."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import serve, settled  # noqa: E402

PATIENCE_MS = 120_000  # for a machine with much else to do; no wait is this long otherwise
CELL = "[class*=st-key-matrix_editor] [data-at='{block},{column}']"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(runs_folder=tmp_path_factory.mktemp("runs")) as address:
        yield address


@pytest.fixture
def visit(server, browser):
    contexts = []

    def open_page(path, ready, **options):
        contexts.append(browser.new_context(viewport={"width": 1440, "height": 1300}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(server + path, timeout=PATIENCE_MS)
        settled(page, ready, PATIENCE_MS / 1000)
        return page

    yield open_page
    for context in contexts:
        context.close()


def flips(page) -> set[str]:
    named = parse_qs(urlsplit(page.url).query).get("flips", [""])[0]
    return set(named.split("_")) - {""}


def wait_for_flips(page, count: int) -> set[str]:
    page.wait_for_function(
        "count => (new URLSearchParams(location.search).get('flips') || '').split('_').filter(x => x).length === count",
        arg=count,
        timeout=PATIENCE_MS,
    )
    return flips(page)


def cell(page, block: int, column: int):
    return page.locator(CELL.format(block=block, column=column))


def test_cells_are_switched_by_mouse_and_keys_and_the_link_brings_them_back(visit):
    first = CELL.format(block=3, column=17)
    page = visit("/allocation?clients=20&vectors=40", first)
    before = cell(page, 3, 17).get_attribute("aria-selected")
    cell(page, 3, 17).click()
    assert cell(page, 3, 17).get_attribute("aria-selected") != before  # at once, without the server
    wait_for_flips(page, 1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    both = wait_for_flips(page, 2)
    assert {int(flip.split(".")[0]) for flip in both} == {3, 4}
    page.get_by_text("2 cells changed.").wait_for(timeout=PATIENCE_MS)
    page.keyboard.press("Control+z")
    wait_for_flips(page, 1)
    page.get_by_role("button", name="Redo").click()
    wait_for_flips(page, 2)
    page.reload()
    settled(page, first)
    page.get_by_text("2 cells changed.").wait_for(timeout=PATIENCE_MS)
    assert flips(page) == both
    assert "added" in cell(page, 4, 18).get_attribute("class") or "removed" in cell(page, 4, 18).get_attribute("class")


def test_what_the_pointer_is_told_follows_a_click_and_taking_it_back(visit):
    page = visit("/allocation?clients=20&vectors=40", CELL.format(block=3, column=17))
    place, tip = cell(page, 3, 17), page.locator("[class*=st-key-matrix_editor] .tip")
    place.hover()
    before = tip.inner_text()
    place.click()
    after = tip.inner_text()
    assert {": trains it" in before, ": trains it" in after} == {True, False}
    assert {": does not" in before, ": does not" in after} == {True, False}
    page.keyboard.press("Control+z")
    tip.filter(has_text=before).wait_for()
    page.mouse.move(0, 0)
    assert tip.is_hidden()


def test_clicks_faster_than_the_server_all_count_once(visit):
    page = visit("/allocation?clients=20&vectors=40", CELL.format(block=0, column=0))
    for column in range(6):
        cell(page, 2, column).click()
    page.get_by_text("6 cells changed.").wait_for(timeout=PATIENCE_MS)
    cell(page, 2, 0).click()
    page.get_by_text("5 cells changed.").wait_for(timeout=PATIENCE_MS)
    page.reload()  # the address holds them, as cells or packed, whichever is shorter
    page.get_by_text("5 cells changed.").wait_for(timeout=PATIENCE_MS)


def test_algorithm_1_plays_to_its_end_and_steps_back(visit):
    page = visit("/allocation?clients=20&vectors=40&view=steps&point=3", "[class*=st-key-greedy_plot] .main-svg")
    page.wait_for_timeout(500)
    page.locator("[class*=st-key-step_play] button").click()
    last = page.get_by_role("heading", name=re.compile("the last"))
    last.wait_for()
    page.get_by_role("button", name="Play").wait_for()  # it stops by itself
    page.locator("[class*=st-key-step_back] button").click()
    last.wait_for(state="detached")


def test_a_click_on_a_small_matrix_shows_its_numbers(visit):
    page = visit("/toy?clients=6&vectors=20", "[class*=st-key-toy_map] .scatterlayer .point")
    page.wait_for_timeout(800)
    point = page.locator("[class*=st-key-toy_map] .scatterlayer .point").nth(10).bounding_box()  # class k
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    page.get_by_text("k: 6 blocks, Λ = 49/36").first.wait_for(timeout=PATIENCE_MS)


@pytest.mark.parametrize("path", ["/allocation", "/toy", "/theory"])
def test_on_a_phone_the_page_does_not_scroll_sideways(visit, path):
    page = visit(f"{path}?clients=12&vectors=40", "[data-testid=stMain] [data-testid=stHeading]")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(1200)
    assert page.locator("[data-testid=stMain]").evaluate("main => main.scrollWidth") <= 390
