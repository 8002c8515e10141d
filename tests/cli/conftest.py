"""The command in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.command import call


@pytest.fixture
def zorba() -> Callable[..., tuple[int, str, str]]:
    """``zorba`` with these arguments; returns (exit status, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        left = call(*map(str, arguments))
        return left.status, left.out, left.err

    return run
