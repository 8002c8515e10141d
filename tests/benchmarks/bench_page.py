"""From a move of the pointer to the picture of the page Explore, and from a release to the core's answer, in Chromium.

    python -m tests.benchmarks.bench_page [FILE]

For fleets of 50 and 1,000 clients: the point dragged along the curve, and a bar painted, in steps of a real mouse. Each
move's time is from the event to the paint of the first frame that shows it. `answer_ms` is from the release to the
frame with the core's answers. Run it on a quiet machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page

from tests.app.serving import ANSWERED, chromium, serve
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/page.json")
CLIENTS, STEPS, DRAGS = (50, 1000), 60, 3
# Waits of the moves, and of the answers after a release, of the component in a page.
_WATCH = """() => {
    const host = [...document.querySelectorAll('*')].find((each) => each.shadowRoot?.querySelector('.explore'));
    const root = host.shadowRoot.querySelector('.explore');
    const waits = (window.waits = { move: [], draw: [], answer: [] });
    let moved = null, released = null;
    root.addEventListener('pointermove', (event) => { if (event.buttons) moved ??= event.timeStamp; }, true);
    root.addEventListener('pointerup', (event) => { released = event.timeStamp; }, true);
    const paint = new MessageChannel();
    paint.port1.onmessage = ({ data }) => waits.move.push(performance.now() - data);
    new MutationObserver(() => {
        if (moved !== null) { paint.port2.postMessage(moved); moved = null; }
        if (released !== null && root.dataset.answered) {
            waits.answer.push(performance.now() - released);
            released = null;
        }
    }).observe(root, { attributes: true, attributeFilter: ['data-frame', 'data-answered'] });
}"""


def main(file: Path) -> None:
    content: dict[str, Any] = {"machine": environment_of(Settings()), "what": __doc__.splitlines()[0]}
    content |= {"load_before": os.getloadavg()[0], "cases": {}}
    with tempfile.TemporaryDirectory() as runs, serve(Path(runs)) as address, chromium() as browser:
        opened(browser, address, 50)[0].context.close()  # the server imports on its first page
        for clients in CLIENTS:
            page, seconds = opened(browser, address, clients)
            case: dict[str, Any] = {"first_picture_s": seconds}
            for name, part in (("point", ".point"), ("bars", ".bars")):
                case[name] = dragged(page, part)
            page.context.close()
            content["cases"][f"{clients} clients"] = case
            print(clients, case, flush=True)
    write_json(file, content)


def opened(browser: Browser, address: str, clients: int) -> tuple[Page, float]:
    """A page in a new browser, and the seconds from its address to the first picture."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    started = time.perf_counter()
    page.goto(f"{address}/?clients={clients}")
    page.wait_for_selector(".explore:not([data-frame='0'])")
    seconds = time.perf_counter() - started
    page.wait_for_selector(ANSWERED)
    return page, seconds


def dragged(page: Page, part: str) -> dict[str, Any]:
    """Waits in milliseconds of :data:`STEPS` moves, :data:`DRAGS` times to and fro."""
    page.evaluate(_WATCH)
    box = page.locator(part).bounding_box()
    left, wide, y = box["x"] + 0.15 * box["width"], 0.6 * box["width"], box["y"] + 0.3 * box["height"]
    for _ in range(DRAGS):
        page.mouse.move(left, y)
        page.mouse.down()
        for step in [*range(STEPS // 2), *range(STEPS // 2, 0, -1)]:
            page.mouse.move(left + 2 * wide * step / STEPS, y + step % 9)
            page.evaluate("() => new Promise(requestAnimationFrame)")  # moves come at the pace of frames
        page.mouse.up()
        page.wait_for_timeout(300)
        page.wait_for_selector(ANSWERED)
    waits = page.evaluate("window.waits")
    return {
        "moves": len(waits["move"]),
        **{f"p{share}_ms": float(np.percentile(waits["move"], share)) for share in (50, 95, 100)},
        "answer_ms": waits["answer"],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
