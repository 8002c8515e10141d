"""Solved scenarios, shared by every session of the server, and the progress of slow ones."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

import streamlit as st

from app.shared.scenario import Scenario
from app.shared.study import Study, study
from zorba_core.allocation import Solution
from zorba_core.errors import ZorbaError

MAX_STUDIES, MAX_BYTES = 64, 200_000_000
_PATIENCE_S = 0.3  # an answer that comes sooner needs no progress bar
_BAR_EVERY_S = 0.15


class _Studies:
    """The most recently used studies, at most so many and so large."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Scenario, Study] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, scenario: Scenario) -> Study | None:
        with self._lock:
            if scenario in self._kept:
                self._kept.move_to_end(scenario)
            return self._kept.get(scenario)

    def put(self, study: Study) -> None:
        with self._lock:
            self._kept[study.scenario] = study
            self._kept.move_to_end(study.scenario)
            while len(self._kept) > 1 and (
                len(self._kept) > MAX_STUDIES or sum(kept.nbytes for kept in self._kept.values()) > MAX_BYTES
            ):
                self._kept.popitem(last=False)


@st.cache_resource
def _studies() -> _Studies:
    return _Studies()


def solved(scenario: Scenario) -> Study:
    """The study of a scenario; the first time it is asked for, with a progress bar if it takes a while.

    Raises:
        InvalidInputError, InfeasibleError: the scenario has no study.
    """
    known = _studies().get(scenario)
    if known is None:
        known = _solve_with_progress(scenario)
        _studies().put(known)
    return known


def solved_or_error(scenario: Scenario) -> Study | ZorbaError:
    """The study, or why there is none."""
    try:
        with st.container():  # takes one place with and without a progress bar, so that what follows is not drawn anew
            return solved(scenario)
    except ZorbaError as error:
        return error


@st.cache_resource(max_entries=128, show_spinner=False)
def solution(scenario: Scenario, point: int) -> Solution:
    """A point's allocation with its bound."""
    return solved(scenario).solution(point)


def _solve_with_progress(scenario: Scenario) -> Study:
    started = shown = time.monotonic()
    place, bar = st.empty(), None

    def on_solution(done: int, of: int) -> None:
        nonlocal bar, shown
        now = time.monotonic()
        if now - started > _PATIENCE_S and now - shown > _BAR_EVERY_S:
            words = f"{scenario.solved_by.title}: {min(done, of)} of {of} points, {now - started:.0f} s"
            bar = (
                place.progress(min(1.0, done / of), words) if bar is None else bar.progress(min(1.0, done / of), words)
            )
            shown = now

    try:
        return study(scenario, on_solution)
    finally:
        place.empty()
