"""How fast the dashboard answers: `python -m tests.benchmarks.bench_dashboard [FILE]`.

A change of one control (the seed) at N=50, M=24, E=1000 with the default solver, three ways: the study alone, the
script that Streamlit reruns (AppTest), and the real browser from the key press to the redrawn front. Writes medians and
95th percentiles, with what they were measured on; asserts nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from app.scenario import Scenario, study
from tests.app.serving import FRONT_POINT, ROOT, chromium, serve, settled
from zorba_core.files import write_json

REPEATS = 30
MODEL = "opt-350m"  # 24 blocks
SEED_BOX = "[data-testid=stSidebar] input[aria-label=Seed]"
# Resolves with the milliseconds from the Enter that commits the number to the first frame with another front.
TIME_A_CHANGE = """
() => new Promise(resolve => {
  const line = () => document.querySelector('[class*=st-key-front_plot] .scatterlayer path.js-line')?.getAttribute('d')
  const before = line()
  addEventListener('keydown', event => {
    if (event.key !== 'Enter') return
    const start = performance.now()
    const look = () => {
      const now = line()
      if (now && now !== before) requestAnimationFrame(() => resolve(performance.now() - start))
      else requestAnimationFrame(look)
    }
    look()
  }, {capture: true, once: true})
})
"""


def main(target: Path) -> None:
    load_before = os.getloadavg()
    result = {
        "what": f"change of seed to new front, N=50, {MODEL} (M=24), E=1000, balanced",
        "study_ms": _spread(_studies()),
        "script_rerun_ms": _spread(_reruns()),
        **_browser(),
        "repeats": REPEATS,
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "cpus": os.cpu_count(),
            "load_average_before": load_before,
            "load_average_after": os.getloadavg(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("streamlit", "plotly", "numpy", "playwright")},
        },
    }
    write_json(target, result)
    print(target.read_text())


def _studies() -> list[float]:
    scenario = [Scenario(model=MODEL, seed=seed) for seed in range(REPEATS)]
    return [_timed(lambda chosen=chosen: study(chosen)) for chosen in scenario]


def _reruns() -> list[float]:
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=120)
    app.query_params["model"] = MODEL
    app.run()
    return [_timed(lambda seed=seed: app.number_input(key="seed").set_value(seed).run()) for seed in range(1, REPEATS)]


def _browser() -> dict:
    with serve() as address, chromium() as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 1500}, reduced_motion="reduce")
        page = context.new_page()
        first = [_load(page, f"{address}/?model={MODEL}") for _ in range(6)]
        page.wait_for_timeout(1000)
        box = page.locator(SEED_BOX)
        changes = []
        for seed in range(1, REPEATS + 1):
            box.fill(str(seed))
            page.evaluate(f"() => {{ window.__change = ({TIME_A_CHANGE})() }}")
            page.keyboard.press("Enter")
            changes.append(page.evaluate("window.__change"))
            page.wait_for_timeout(400)
    return {
        "browser_change_to_front_ms": _spread(changes),
        "browser_first_picture_cold_ms": first[0],
        "browser_first_picture_warm_ms": _spread(first[1:]),
    }


def _load(page: Page, url: str) -> float:
    def load() -> None:
        page.goto(url)
        page.wait_for_selector(FRONT_POINT, timeout=120_000)

    taken = _timed(load)
    settled(page, FRONT_POINT)
    return taken


def _timed(action) -> float:
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def _spread(values_ms: list[float]) -> dict[str, float]:
    median, p95 = np.percentile(values_ms, [50, 95])
    return {"median": round(float(median), 1), "p95": round(float(p95), 1), "max": round(max(values_ms), 1)}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "artifacts" / "benchmarks" / "dashboard.json")
