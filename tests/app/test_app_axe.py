"""No page has a serious accessibility problem of ours, in either theme: axe-core in a real browser.

What Streamlit itself draws around the pages (its list of pages, its chart toolbar) is left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.screens.registry import PAGES

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
axe = pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python, which has axe-core")

from tests.app.serving import chromium, serve, settled  # noqa: E402

PATIENCE_MS = 240_000
NOT_OURS = [
    "[data-testid=stSidebarNav]",
    ".modebar",
    "[data-testid=stDataFrame]",
    "[data-testid=stHeaderActionElements]",
]
RUN = "(left) => axe.run({ exclude: left.map((one) => [one]) }, { resultTypes: ['violations'] })"


def problems(page) -> list[str]:
    result = page.evaluate(RUN, NOT_OURS)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in result["violations"]
        if violation["impact"] in ("serious", "critical") or violation["id"] == "heading-order"
        for node in violation["nodes"]
    ]


def test_no_page_has_a_serious_violation_in_either_theme():
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    found = {}
    with serve() as address, chromium() as browser:
        for theme in ("light", "dark"):
            size = {"width": 1440, "height": 900}
            context = browser.new_context(color_scheme=theme, viewport=size, reduced_motion="reduce")
            page = context.new_page()
            for entry in PAGES.values():
                path = "" if entry.default else entry.name
                few = "?clients=12&vectors=40" if entry.uses_scenario else ""
                page.goto(f"{address}/{path}{few}", timeout=PATIENCE_MS)
                settled(page, "h1", timeout_s=PATIENCE_MS / 1000)
                page.wait_for_timeout(400)
                page.evaluate(script)
                found |= {f"{theme} {entry.title}": lines} if (lines := problems(page)) else {}
            context.close()
    assert found == {}
