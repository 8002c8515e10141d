"""From a control of the page Explore to its pictures, in Chromium on this machine.

    python -m tests.benchmarks.bench_page [FILE]

Time from the key or click until the last change of the front or the matrix is painted, for fleets of 50 and 1,000
clients; and from the address to the first picture. A slider sends its value when the key or the mouse is let go. Most
of the time is the browser's: the id of a Streamlit chart contains its data, so a figure that changes is drawn anew. The
floor is the smallest Streamlit page with the same parts. Run it on a quiet machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page

from tests.app.serving import FRONT, chromium, serve, settled
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.runs.record import environment_of

DEFAULT_FILE = Path("artifacts/benchmarks/page.json")
CLIENTS, STEPS, SHAPES = (50, 1000), 40, ("Bell", "Two kinds")
MATRIX = ".st-key-matrix .main-svg"
SPEND, FLEET = ".st-key-spend input[type=range]", ".st-key-span input[type=range]"
_WATCH = """() => {
    let begun = null;
    const painted = new MessageChannel();
    painted.port1.onmessage = message => { if (message.data === begun) window.wait = performance.now() - begun; };
    for (const event of ['keydown', 'click']) addEventListener(event, () => {
        begun = performance.now();
        window.wait = null;
    }, true);
    new MutationObserver(changes => {
        const since = begun;
        if (since === null || !changes.some(({ target }) => target.closest('.st-key-front, .st-key-matrix'))) return;
        requestAnimationFrame(() => painted.port2.postMessage(since));
    }).observe(document.body, { childList: true, subtree: true });
}"""


def main(file: Path) -> None:
    content: dict[str, Any] = {"machine": environment_of(Settings()), "what": __doc__.splitlines()[0], "cases": {}}
    with serve(script=Path(__file__).with_name("floor_page.py")) as address, chromium() as browser:
        for clients in CLIENTS:
            case: dict[str, Any] = {"first_picture_s": first_picture(browser, address, clients)}
            case["spend slider"] = percentiles(browser, f"{address}/?clients={clients}", SPEND)
            content["cases"][f"floor, {clients} clients"] = case
            print("floor", clients, case, flush=True)
    with tempfile.TemporaryDirectory() as runs, serve(Path(runs)) as address, chromium() as browser:
        first_picture(browser, address, 50)  # the server imports on its first page
        for clients in CLIENTS:
            case = {"first_picture_s": first_picture(browser, address, clients)}
            for name, control in (("spend slider", SPEND), ("fleet slider", FLEET), ("shape", "")):
                case[name] = percentiles(browser, f"{address}/?clients={clients}", control)
            content["cases"][f"{clients} clients"] = case
            print(clients, case, flush=True)
    write_json(file, content)


def first_picture(browser: Browser, address: str, clients: int) -> float:
    """Seconds from a new browser's address to the front."""
    page = browser.new_context().new_page()
    started = time.perf_counter()
    page.goto(f"{address}/?clients={clients}")
    page.wait_for_selector(FRONT)
    seconds = time.perf_counter() - started
    page.context.close()
    return seconds


def percentiles(browser: Browser, address: str, control: str) -> dict[str, float]:
    """The median and the 95th percentile of the waits after a control's steps, in a new page."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(address)
    settled(page, FRONT)
    page.wait_for_selector(MATRIX, state="attached")
    waits_ms = steps(page, control)
    page.context.close()
    return {f"p{share}_ms": float(np.percentile(waits_ms, share)) for share in (50, 95)}


def steps(page: Page, control: str) -> list[float]:
    """Milliseconds of each of :data:`STEPS` steps of a slider, or clicks between two shapes."""
    page.evaluate(_WATCH)
    waits_ms = []
    if control:
        page.locator(control).first.focus()
    for step in range(STEPS):
        if control:
            page.keyboard.press("ArrowRight" if step % 2 == 0 else "ArrowLeft")
        else:
            page.get_by_role("radio", name=SHAPES[step % 2], exact=True).click()
        page.wait_for_function("window.wait")
        settled(page, FRONT)  # also lets half a second go by
        waits_ms.append(page.evaluate("window.wait"))
    return waits_ms


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
