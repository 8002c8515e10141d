"""What the browser tests of the dashboard share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a file. Not for the session: playwright's loop would run on beneath the tests of other files."""
    from tests.app.serving import chromium

    with chromium() as running:
        yield running
