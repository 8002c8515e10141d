"""The dashboard in a real browser: what people do, waiting for states and not for seconds."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python, which has axe-core")

from playwright.sync_api import Page, expect  # noqa: E402

from app.parts.ui import WRONG  # noqa: E402
from tests.app.serving import FRONT, serve, settled  # noqa: E402

PAGES = {"Explore": "", "Allocation": "allocation", "Train": "train", "Runs": "runs", "Findings": "findings"}
HEADINGS = {
    "Explore": "Λ against VRAM",
    "Allocation": "Who trains what",
    "Train": "Train",
    "Runs": "Runs",
    "Findings": "Is the paper right?",
}
DONE = {  # what the page draws last
    "Explore": "[data-testid=stExpander]",
    "Allocation": "[data-testid=stDataFrame]",
    "Train": "[data-testid=stExpander]:has-text('command')",
    "Runs": ":is([data-testid=stExpander], [data-testid=stAlert])",
    "Findings": "[data-testid=stDataFrame]",
}
SCREEN, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
NOT_OURS = [".modebar", "[data-testid=stDataFrame]", "[data-testid=stTopNavSection]", "header"]
VIOLATIONS = """(left) => axe.run({ exclude: left.map((each) => [each]) },
    { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })"""
WIDER_BY = """() => {
    const main = document.querySelector("[data-testid=stMain]");
    return main.scrollWidth - main.clientWidth;
}"""
expect.set_options(timeout=180_000)
SLIDER = ".st-key-spend input[type=range]"


@pytest.fixture(scope="module")
def served(root, tmp_path_factory):
    with serve(tmp_path_factory.mktemp("runs")) as address:
        yield address


@pytest.fixture(scope="module")
def tab(browser):
    """One for the file: each test loads its page anew, but a new tab would compile the dashboard's scripts again."""
    context = browser.new_context(viewport=SCREEN, reduced_motion="reduce")
    tab = context.new_page()
    tab.set_default_timeout(300_000)
    yield tab
    context.close()


@pytest.fixture
def page(tab, served):
    yield tab
    tab.emulate_media(color_scheme="null")  # first: the next test must not get this one's theme
    assert tab.get_by_text(WRONG).count() == 0


def explore(page: Page, address: str, query: str = "") -> None:
    page.goto(f"{address}/{query}")
    settled(page, FRONT)


def shape(page: Page, name: str) -> None:
    """Choose a shape and wait until its page is at rest: a click while controls move goes between them."""
    page.get_by_role("radio", name=name, exact=True).click()
    expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()
    settled(page, FRONT)


def spend(page: Page) -> float:
    return float(page.locator(SLIDER).get_attribute("aria-valuetext"))


def test_the_act_is_one_click_on_one_screen_without_scrolling(page, served):
    explore(page, served)
    summary = page.get_by_text("GiB together")
    before = summary.inner_text()
    shape(page, "Two kinds")
    expect(summary).not_to_have_text(before)
    settled(page, FRONT)
    for key in ("histogram", "front", "matrix"):
        box = page.locator(f".st-key-{key} .main-svg").first.bounding_box()
        assert box["y"] + box["height"] <= SCREEN["height"], key


def test_two_fleets_are_compared_in_three_clicks_and_a_link_shows_the_same_elsewhere(page, served, browser):
    explore(page, served)
    shape(page, "Three kinds")
    page.get_by_role("button", name="Keep for comparison").click()
    expect(page).to_have_url(re.compile("compared="))
    shape(page, "Many small")
    names = ["Paper's method, this fleet", "Three kinds 0.71/1.31/1.91", "Lower bound"]
    expect(page.locator(".st-key-front .legendtext")).to_have_text(names)
    expect(page).to_have_url(re.compile("shape=small"))
    fresh = browser.new_context(viewport=SCREEN).new_page()
    fresh.goto(page.url)
    expect(fresh.get_by_role("radio", name="Many small", exact=True)).to_be_checked()
    expect(fresh.locator(".st-key-front .legendtext")).to_have_text(names)
    fresh.context.close()


def test_the_slider_moves_both_pictures_and_back_undoes_it(page, served):
    explore(page, served)
    page.locator(SLIDER).focus()
    first = spend(page)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("spend="))
    moved = spend(page)
    assert moved > first
    expect(page.get_by_text(f"With {moved:.1f} GiB")).to_be_visible()
    page.go_back()
    expect(page.locator(SLIDER)).to_have_attribute("aria-valuetext", f"{first:.1f}")
    page.go_forward()
    expect(page.locator(SLIDER)).to_have_attribute("aria-valuetext", f"{moved:.1f}")


def test_fifteen_fast_clicks_end_where_the_last_one_points(page, served):
    explore(page, served)
    names = ["Bell", "Two kinds", "Real GPUs", "Many small", "Three kinds"] * 3
    for name in names:
        page.get_by_role("radio", name=name, exact=True).click()
    expect(page).to_have_url(re.compile("shape=three"))
    expect(page.get_by_role("radio", name="Three kinds", exact=True)).to_be_checked()
    expect(page.get_by_text("Small (GiB)")).to_be_visible()


