"""Every page for everyone: axe-core in both themes, and a screen at 200 %.

One server and one browser, one walk through the pages in each theme: a page is reached by the menu, as people do. What
Streamlit itself draws around the pages (its list of pages, its chart toolbar) is left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.screens.registry import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python, which has axe-core")


from tests.app.serving import serve, settled  # noqa: E402

PATIENCE_MS = 120_000
SCREEN, ZOOMED = {"width": 1440, "height": 900}, {"width": 720, "height": 450}  # the second: at 200 %
NOT_OURS = [
    "[data-testid=stSidebarNav]",
    ".modebar",
    "[data-testid=stDataFrame]",
    "[data-testid=stHeaderActionElements]",
    ".katex-display",
]
# Only the rules whose findings count here; those without a result would be worked out for nothing.
RUN = """(left) => axe.run({ exclude: left.map((each) => [each]) },
    { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] })"""
WIDER_BY = """() => {
    const main = document.querySelector("[data-testid=stMain]");
    return main.scrollWidth - main.clientWidth;
}"""


def problems(page) -> list[str]:
    result = page.evaluate(RUN, NOT_OURS)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in result["violations"]
        if violation["impact"] in ("serious", "critical") or violation["id"] == "heading-order"
        for node in violation["nodes"]
    ]


def go_to(page, entry) -> None:
    """By the menu."""
    before = page.locator("h1").first.inner_text()
    menu = page.locator("[data-testid=stExpandSidebarButton]")
    if menu.is_visible():  # on a small screen
        menu.click()
    place = [each.name for each in PAGES.values()].index(entry.name)
    page.locator("[data-testid=stSidebarNavLink]").nth(place).click()
    page.wait_for_function(
        "before => document.querySelector('h1') && document.querySelector('h1').innerText !== before",
        arg=before,
        timeout=PATIENCE_MS,
    )
    settled(page, "h1", timeout_s=PATIENCE_MS / 1000)


@pytest.fixture(scope="module")
def walks(browser):
    """What was seen on the way: (theme, page) to what axe says; page to pixels beyond the screen."""
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    violations, wider = {}, {}
    with serve() as address:
        for theme, size in (("light", SCREEN), ("dark", SCREEN), ("light", ZOOMED)):
            context = browser.new_context(color_scheme=theme, viewport=size, reduced_motion="reduce")
            page = context.new_page()
            page.goto(f"{address}/?clients=12&vectors=40", timeout=PATIENCE_MS)
            settled(page, "h1", timeout_s=PATIENCE_MS / 1000)
            page.evaluate(script)
            first = next(entry for entry in PAGES.values() if entry.name == "tradeoff")
            for entry in [first, *(entry for entry in PAGES.values() if entry is not first)]:
                if entry is not first:
                    go_to(page, entry)
                if size == ZOOMED:
                    wider[entry.title] = page.evaluate(WIDER_BY)
                    continue
                violations[theme, entry.title] = problems(page)
            context.close()
    return violations, wider


def test_no_page_has_a_serious_violation_in_either_theme(walks):
    violations, _ = walks
    assert len(violations) == 2 * len(PAGES)
    assert {page: lines for page, lines in violations.items() if lines} == {}


def test_at_200_percent_no_page_is_wider_than_the_screen(walks):
    _, wider = walks
    assert {page: pixels for page, pixels in wider.items() if pixels > 1} == {}
