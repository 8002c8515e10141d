"""One journey in a real browser: start a run, reload, close everything, come back, stop it, resume it, lose power."""

from __future__ import annotations

import os
import re
import signal
from urllib.parse import parse_qs, urlsplit

import pytest

from app.screens.train.jobs import list_jobs, log_lines, state_of
from app.screens.train.process_identity import resident_bytes
from app.screens.train.processes import being_written, stop
from zorba_core.runs import TRAJECTORY, read_run
from zorba_core.runs.trajectory import read_trajectory

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import chromium, serve, settled  # noqa: E402

PATIENCE_MS = 240_000  # for a machine with much else to do
FORM = "[class*=st-key-train_start] button:visible"
# Twelve clients, one small batch and one direction: a round takes a fraction of a second.
QUICK = "/train?clients=12&vectors=50&train_rounds=600&train_q=1&train_batch=1&train_length=32&train_every=20"


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    yield folder
    for job in list_jobs(folder).jobs:  # nothing that a test started outlives it
        stop(folder, job)
        stop(folder, job)  # at once


def rounds_shown(page) -> int:
    found = re.search(r"Round (\d+) of", page.locator("[data-testid=stProgress]").first.inner_text())
    return int(found.group(1)) if found else 0


def wait_for_rounds(page, least: int) -> None:
    page.wait_for_function(
        "least => { const bar = document.querySelector('[data-testid=stProgress]');"
        " const found = bar && bar.innerText.match(/Round (\\d+) of/); return found && Number(found[1]) >= least }",
        arg=least,
        timeout=PATIENCE_MS,
    )


def test_a_run_started_in_the_browser_survives_reload_and_restart_and_goes_on_where_it_stopped(runs):
    with chromium() as browser:
        with serve(runs_folder=runs) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 1400})
            page.goto(address + QUICK)
            settled(page, FORM, timeout_s=PATIENCE_MS / 1000)
            page.get_by_role("button", name="Start", exact=True).click()
            page.wait_for_selector("[class*=st-key-stop_]", timeout=PATIENCE_MS)
            job = parse_qs(urlsplit(page.url).query)["job"][0]
            wait_for_rounds(page, 3)
            before = rounds_shown(page)

            page.reload()
            wait_for_rounds(page, before)
            page.wait_for_selector("[class*=st-key-live_accuracy] .main-svg", timeout=PATIENCE_MS)
            page.close()
        # The app is gone; the run is not.
        going = list_jobs(runs).jobs[0]
        assert going.id == job
        assert state_of(runs, going).alive

        with serve(runs_folder=runs) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 1400})
            page.goto(f"{address}/train")
            wait_for_rounds(page, before)
            page.get_by_role("button", name="Stop", exact=True).click()
            page.get_by_role("button", name="Resume", exact=True).wait_for(timeout=PATIENCE_MS)
            stopped = read_run(state_of(runs, going).run).summary
            assert stopped.get("stopped_by") == "interrupt", "\n".join(log_lines(runs, going, 40))

            page.get_by_role("button", name="Resume", exact=True).click()
            wait_for_rounds(page, stopped["rounds_done"] + 2)
            assert "Traceback" not in page.locator("body").inner_text()
            resumed = list_jobs(runs).jobs[0]
            assert resident_bytes(resumed.pid) > 50e6
            assert being_written(state_of(runs, resumed).run)
            os.kill(resumed.pid, signal.SIGKILL)  # the machine's power goes
            page.get_by_role("button", name="Resume", exact=True).wait_for(timeout=PATIENCE_MS)
            page.get_by_text("The process ended without a message").wait_for(timeout=PATIENCE_MS)
    (run,) = (path for path in runs.iterdir() if not path.name.startswith("."))
    trajectory = read_trajectory(run / TRAJECTORY)
    assert trajectory.rounds_done >= stopped["rounds_done"] + 2
    assert trajectory.resumed_after == (stopped["rounds_done"],)
    assert not being_written(run)
    assert len(list_jobs(runs).jobs) == 2
