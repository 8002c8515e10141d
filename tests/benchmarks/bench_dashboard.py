"""How fast the dashboard answers, and what it keeps: `python -m tests.benchmarks.bench_dashboard [FILE [SCALE]]`.

At N=50, M=24 and at N=1000, M=48, both with E=1000 and the default solver: the study alone, the script that Streamlit
reruns (AppTest), and in a real browser, on every page, the time from a key press or click on each control to the first
frame with another picture. Then the server's memory over many interactions in one session and over many sessions.
Writes medians and 95th percentiles, with what they were measured on; asserts nothing. SCALE below 1 repeats everything
less often.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page
from streamlit.testing.v1 import AppTest

from app.shared.scenario import Scenario
from app.shared.scenario_link import scenario_to_link
from app.shared.study import study
from tests.app.serving import FRONT_POINT, ROOT, chromium, server_process, settled
from tests.app.shown import TRADE_OFF
from tests.benchmarks.dashboard_controls import PLACES, Place, time_a_change
from zorba_core.files import write_json

SIZES = {
    "N=50, M=24, E=1000": Scenario(model="opt-350m", num_clients=50),
    "N=1000, M=48, E=1000": Scenario(model="opt-30b", num_clients=1000),
}
REPEATS, INTERACTIONS, SESSIONS = 12, 500, 20
VIEWPORT = {"width": 1440, "height": 1500}


def main(target: Path, scale: float = 1.0) -> None:
    repeats = max(2, round(REPEATS * scale))
    load_before = os.getloadavg()
    with server_process() as (address, pid), chromium() as browser:
        result = {
            "what": "the dashboard's controls, from key press or click to the first frame with another picture",
            "sizes": {
                name: {
                    "study_ms": _spread(_studies(scenario, repeats)),
                    "script_rerun_ms": _spread(_reruns(scenario, repeats)),
                    **_in_browser(browser, address, scenario, repeats),
                }
                for name, scenario in SIZES.items()
            },
            "pages_without_a_fleet": _all_controls(
                browser, address, "", repeats, [name for name, place in PLACES.items() if not place.sized]
            ),
            "two_visitors": _two_visitors(browser, address, repeats),
            "figure_export": _exports(browser, address, repeats),
            "memory": _memory(browser, address, pid, scale),
        }
    result |= {
        "repeats": repeats,
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


def _studies(scenario: Scenario, repeats: int) -> list[float]:
    return [_timed(lambda seed=seed: study(replace(scenario, seed=seed))) for seed in range(repeats)]


def _reruns(scenario: Scenario, repeats: int) -> list[float]:
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=300).switch_page(TRADE_OFF)
    for key, value in scenario_to_link(scenario).items():
        app.query_params[key] = value
    app.run()
    return [_timed(lambda seed=seed: app.number_input(key="seed").set_value(seed).run()) for seed in range(1, repeats)]


def _in_browser(browser: Browser, address: str, scenario: Scenario, repeats: int) -> dict:
    link = "&".join(f"{key}={value}" for key, value in scenario_to_link(scenario).items())
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    first = [_load(page, f"{address}/?{link}") for _ in range(1 + max(2, repeats // 2))]
    context.close()
    return {
        "first_picture_cold_ms": round(first[0], 1),
        "first_picture_warm_ms": _spread(first[1:]),
        **_all_controls(browser, address, link, repeats, [name for name, place in PLACES.items() if place.sized]),
    }


def _all_controls(browser: Browser, address: str, link: str, repeats: int, names: Sequence[str]) -> dict:
    """Every control of the pages ``names``. Each is tried once before it is measured: the first time shows something
    that no cache has."""
    taken = {name: _controls(browser, PLACES[name].address(address, link), PLACES[name], repeats) for name in names}
    everything = [value for page in taken.values() for values in page.values() for value in values]
    return {
        "control_to_picture_ms": {
            name: {control: _spread(values) for control, values in page.items()} for name, page in taken.items()
        },
        "any_control_to_picture_ms": _spread(everything),
    }


def _controls(browser: Browser, url: str, place: Place, repeats: int) -> dict[str, list[float]]:
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url, timeout=300_000)
    settled(page, place.ready, timeout_s=300)
    page.wait_for_timeout(1000)
    taken = {}
    for name, control in place.controls.items():
        time_a_change(page, control, 0)
        taken[name] = [time_a_change(page, control, turn) for turn in range(1, repeats + 1)]
    context.close()
    return taken


def _two_visitors(browser: Browser, address: str, repeats: int) -> dict:
    """A control of the one, pressed while the server answers the other, who has just changed another scenario."""
    link = f"{address}/?model=opt-350m"
    contexts = [browser.new_context(viewport=VIEWPORT, reduced_motion="reduce") for _ in range(2)]
    here, there = (context.new_page() for context in contexts)
    _load(here, link)
    _load(there, link + "&seed=5000")
    taken: dict[str, list[float]] = {name: [] for name in ("seed", "preference")}
    other = PLACES["trade-off"].controls["seed"]
    for name, values in taken.items():
        control = PLACES["trade-off"].controls[name]
        time_a_change(here, control, 0)
        for turn in range(1, repeats + 1):
            other.aim(there, turn)
            other.touch(there, turn)
            values.append(time_a_change(here, control, turn))
            settled(there, FRONT_POINT, timeout_s=300)
    for context in contexts:
        context.close()
    return {"control_to_picture_ms": {name: _spread(values) for name, values in taken.items()}}


def _exports(browser: Browser, address: str, repeats: int) -> dict:
    """From a click on a format to the file, in the dialog of the trade-off's figure; and how long its first preview
    takes, for which a browser starts on the server."""
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    _load(page, f"{address}/?model=opt-350m")
    page.get_by_role("button", name="Figure", exact=True).click()
    preview = _timed(lambda: page.locator("[role=dialog] img").wait_for(timeout=300_000))

    def export(suffix: str) -> None:
        with page.expect_download(timeout=300_000) as download:
            page.locator("[role=dialog]").get_by_role("button", name=suffix, exact=True).click()
        download.value.path()

    taken = {suffix: [_timed(lambda: export(suffix)) for _ in range(repeats)] for suffix in ("PDF", "SVG", "PNG")}  # noqa: B023
    context.close()
    return {
        "first_preview_ms": round(preview, 1),
        "click_to_file_ms": {suffix: _spread(values) for suffix, values in taken.items()},
    }


def _memory(browser: Browser, address: str, pid: int, scale: float) -> dict:
    """Resident memory of the server, in MiB. Scenarios are never repeated, so that nothing comes from a cache."""
    link = f"{address}/?model=opt-350m"
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    _load(page, link)
    control, interactions = PLACES["trade-off"].controls["seed"], max(20, round(INTERACTIONS * scale))
    course = [_resident_mib(pid)]
    for turn in range(interactions):
        time_a_change(page, control, turn, pause_ms=60)
        if (turn + 1) % max(1, interactions // 10) == 0:
            course.append(_resident_mib(pid))
    context.close()
    sessions = [_resident_mib(pid)]
    for _ in range(max(3, round(SESSIONS * scale))):
        visitor = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
        _load(visitor.new_page(), link)
        visitor.close()
        sessions.append(_resident_mib(pid))
    return {
        "interactions": interactions,
        "resident_mib_over_interactions": course,
        "sessions": len(sessions) - 1,
        "resident_mib_over_sessions": sessions,
    }


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError(f"process {pid} does not say how much memory it holds")


def _load(page: Page, url: str) -> float:
    def load() -> None:
        page.goto(url, timeout=300_000, wait_until="commit")
        page.wait_for_selector(FRONT_POINT, timeout=300_000)

    taken = _timed(load)
    settled(page, FRONT_POINT)
    page.wait_for_timeout(500)
    return taken


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def _spread(values_ms: list[float]) -> dict[str, float]:
    median, p95 = np.percentile(values_ms, [50, 95])
    return {"median": round(float(median), 1), "p95": round(float(p95), 1), "max": round(max(values_ms), 1)}


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "artifacts" / "benchmarks" / "dashboard.json",
        float(sys.argv[2]) if len(sys.argv) > 2 else 1.0,
    )
