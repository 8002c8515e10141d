"""The browser's history, early clicks and fast keys, in a real browser."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import FRONT_POINT, serve, settled  # noqa: E402

PATIENCE_MS = 60_000
WEIGHT = ".st-key-weight input[type=range]"
NUMBER = "[data-testid=stSidebar] input[aria-label='{}']"
MENU = "[data-testid=stSidebarNavLink]"
CLIENTS = NUMBER.format("Clients N")
AFFORDABLE = "[class*=st-key-affordable_plot] .main-svg"
TITLES = {
    "Fleet": "Who takes part?",
    "Trade-off": "How much VRAM does good training need?",
    "Theory": "What does the theory promise?",
    "Paper": "Is the paper right?",
}
LABELS = {"clients": "Clients N", "batch": "Batch B", "seq": "Length L", "seed": "Seed"}
OWN_THEORY = "/theory?clients=12&vectors=60&batch=4&seq=64&seed=3"
METRICS, BLOCKS = "[data-testid=stMetricValue]", 4  # activated blocks are the fifth of the Trade-off


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("runs")) as at:
        yield at


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1440, "height": 1500})
    yield context.new_page()
    context.close()


def query(page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def go_to(page, name: str, ready: str) -> None:
    page.get_by_role("link", name=name, exact=True).first.click(no_wait_after=True)
    arrived(page, name, ready)


def arrived(page, name: str, ready: str) -> None:
    """Wait until the page is drawn: its address comes first, then its title, and the sidebar may be the last page's."""
    path = "/" if name == "Trade-off" else f"/{name.lower()}"
    page.wait_for_url(lambda url: urlsplit(url).path == path, timeout=PATIENCE_MS)
    page.get_by_role("heading", name=TITLES[name], exact=True).wait_for(timeout=PATIENCE_MS)
    settled(page, ready)


def shows(page, **numbers: str) -> None:
    """The sidebar comes to show these."""
    for label, value in numbers.items():
        playwright.expect(page.locator(NUMBER.format(LABELS[label]))).to_have_value(value, timeout=20_000)


def address_is(page, **wanted: str) -> None:
    page.wait_for_function(
        "wanted => JSON.stringify([...new URLSearchParams(location.search)].sort()) === wanted",
        arg=json.dumps([list(pair) for pair in sorted(wanted.items())], separators=(",", ":")),
        timeout=20_000,
    )


@pytest.mark.parametrize(("link", "wait_ms"), [("/", 0), ("/", 1000), (OWN_THEORY, 0)])
def test_an_early_click_in_the_menu_leaves_the_scenario_as_it_is(page, address, link, wait_ms):
    page.goto(address + link, wait_until="commit", timeout=PATIENCE_MS)
    page.locator("[data-testid=stSidebarNavLink]").first.wait_for(timeout=PATIENCE_MS)
    page.wait_for_timeout(wait_ms)
    go_to(page, "Fleet", CLIENTS)
    go_to(page, "Paper", MENU)  # its scenario is folded; reports what the browser drew before
    go_to(page, "Trade-off", FRONT_POINT)
    asked = {key: values[0] for key, values in parse_qs(urlsplit(link).query).items()}
    scenario = {"clients": "50", "batch": "8", "seq": "128", "seed": "0"} | asked
    shows(page, **{key: scenario[key] for key in LABELS})
    address_is(page, **asked)


def test_thirty_fast_presses_end_where_the_slider_is(page, address):
    page.goto(f"{address}/?clients=20&vectors=200&weight=80", timeout=PATIENCE_MS)
    settled(page, FRONT_POINT)
    wanted = page.locator(METRICS).nth(BLOCKS).inner_text()
    page.goto(f"{address}/?clients=20&vectors=200", timeout=PATIENCE_MS)
    settled(page, FRONT_POINT)
    page.locator(WEIGHT).focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight", delay=20)
    page.wait_for_function("() => location.search.includes('weight=80')", timeout=PATIENCE_MS)
    settled(page, FRONT_POINT)
    page.wait_for_function(
        f"wanted => document.querySelectorAll('{METRICS}')[{BLOCKS}]?.innerText.trim() === wanted",
        arg=wanted.strip(),
        timeout=20_000,
    )
    playwright.expect(page.locator(WEIGHT)).to_have_value("80")
    address_is(page, clients="20", vectors="200", weight="80")


def test_back_and_forward_are_one_page_each_with_what_was_there(page, address):
    page.goto(f"{address}/?clients=12&vectors=60", timeout=PATIENCE_MS)
    settled(page, FRONT_POINT)
    entries = page.evaluate("history.length")
    page.locator(WEIGHT).focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('weight=60')", timeout=PATIENCE_MS)
    settled(page, FRONT_POINT)
    blocks = page.locator(METRICS).nth(BLOCKS).inner_text()
    assert page.evaluate("history.length") == entries
    go_to(page, "Fleet", AFFORDABLE)
    page.locator(CLIENTS).fill("20")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search.includes('clients=20')", timeout=PATIENCE_MS)
    settled(page, AFFORDABLE)
    go_to(page, "Theory", CLIENTS)
    shows(page, clients="20")
    assert page.evaluate("history.length") == entries + 2
    page.go_back()
    arrived(page, "Fleet", AFFORDABLE)
    shows(page, clients="20")
    assert query(page)["clients"] == "20"
    page.go_back()
    arrived(page, "Trade-off", FRONT_POINT)
    page.wait_for_function(
        f"wanted => document.querySelectorAll('{METRICS}')[{BLOCKS}]?.innerText.trim() === wanted",
        arg=blocks.strip(),
        timeout=20_000,
    )
    address_is(page, clients="12", vectors="60", weight="60")
    shows(page, clients="12")
    playwright.expect(page.locator(WEIGHT)).to_have_value("60")
    page.go_forward()
    arrived(page, "Fleet", AFFORDABLE)
    page.wait_for_function("() => location.search.includes('clients=20')", timeout=PATIENCE_MS)
    shows(page, clients="20")


@pytest.mark.parametrize(("typed", "clients"), [("2e1", "20"), ("17", "17")])
def test_a_whole_number_may_be_typed_with_an_exponent(page, address, typed, clients):
    page.goto(f"{address}/theory", timeout=PATIENCE_MS)
    settled(page, CLIENTS)
    page.locator(CLIENTS).fill(typed)
    page.keyboard.press("Enter")
    address_is(page, clients=clients)
    shows(page, clients=clients)
