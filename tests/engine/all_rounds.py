"""A whole run of the engine in one call."""

from __future__ import annotations

from zorba_core.engine.loop import train
from zorba_core.engine.round import Round


def run_all(*arguments, **options) -> list[Round]:
    """Every round of :func:`zorba_core.engine.loop.train`, the base model's evaluation first."""
    return list(train(*arguments, **options))
