"""Deleting runs with a way back, and the trash."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs import choose
from app.screens.train.processes import being_written
from app.shared import components
from app.shared.escape import as_code
from app.shared.folders import short
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.runs.trash import TRASH, discard, discarded, empty_trash, restore
from zorba_core.study.comparison import Record

_DELETED, _PROBLEM = "deleted_runs", "annotation_problem"
_NAMED = 3  # deleted runs that the message names
_LISTED = 12  # runs of the trash with a button each


def draw(folder: Path, source: str, chosen: Sequence[Record]) -> None:
    """The row of actions on the picked runs."""
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        components.problem("This was not done", problem)
    _undo(folder)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.button(
            "Delete" if len(chosen) < 2 else f"Delete {len(chosen)}",
            key="delete_runs",
            on_click=_delete,
            args=(source, [record.path for record in chosen]),
            icon=":material/delete:",
            disabled=not chosen,
            help="Moves the picked runs to the trash of the runs folder. They can be restored until it is emptied.",
        )
        _trash(folder)
        if not chosen:
            st.caption("Pick runs in the table to delete them.", width="content")


def _delete(source: str, paths: Sequence[Path]) -> None:
    """A button's callback: to the trash, but for runs in progress."""
    entries = []
    try:
        for path in paths:
            if being_written(path):
                raise InvalidInputError(f"{path.name} is in progress; stop it on the Train page first")
            entries.append(discard(path))
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)
    st.session_state[_DELETED] = entries
    choose.unpick(source, [path.name for path in paths if not path.exists()])


def _undo(folder: Path) -> None:
    """What was deleted last in this session, and the way back."""
    there = {row.entry: row for row in discarded(folder)} if st.session_state.get(_DELETED) else {}
    rows = [there[entry] for entry in st.session_state.get(_DELETED, ()) if entry in there]
    if not rows:
        return
    names = ", ".join(components.plain(row.name) for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(f":material/delete: In the trash: {names}{more}.", width="content")
        st.button(
            "Undo",
            key="undo_delete",
            on_click=_restore,
            args=(folder, [row.entry for row in rows]),
            icon=":material/undo:",
        )
        st.button("Leave it there", key="leave_deleted", on_click=_leave, type="tertiary")


def _leave() -> None:
    st.session_state[_DELETED] = []


def _restore(folder: Path, entries: Sequence[str]) -> None:
    """A button's callback."""
    try:
        for entry in entries:
            restore(folder, entry)
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)


def _trash(folder: Path) -> None:
    rows = discarded(folder)
    if not rows:
        return
    with st.popover(f"Trash ({len(rows)})", icon=":material/restore_from_trash:"):
        for number, row in enumerate(rows[:_LISTED]):
            when = time.strftime("%d %b %H:%M", time.localtime(row.deleted))
            st.button(
                f"Restore {components.plain(row.name)}, deleted {when}",
                key=f"restore_{number}_{row.entry}",
                on_click=_restore,
                args=(folder, [row.entry]),
                icon=":material/undo:",
                type="tertiary",
            )
        if len(rows) > _LISTED:
            st.caption(f"And {len(rows) - _LISTED} more.")
        st.button(
            f"Remove {'it' if len(rows) == 1 else f'all {len(rows)}'} for good",
            key="empty_trash",
            on_click=_empty,
            args=(folder,),
            icon=":material/delete_forever:",
        )
        st.caption(f"They lie in {as_code(short(folder / TRASH))}; removing that folder does the same.")


def _empty(folder: Path) -> None:
    """A button's callback."""
    try:
        empty_trash(folder)
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)
