"""The picture of what each block is worth, for a run in progress or a finished one."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.shared import components
from zorba_core.allocation.importance import Importance
from zorba_core.errors import ZorbaError
from zorba_core.planning.methods import METHODS
from zorba_core.plots import importance_figure
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.block_importance import importance

LEAST_ROUNDS = 3
_RESAMPLES = 60


def draw(path: Path, method: str, rounds_done: int, key: str) -> None:
    """Energy and noise of every block, read of the run's scalars; nothing where it has none."""
    facts = METHODS.get(method)
    if rounds_done < LEAST_ROUNDS or facts is None or facts.along != "shared":
        return
    try:
        read = _read(str(path), (path / TRAJECTORY).stat().st_size)
    except (ZorbaError, OSError):
        return
    if not read.identifiable_M.any():
        return
    st.markdown("## What each block is worth")
    best = int(read.energy_M.argmax())
    components.figure(
        importance_figure(read, palette=components.palette()),
        key=key,
        name=f"{path.name}-importance",
        alt=f"Energy and noise of {len(read.energy_M)} blocks from {read.rounds} rounds; block {best} has the most "
        "energy.",
    )
    unknown = int((~read.identifiable_M).sum())
    st.caption(
        "Energy is the squared gradient of the mean loss, noise the variance of one client's gradient, both read of "
        f"the scalars of {read.rounds} rounds, with 95 % intervals."
        + (f" {unknown} blocks always stand with others and cannot be told apart (pale)." if unknown else "")
    )


@st.cache_data(show_spinner=False, max_entries=20)
def _read(path: str, log_bytes: int) -> Importance:
    return importance(path, resamples=_RESAMPLES)
