"""Rows of one's own in a real browser: upload a CSV, map its columns, start, wait for the end, and try the model."""

from __future__ import annotations

import csv
import random

import pytest

from app.screens.train.jobs import list_jobs, state_of
from app.screens.train.processes import stop
from zorba_core.runs import read_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]
playwright = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

from tests.app.serving import chromium, serve, settled  # noqa: E402

PATIENCE_MS = 240_000  # for a machine with much else to do
FORM = "[class*=st-key-train_start] button:visible"
# Twelve clients, one small batch and one direction, three rounds.
QUICK = (
    "/train?clients=12&vectors=50&train_dataset=own&train_rows=upload"
    "&train_rounds=3&train_q=1&train_batch=2&train_length=24&train_every=3&train_force=1"
)
WORDS = {"Refund": "money back", "Parcel": "where is my box", "Login": "the password fails"}


@pytest.fixture
def tickets(tmp_path):
    rng, path = random.Random(1), tmp_path / "my tickets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "message", "topic"])
        for number in range(90):
            topic = rng.choice(list(WORDS))
            rows.writerow([number, f"{WORDS[topic]}, please, order {number}", topic])
    return path


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    yield folder
    for job in list_jobs(folder).jobs:  # nothing that a test started outlives it
        stop(folder, job)
        stop(folder, job)  # at once


def test_an_uploaded_file_becomes_a_run_whose_model_answers(runs, tickets):
    with chromium() as browser, serve(runs_folder=runs) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 1800})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(address + QUICK)
        page.wait_for_selector("[class*=st-key-train_upload]")
        page.set_input_files("[class*=st-key-train_upload] input[type=file]", str(tickets))
        settled(page, FORM, timeout_s=PATIENCE_MS / 1000)
        prompt = page.get_by_role("textbox", name="What the model reads")
        playwright.expect(prompt).to_have_value("{message} Topic:", timeout=PATIENCE_MS)
        prompt.fill("{message} This is about")
        prompt.press("Tab")
        page.wait_for_function("() => document.body.innerText.includes(' This is about ')")  # the example follows
        settled(page, FORM, timeout_s=PATIENCE_MS / 1000)
        playwright.expect(page.locator("body")).to_contain_text("90 rows, 3 labels", timeout=PATIENCE_MS)
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("link", name="Open in Runs").wait_for()
        (job,) = list_jobs(runs).jobs
        run = read_run(state_of(runs, job).run)
        assert run.path.name.startswith("my-tickets-opt-mini-")
        assert run.config["task"]["prompt"] == "{message} This is about"
        assert run.config["task"]["label_names"] == sorted(WORDS)

        page.get_by_role("link", name="Open in Runs").click()
        page.get_by_placeholder("type a text").fill("the password fails")
        page.get_by_role("button", name="Predict", exact=True).click()
        page.wait_for_selector("[class*=st-key-answer_plot] .main-svg")
        body = page.locator("body").inner_text()
        assert "Traceback" not in body
        answer = run.predict("the password fails", base=True)
        assert answer["prediction"][0] in body
        page.close()
    (kept,) = (runs / ".uploads").glob("*/my-tickets.csv")
    assert kept.read_bytes() == tickets.read_bytes()
    assert (runs / ".uploads" / ".gitignore").read_text() == "*\n"  # rows never enter the repository
