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
from tests.app.serving import ANSWERED, serve, server_process, settled  # noqa: E402

PAGES = {"Explore": "", "Train": "train", "Runs": "runs", "Findings": "findings"}
HEADINGS = {
    "Explore": "Who should train which blocks?",
    "Train": "Train",
    "Runs": "Runs",
    "Findings": "Is the paper right?",
}
DONE = {  # what the page draws last
    "Explore": ANSWERED,
    "Train": "[data-testid=stExpander]:has-text('command')",
    "Runs": ":is([data-testid=stExpander], [data-testid=stAlert])",
    "Findings": "[data-testid=stDataFrame]",
}
SCREEN, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
NOT_OURS = [".modebar", "[data-testid=stDataFrame]", "[data-testid=stTopNavSection]", "header[data-testid]"]
VIOLATIONS = """(left) => axe.run({ exclude: left.map((each) => [each]) },
    { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })"""
WIDER_BY = """() => {
    const main = document.querySelector("[data-testid=stMain]");
    return main.scrollWidth - main.clientWidth;
}"""
expect.set_options(timeout=180_000)
SHAPE = "[data-field=shape]"


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
    """Open the page and wait for the core's answers."""
    page.goto(f"{address}/{query}")
    page.wait_for_selector(ANSWERED)


def point(page: Page) -> tuple[float, float]:
    """GiB and Λ of the point, as a screen reader gets them."""
    words = page.locator(".point").get_attribute("aria-valuetext")
    return tuple(float(number) for number in re.match(r"([\d.]+) gibibytes, Lambda ([\d.]+)", words).groups())


def drag(page: Page, part: str, start: tuple[float, float], ends: list[tuple[float, float]]) -> list[str]:
    """Drag from one place of a part to others, as shares of its width and height. Return the frame after each step."""
    box, frames = page.locator(part).bounding_box(), []
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in [start, *ends]]
    page.mouse.move(*at[0])
    page.mouse.down()
    for place in at[1:]:
        page.mouse.move(*place)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        frames.append(page.locator(".explore").get_attribute("data-frame"))
    page.mouse.up()
    return frames


def test_everything_follows_the_pointer_and_the_core_answers_on_release(page, served):
    explore(page, served)
    before = point(page)
    frames = drag(page, ".point", (0.2, 0.5), [(0.2 + step / 40, 0.5) for step in range(10)])
    assert len(set(frames)) == len(frames)  # each step is a picture of its own
    gib, value = point(page)
    assert gib > before[0]
    assert value < before[1]
    expect(page).to_have_url(re.compile("total="))
    page.wait_for_selector(ANSWERED)
    for method in ("balanced", "two-level", "paper", "exact"):
        expect(page.locator(f".methods tr.{method} td").first).to_have_text(re.compile(r"^\d"))


def test_the_whole_act_is_on_one_screen_without_scrolling(page, served):
    explore(page, served)
    for part in (".bars", ".matrix", ".slots", ".point", ".area", ".measured", ".methods"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= SCREEN["height"], part
    words = page.locator(".explore header").inner_text()
    assert words.splitlines()[2].startswith("In ZorBA, a paper on federated fine-tuning,")


def test_bars_are_painted_and_only_the_point_sets_the_total(page, served):
    explore(page, served)
    drag(page, ".bars", (0.3, 0.9), [(0.3, 0.2), (0.5, 0.2)])
    expect(page).to_have_url(re.compile("bars="))
    page.locator(".bars").focus()
    for key in ["ArrowUp"] * 12 + ["ArrowRight"] * 3 + ["Shift+ArrowUp", "ArrowDown"]:
        page.keyboard.press(key)
    drag(page, ".bars", (0.045, 0.1), [(0.045, 0.3), (0.045, 0.5)])  # the end of the range
    expect(page).to_have_url(re.compile("span="))
    assert "total=" not in page.url
    assert "spend=" not in page.url
    page.get_by_role("button", name="Undo").click()
    expect(page).not_to_have_url(re.compile("span="))


def test_a_cell_is_changed_by_click_and_by_keys_and_undone(page, served):
    explore(page, served)
    hand = page.locator(".methods tr.hand")
    expect(hand).to_be_hidden()
    box = page.locator(".matrix").bounding_box()
    page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + 0.5 * box["height"])
    expect(hand).to_be_visible()
    expect(page).to_have_url(re.compile(r"flips=\d+\.\d+(&|$)"))
    gib, _ = point(page)
    page.locator(".matrix").focus()
    for key in ("ArrowRight", "ArrowDown", "Space"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(r"flips=\d+\.\d+_\d+\.\d+"))
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(hand).to_be_hidden()
    assert point(page)[0] != gib


