"""Deleting picked runs: the page asks first, and then their folders are removed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs import choose
from app.screens.train.processes import being_written
from app.shared import components
from app.shared.escape import as_code
from app.shared.folders import short
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.runs import read_run
from zorba_core.study.comparison import Record

_PROBLEM = "delete_problem"
_NAMED = 5  # runs that the question names


def draw(folder: Path, source: str, chosen: Sequence[Record]) -> None:
    """A button that asks before it deletes the picked runs of ``folder``."""
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        components.problem("Not deleted", problem)
    if not chosen:
        return
    names = [record.name for record in chosen]
    what = "1 run" if len(names) == 1 else f"{len(names)} runs"
    with st.popover(f"Delete {what}", icon=":material/delete:"):
        more = f"\n- and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        st.markdown("\n".join(f"- {as_code(name)}" for name in names[:_NAMED]) + more)
        st.caption(f"Their folders in {as_code(short(folder))} are removed. This cannot be undone.")
        st.button(
            f"Delete {what} for good",
            key="delete_runs",
            on_click=_delete,
            args=(folder, source, names),
            icon=":material/delete_forever:",
        )


def _delete(folder: Path, source: str, names: Sequence[str]) -> None:
    """A button's callback."""
    try:
        for name in names:
            remove_run(folder, name)
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)
    choose.unpick(source, [name for name in names if not (folder / name).exists()])


def remove_run(folder: Path, name: str) -> None:
    """Remove the folder of a run, and nothing else.

    Raises:
        MissingDataError, InvalidInputError: it is no run of this runs folder, is in progress, or cannot be removed.
    """
    run = folder / name
    if run.is_symlink() or run.resolve().parent != folder.resolve():
        raise InvalidInputError(f"{name} is not a folder in {short(folder)}; remove it by hand")
    read_run(run)
    if being_written(run):
        raise InvalidInputError(f"{name} is in progress; stop it on the Train page first")
    try:
        shutil.rmtree(run)
    except OSError as error:
        raise InvalidInputError(f"{name} cannot be removed: {error.strerror}") from None
