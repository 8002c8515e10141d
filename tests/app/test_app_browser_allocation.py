"""Changing a matrix, and walking through Algorithm 1, in a real browser."""

from __future__ import annotations

import contextlib
import re

import pytest

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import serve, settled  # noqa: E402

TRIES = 6  # of a press
PATIENCE_MS = 120_000  # for a machine with much else to do; no wait is this long otherwise


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


def test_a_box_is_ticked_and_the_link_brings_it_back(visit):
    table = "[class*=st-key-matrix_] canvas"
    page = visit("/allocation?clients=20&vectors=40", table)
    place = page.locator(table).first.bounding_box()
    page.mouse.click(place["x"] + 48 + 29, place["y"] + 35 + 17)
    page.wait_for_function("() => /[?&]flips=0[.]\\d+/.test(location.search)", timeout=PATIENCE_MS)
    page.get_by_text("1 cell changed.").wait_for()
    page.reload()
    page.get_by_text("1 cell changed.").wait_for()


def test_algorithm_1_plays_to_its_end_and_steps_back(visit):
    page = visit("/allocation?clients=20&vectors=40&view=steps&point=3", "[class*=st-key-greedy_plot] .main-svg")
    page.locator("[class*=st-key-step_play] button").click()
    last = page.get_by_role("heading", name=re.compile("the last"))
    last.wait_for()
    page.get_by_role("button", name="Play").wait_for()  # it stops by itself
    page.locator("[class*=st-key-step_back] button").click()
    last.wait_for(state="detached")


def test_a_click_on_a_small_matrix_shows_its_numbers(visit):
    page = visit("/toy?clients=6&vectors=20", "[class*=st-key-toy_map] .scatterlayer .point")
    text = page.get_by_text("k: 6 blocks, Λ = 49/36").first
    for _ in range(TRIES):  # a figure that was drawn a moment ago may not listen yet
        point = page.locator("[class*=st-key-toy_map] .scatterlayer .point").nth(10).bounding_box()  # class k
        page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
        with contextlib.suppress(playwright.TimeoutError):
            text.wait_for(timeout=PATIENCE_MS / TRIES)
            return
    text.wait_for()
