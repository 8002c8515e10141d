"""A scenario that is being solved beside the page: how far it is, how long it will take, and Stop."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.shared import components, state
from app.shared.big_studies import BigStudy
from app.shared.links import choose, several
from app.shared.tradeoff import EXTRAS
from zorba_core.allocation import SOLVERS

_EVERY_S = 1.0


def panel(job: BigStudy, *, beside: bool) -> None:
    """Progress, looked at every second; the page is drawn anew once it is done.

    Args:
        beside: it is one of the methods that are drawn beside the sidebar's own.
    """
    with st.container(border=True):
        st.fragment(_look, run_every=_EVERY_S)(job, beside)


def _look(job: BigStudy, beside: bool) -> None:
    if job.ended:
        st.rerun()
    title, left = job.scenario.solved_by.title, job.seconds_left
    words = f"{title}: {job.done} of {job.of} points"
    if job.began is None:
        words += ", waits for another one"
    elif left is not None:
        words += f", about {components.in_seconds(left)} left"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.progress(min(1.0, job.done / max(1, job.of)), words, width="stretch")
        if st.button("Stop", key=f"stop_solving_{job.scenario.solver}", icon=":material/stop_circle:"):
            stop(job, beside)
            st.rerun()


def stop(job: BigStudy, beside: bool) -> None:
    """End it, and draw what there is without it."""
    job.stop.set()
    solver = job.scenario.solver
    if beside:
        shown = [name for name in several("show", [*_extras(), *SOLVERS], _extras()) if name != solver]
        choose("show", shown)
    else:
        state.apply(replace(state.current(), solver="balanced"))


def _extras() -> list[str]:
    return list(EXTRAS)
