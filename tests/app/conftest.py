"""What the tests of the dashboard share: the app without a browser, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from streamlit.testing.v1 import AppTest

TIMEOUT_S = 120


@pytest.fixture(scope="session", autouse=True)
def streamlit_as_here() -> Iterator[None]:
    """``AppTest`` does not read app/.streamlit/config.toml, and reads the metadata of every installed package at its
    first run; none comes while the tests run."""
    from streamlit import config
    from streamlit.components.v2 import manifest_scanner

    config.set_option("runner.magicEnabled", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a file. Not for the session: playwright's loop would run on beneath the tests of other files."""
    from tests.app.serving import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def runs(tmp_path) -> Path:
    """The runs folder of the dashboard under test; nothing is in it."""
    return tmp_path / "runs"


@pytest.fixture
def no_experiments(tmp_path, monkeypatch) -> None:
    """The committed experiments are not there."""
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "none"))


@pytest.fixture
def app(root, runs, monkeypatch) -> AppTest:
    """The dashboard without a browser, on the Trade-off page; it runs where a test sets its query and calls run."""
    from streamlit.testing.v1 import AppTest

    from tests.app.shown import TRADE_OFF

    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(runs))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)
