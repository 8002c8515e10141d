"""The real dashboard in a real browser: a server on a free loopback port, and Chromium kept from the network."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from zorba_core.plots import pictures

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--font-render-hinting=none",  # the headless shell's letters, as Chromium draws them
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
_AT_REST = """() => {
    const fades = document.getAnimations().some(each => each.playState === 'running'
        && each.effect.getComputedTiming().iterations !== Infinity);
    const rests = document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
        && !document.querySelector("[data-stale=true]") && !fades;
    if (!rests) window.restedSince = null;
    else window.restedSince ??= performance.now();
    return rests && performance.now() - window.restedSince > 500;
}"""
ANSWERED = ".explore[data-answered]:not([data-answered=''])"  # the page Explore with the core's answers


@contextlib.contextmanager
def serve(runs_folder: Path | None = None, timeout: float = 400.0) -> Iterator[str]:
    """The dashboard's address. ``runs_folder`` stands in for artifacts/runs."""
    with server_process(runs_folder, timeout) as (address, _):
        yield address


@contextlib.contextmanager
def server_process(
    runs_folder: Path | None = None, timeout: float = 400.0, port: int | None = None
) -> Iterator[tuple[str, int]]:
    """The address and the process of the dashboard."""
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    command = ["zorba_core", "app", "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if runs_folder is not None:
        environment["ZORBA_RUNS"] = str(runs_folder)
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_healthy(f"http://127.0.0.1:{port}/_stcore/health", server, timeout)
            yield f"http://127.0.0.1:{port}", server.pid
        except Exception:
            log.seek(0)
            print(log.read()[-4000:], file=sys.stderr)
            raise
        finally:
            server.terminate()
            server.wait(timeout=120)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The distribution's Chromium without a screen, or its headless shell, which loads a page with less work."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pictures.browser(), args=list(CHROMIUM_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def settled(page: Page, selector: str, timeout_s: float = 300.0) -> None:
    """Wait until ``selector`` is there and the page is at rest: no rerun, nothing stale or fading, for half a second.

    A rest has to last because a page is also at rest before its first rerun and between two.
    """
    page.wait_for_selector(selector, timeout=1000 * timeout_s)
    page.evaluate("window.restedSince = null")
    page.wait_for_function(_AT_REST, timeout=1000 * timeout_s, polling=100)


def _wait_until_healthy(url: str, server: subprocess.Popen, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the dashboard ended with status {server.returncode} before it answered")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the dashboard did not answer within {timeout:.0f} s")
