"""A part of a page that reruns by itself: the same care for errors that the whole page gets."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator

import streamlit as st

from app.shared import components
from zorba_core.errors import ZorbaError


@contextlib.contextmanager
def shown_errors(what: str) -> Iterator[None]:
    """Within the context, an error is one sentence on the page; the log says that ``what`` failed where it is ours."""
    try:
        yield
    except ZorbaError as error:
        components.problem("This cannot be shown", str(error))
    except Exception:
        logging.getLogger("zorba.app").exception("%s failed", what)
        components.problem(
            "Something went wrong on our side",
            "The details are in the terminal that runs the dashboard. Change a control, or reload the page, to "
            "continue.",
        )


def guarded(part: Callable[..., None]) -> Callable[..., None]:
    """``part`` with its errors shown: when it reruns alone, main.py cannot show them."""

    @functools.wraps(part)
    def careful(*arguments, **named) -> None:
        with shown_errors(part.__name__):
            part(*arguments, **named)

    return careful


def fragment(part: Callable[..., None]) -> Callable[..., None]:
    """``st.fragment`` with the same care for errors."""
    return st.fragment(guarded(part))
