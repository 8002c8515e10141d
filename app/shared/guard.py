"""A part of a page that reruns by itself: the same care for errors that the whole page gets."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import streamlit as st

from app.shared import components
from zorba_core.errors import ZorbaError


def guarded(part: Callable[..., None]) -> Callable[..., None]:
    """``part`` whose errors are one sentence on the page: when it reruns alone, main.py cannot show it."""

    @functools.wraps(part)
    def careful(*arguments, **named) -> None:
        try:
            part(*arguments, **named)
        except ZorbaError as error:
            components.problem("This cannot be shown", str(error))
        except Exception:
            logging.getLogger("zorba.app").exception("%s failed", part.__name__)
            components.problem(
                "Something went wrong on our side",
                "The details are in the terminal that runs the dashboard. Change a control, or reload the page, to "
                "continue.",
            )

    return careful


def fragment(part: Callable[..., None]) -> Callable[..., None]:
    """``st.fragment`` with the same care for errors."""
    return st.fragment(guarded(part))
