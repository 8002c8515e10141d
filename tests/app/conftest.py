"""What the tests of the dashboard share: the app without a browser, and a browser."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from streamlit.components.v2 import manifest_scanner

from app.parts.ui import WRONG

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from streamlit.testing.v1 import AppTest

TIMEOUT_S = 400
PACKAGES = functools.cache(manifest_scanner.scan_component_manifests)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a file. Not for the session: playwright's loop would run on beneath the tests of other files."""
    from tests.app.serving import chromium

    with chromium() as running:
        yield running


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """The runs folder of the dashboard under test; nothing is in it."""
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def app(root, runs, monkeypatch) -> AppTest:
    """The dashboard without a browser, on the page Explore; it runs where a test sets its query and calls run.

    Streamlit would read the metadata of all installed packages at each run of a page. Here it reads them once.
    """
    from streamlit.testing.v1 import AppTest

    monkeypatch.setattr(manifest_scanner, "scan_component_manifests", PACKAGES)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=TIMEOUT_S)


def texts(app: AppTest) -> str:
    """All that a page says. The page itself must not have failed, which an error box hides from ``app.exception``."""
    parts = [*app.title, *app.header, *app.markdown, *app.caption, *app.warning, *app.info, *app.error]
    said = "\n".join(part.value for part in parts)
    assert not app.exception
    assert WRONG not in said
    return said
