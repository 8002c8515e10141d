"""The package's log, shown to people.

All modules log to children of ``logging.getLogger("zorba_core")``: what was inferred, each evaluation, what went wrong.
A program that handles logs gets these records. In other programs :func:`shown` prints them on stderr.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("zorba_core")


class _Lines(logging.Handler):
    """Print records on stderr, above a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(self.format(record), file=sys.stderr)


@contextmanager
def shown(quiet: bool = False, *, always: bool = False) -> Iterator[None]:
    """Context manager: print the package's log on stderr, unless ``quiet``.

    Args:
        always: print it even if the program has a handler for logs.
    """
    handled = bool(_LOGGER.handlers or logging.getLogger().handlers)
    if handled and not always:
        yield
        return
    handler, before = logging.NullHandler() if quiet else _Lines(), _LOGGER.level
    _LOGGER.addHandler(handler)  # without any, Python prints warnings
    _LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before)