def test_a_click_on_the_curve_moves_the_slider(page, served):
    explore(page, served, "?shape=three")
    before = spend(page)
    points = page.locator(".st-key-front .scatterlayer .trace .points path")
    box = page.locator(".st-key-front .nsewdrag").first.bounding_box()
    spots = [point.bounding_box() for point in points.all()]
    spot = max((s for s in spots if s and s["x"] < box["x"] + 0.9 * box["width"]), key=lambda s: s["x"])
    page.mouse.click(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    expect(page.locator(SLIDER)).not_to_have_attribute("aria-valuetext", f"{before:.1f}")


def test_a_cell_is_changed_by_click_and_by_keys_and_undone(page, served):
    page.goto(f"{served}/allocation?clients=62")
    changed = page.get_by_text(re.compile(r"^\d+ cells? changed"))
    expect(changed).to_have_text("0 cells changed.")
    change_first_cell(page)
    expect(changed).to_have_text("1 cell changed.")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(changed).to_have_text("2 cells changed.")
    page.get_by_role("button", name="Undo").click()
    expect(changed).to_have_text("1 cell changed.")
    settled(page, "[class*=st-key-cells_] canvas")
    before = re.search(r"st-key-cells_\d+", page.locator("[class*=st-key-cells_]").get_attribute("class"))[0]
    page.locator(".st-key-first_client input[type=range]").focus()
    page.keyboard.press("ArrowRight")  # other clients, in another table
    expect(page.locator(f".{before}")).to_have_count(0)
    change_first_cell(page)
    expect(changed).to_have_text("2 cells changed.")
    expect(page).to_have_url(re.compile("flips="))


def change_first_cell(page: Page) -> None:
    settled(page, "[class*=st-key-cells_] canvas")
    page.locator("[class*=st-key-cells_] canvas").first.focus()
    page.wait_for_function("document.activeElement.tagName === 'TD'")  # the column of block numbers
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")


def test_a_chosen_claim_is_in_the_address_and_back_undoes_it(page, served):
    page.goto(f"{served}/findings")
    settled(page, "[data-testid=stDataFrame]")
    table = page.locator("[data-testid=stDataFrame]")
    for row in (2, 0):  # the header comes before row 0
        table.click(position={"x": 14, "y": 35 * (row + 1) + 17})
        expect(page.get_by_text("Decided by")).to_be_visible()
        settled(page, "[data-testid=stDataFrame]")
    second = page.locator("h2").inner_text()
    page.go_back()
    expect(page.locator("h2")).not_to_have_text(second)
    page.go_forward()
    expect(page.locator("h2")).to_have_text(second)
    page.reload()
    expect(page.locator("h2")).to_have_text(second)


def test_a_double_click_on_start_begins_one_training_that_outlives_the_page(page, served):
    page.goto(f"{served}/train?clients=6")
    start = page.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_enabled()
    rounds = page.locator(".st-key-set_rounds input")
    rounds.fill("2")
    rounds.press("Enter")
    rate = page.locator(".st-key-set_lr input")  # a given rate: the test need not wait for the search of one
    rate.fill("0.01")
    rate.press("Enter")
    start.dblclick()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    expect(start).to_be_disabled()
    page.reload()
    expect(page.get_by_text("Accuracy now")).to_be_visible(timeout=400_000)
    expect(page.get_by_text(re.compile("finished$"))).to_be_visible(timeout=400_000)
    expect(page.get_by_text("All jobs")).to_have_count(0)  # one job alone
    page.get_by_role("link", name="Open in Runs").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    settled(page, ".st-key-curves .main-svg")


def test_every_page_shows_its_heading_by_the_navigation_and_keeps_the_scenario(page, served):
    explore(page, served, "?clients=15&shape=bell")
    for name in [*PAGES, "Explore"]:
        page.locator("[data-testid=stTopNavLink]", has_text=name).click()
        expect(page.locator("h1")).to_have_text(HEADINGS[name])
    expect(page.get_by_role("radio", name="Bell", exact=True)).to_be_checked()
    expect(page.locator(".st-key-clients input")).to_have_value("15")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_violation(page, served, theme):
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page.emulate_media(color_scheme=theme)
    found = {}
    for name, path in PAGES.items():
        page.goto(f"{served}/{path}?clients=12")
        settled(page, f"[data-testid=stMain] {DONE[name]}")
        page.evaluate(script)
        found[name] = lasting_violations(page)
    assert {name: lines for name, lines in found.items() if lines} == {}


def lasting_violations(page: Page, timeout_s: float = 60.0) -> set[str]:
    """Serious violations that stay for ``timeout_s`` seconds: those of a page in between two states go by."""
    lasting, deadline = None, time.monotonic() + timeout_s
    while lasting != set() and time.monotonic() < deadline:
        if lasting is not None:
            page.wait_for_timeout(2_000)
        result = page.evaluate(VIOLATIONS, NOT_OURS)
        serious = [each for each in result["violations"] if each["impact"] in ("serious", "critical")]
        now = {f"{each['id']}: {node['html'][:200]}" for each in serious for node in each["nodes"]}
        lasting = now if lasting is None else lasting & now
    return lasting


def test_on_a_phone_no_page_is_wider_than_the_screen(browser, served):
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce", has_touch=True)
    page = context.new_page()
    for name, path in PAGES.items():
        page.goto(f"{served}/{path}?clients=12")
        settled(page, f"[data-testid=stMain] {DONE[name]}")
        assert page.evaluate(WIDER_BY) <= 1, name
    context.close()
