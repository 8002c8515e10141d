"""People's ways through the dashboard, in a real browser: how many clicks, how many seconds, and was what it said true?

``newcomer``: the first page as it opens, one rehearsal, its first accuracy and its end, beside the estimates that stood
at the button. ``engineer``: 200 mixed cards are typed, the answer. ``researcher``: an address from a colleague, the
figure as a PDF. Each in a context of its own; a rehearsal takes about two minutes.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.app.serving import FRONT_POINT, chromium, serve, settled

VIEWPORT = {"width": 1440, "height": 900}
CARDS = "96 x RTX 3090, 24 GB\n64 x A100, 80 GB\n30 x RTX 2080 Ti, 11 GB\n10 x T4, 16 GB ~ 0.5"
LINK = "/tradeoff?clients=200&model=opt-350m&weight=70"
_PATIENCE_MS = 300_000
_REHEARSE = ".st-key-start_rehearse button:enabled:visible"
_ESTIMATE = re.compile(r"About (.+?): .*first accuracy after (.+?)\.(?:$|\s)", re.DOTALL)
_UNITS = {"s": 1, "min": 60, "h": 3600}


def journeys(browser: Browser) -> dict[str, Any]:
    """On a server of their own, whose runs folder is empty."""
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as address:
        return {
            name: _in_context(browser, address, walk)
            for name, walk in (("newcomer", _newcomer), ("engineer", _engineer), ("researcher", _researcher))
        }


def _in_context(browser: Browser, address: str, walk: Any) -> dict[str, Any]:
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    try:
        return walk(context.new_page(), address)
    finally:
        context.close()


def _newcomer(page: Page, address: str) -> dict[str, Any]:
    opened = time.perf_counter()
    page.goto(address, timeout=_PATIENCE_MS)
    button = page.locator(_REHEARSE).first
    button.wait_for(timeout=_PATIENCE_MS)
    settled(page, _REHEARSE)
    answered = time.perf_counter()
    words = page.locator("[data-testid=stCaptionContainer]").filter(has_text="first accuracy after").first.inner_text()
    whole, first = (_seconds(said) for said in _ESTIMATE.search(words).groups())
    page.wait_for_timeout(2000)  # reads it
    started = time.perf_counter()
    button.click()
    page.wait_for_selector("[class*=st-key-live_accuracy] .main-svg .point", timeout=_PATIENCE_MS)
    seen = time.perf_counter() - started
    page.get_by_role("link", name="Open in Runs").wait_for(timeout=_PATIENCE_MS)
    ended = time.perf_counter() - started
    return {
        "clicks": 1,
        "page_to_answer_s": round(answered - opened, 2),
        "first_accuracy_s": round(seen, 1),
        "first_accuracy_said_s": first,
        "run_s": round(ended, 1),
        "run_said_s": whole,
        "run_to_said": round(ended / whole, 2),
    }


def _engineer(page: Page, address: str) -> dict[str, Any]:
    page.goto(address, timeout=_PATIENCE_MS)
    settled(page, _REHEARSE, timeout_s=_PATIENCE_MS / 1000)
    cards = page.locator("[class*=st-key-my_cards] textarea").first
    cards.fill(CARDS)
    started = time.perf_counter()
    cards.press("Control+Enter")
    page.get_by_role("heading", name=re.compile("of 200 cards can train")).wait_for(timeout=_PATIENCE_MS)
    return {"cards": 200, "keys_to_answer_s": round(time.perf_counter() - started, 2)}


def _researcher(page: Page, address: str) -> dict[str, Any]:
    started = time.perf_counter()
    page.goto(address + LINK, timeout=_PATIENCE_MS)
    settled(page, FRONT_POINT, timeout_s=_PATIENCE_MS / 1000)
    drawn = time.perf_counter()
    page.get_by_role("button", name="Figure", exact=True).click()
    page.locator("[role=dialog] img").wait_for(timeout=_PATIENCE_MS)
    with page.expect_download(timeout=_PATIENCE_MS) as download:
        page.locator("[role=dialog]").get_by_role("button", name="PDF", exact=True).click()
    download.value.path()
    return {
        "clicks": 2,
        "link_to_picture_s": round(drawn - started, 2),
        "picture_to_file_s": round(time.perf_counter() - drawn, 2),
    }


def _seconds(words: str) -> float:
    """Of ``48 s``, ``6 min`` or ``2 h 10 min``."""
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+) (s|min|h)\b", words))


if __name__ == "__main__":
    with chromium() as running:
        print(journeys(running))