def test_fleets_are_kept_and_a_link_shows_the_same_elsewhere(page, served, browser):
    explore(page, served)
    page.locator(SHAPE).select_option("three")
    expect(page).to_have_url(re.compile("shape=three"))
    page.get_by_role("button", name="Keep").click()
    expect(page).to_have_url(re.compile("compared="))
    page.locator(SHAPE).select_option("small")
    expect(page).to_have_url(re.compile("shape=small"))
    rows = page.locator(".kept tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("A · Three kinds 0.71/1.31/1.91")
    fresh = browser.new_context(viewport=SCREEN).new_page()
    explore(fresh, *page.url.rsplit("/", 1))
    expect(fresh.locator(SHAPE)).to_have_value("small")
    assert fresh.locator(".kept tbody").inner_text() == page.locator(".kept tbody").inner_text()
    fresh.context.close()
    page.get_by_role("button", name="Forget A").click()
    expect(page).not_to_have_url(re.compile("compared="))


def test_back_forward_and_reload_show_what_was_there(page, served):
    explore(page, served)
    first = point(page)
    page.locator(".point").press("PageUp")
    expect(page).to_have_url(re.compile("total=110"))
    moved = point(page)
    assert moved != first
    for act, there in ((page.go_back, first), (page.go_forward, moved), (page.reload, moved)):
        act()
        expect(page.locator(".point")).to_have_attribute("aria-valuetext", re.compile(f"^{there[0]:.1f} gib"))


def test_the_address_is_that_of_the_last_of_some_moves_in_one_instant_also_after_back(page, served):
    explore(page, served, "?embed_options=light_theme&clients=12")
    choose = """(select, names) => names.forEach((name) =>
        Object.assign(select, { value: name }).dispatchEvent(new Event("change", { bubbles: true })))"""
    back = """new Promise((done) => { addEventListener("popstate", done, { once: true }); history.back(); })"""
    page.locator(SHAPE).evaluate(choose, ["bell", "two", "bell", "two", "bell"])
    expect(page).to_have_url(re.compile("embed_options=light_theme&shape=bell&clients=12$"))
    page.wait_for_selector(ANSWERED)
    page.go_back()
    expect(page.locator(SHAPE)).to_have_value("two")
    page.locator(SHAPE).evaluate(f"(...all) => (({choose})(...all), {back})", ["small", "gpus"])
    expect(page).to_have_url(re.compile("shape=small"))
    expect(page.locator(SHAPE)).to_have_value("small")


def test_fifteen_fast_choices_end_where_the_last_one_points(page, served):
    explore(page, served)
    names = ["bell", "two", "gpus", "small", "three"] * 3
    for name in names:
        page.locator(SHAPE).select_option(name)
    expect(page).to_have_url(re.compile("shape=three"))
    page.wait_for_selector(ANSWERED)
    expect(page.locator(SHAPE)).to_have_value("three")
    expect(page.get_by_label("Medium")).to_be_visible()
    expect(page.locator(".warn")).to_be_hidden()


def test_a_number_out_of_range_and_a_file_that_is_no_fleet_keep_the_former_fleet(page, served):
    explore(page, served)
    page.locator("[data-field=clients]").fill("5000")
    page.keyboard.press("Enter")
    expect(page.locator(".warn")).to_contain_text(
        "Clients is 5000; it must be from 1 to 2000. The former value is used."
    )
    expect(page.locator("[data-field=clients]")).to_have_value("50")
    page.locator(SHAPE).select_option("list")
    expect(page).to_have_url(re.compile("shape=list"))
    page.locator(".rows").fill("1 x 20, 1.5, 1.9 x 3")
    page.keyboard.press("Tab")
    expect(page).to_have_url(re.compile("rows=1x20%2C1.5x1%2C1.9x3"))
    page.locator(".file").set_input_files({"name": "x.csv", "mimeType": "text/csv", "buffer": b"a;b\n1;2\n"})
    expect(page.locator(".warn")).to_contain_text("The former fleet stays.")
    expect(page).to_have_url(re.compile("rows=1x20%2C1.5x1%2C1.9x3"))
    page.locator(".file").set_input_files({"name": "y.csv", "mimeType": "text/csv", "buffer": b"vram_gb\n2\n3\n"})
    expect(page).to_have_url(re.compile("rows=1.863x1%2C2.794x1"))


def test_a_page_that_lost_its_server_says_so_and_comes_back(browser, tmp_path):
    page = browser.new_context(viewport=SCREEN).new_page()
    page.set_default_timeout(300_000)
    with server_process(tmp_path) as (address, _):
        explore(page, address)
    page.locator(".point").focus()
    page.keyboard.press("End")
    expect(page.locator(".warn")).to_contain_text("The connection to the server is lost")
    moved = point(page)
    expect(page.locator(".explore")).to_have_attribute("data-answered", "")
    with server_process(tmp_path, port=int(address.rpartition(":")[2])):
        page.wait_for_selector(ANSWERED)
        expect(page.locator(".warn")).to_be_hidden()
        expect(page).to_have_url(re.compile("total=314"))
        assert point(page) == moved
    page.context.close()


def test_a_chosen_claim_is_in_the_address_and_back_undoes_it(page, served):
    page.goto(f"{served}/findings")
    settled(page, "[data-testid=stDataFrame]")
    table = page.locator("[data-testid=stDataFrame]")
    shown = page.locator("h2:visible")  # the two headings of the closed lists are not
    for row in (2, 0):  # the header comes before row 0
        table.click(position={"x": 14, "y": 35 * (row + 1) + 17})
        expect(page.get_by_text("Decided by")).to_be_visible()
        settled(page, "[data-testid=stDataFrame]")
    second = shown.inner_text()
    page.go_back()
    expect(shown).not_to_have_text(second)
    page.go_forward()
    expect(shown).to_have_text(second)
    page.reload()
    expect(shown).to_have_text(second)


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
    expect(page.locator(SHAPE)).to_have_value("bell")
    expect(page.locator("[data-field=clients]")).to_have_value("15")
    page.get_by_role("link", name="Findings").last.click()
    expect(page.locator("h1")).to_have_text(HEADINGS["Findings"])


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
