"""What the reader does to runs: a label, a note and tags, deleting with a way back, and the trash."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs import choose
from app.screens.train.processes import being_written
from app.shared import components
from app.shared.escape import as_code
from app.shared.folders import short
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.runs.notes import (
    LONGEST_LABEL,
    LONGEST_NOTE,
    MOST_TAGS,
    Notes,
    read_notes,
    write_notes,
)
from zorba_core.runs.trash import TRASH, discard, discarded, empty_trash, restore
from zorba_core.study.comparison import Record

_DELETED, _PROBLEM = "deleted_runs", "annotation_problem"
_NAMED = 3  # deleted runs that the message names
_LISTED = 12  # runs of the trash with a button each


def draw(folder: Path, source: str, records: Sequence[Record], chosen: Sequence[Record]) -> None:
    """The row of actions on the picked runs; ``records`` are those of the whole folder."""
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        components.problem("This was not done", problem)
    _undo(folder)
    tags = sorted({tag for record in records for tag in record.notes.tags})
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        with st.popover("Name, note, tags", icon=":material/label:", disabled=not chosen):
            if len(chosen) == 1:
                _of_one(chosen[0], tags)
            elif chosen:
                _of_several(chosen, tags)
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
            st.caption("Pick runs in the table to name, tag or delete them.", width="content")


def _of_one(record: Record, tags: Sequence[str]) -> None:
    notes = record.notes
    token = f"{record.name}_{zlib.crc32(repr(notes).encode()):x}"  # other notes, another form with other defaults
    with st.form(f"notes_{token}", border=False):
        st.caption(f"Of {as_code(record.name)}. The folder keeps its name; the label stands in tables and pictures.")
        st.text_input("Label", notes.label, key=f"label_{token}", max_chars=LONGEST_LABEL, placeholder="none")
        st.text_area("Note", notes.note, key=f"note_{token}", max_chars=LONGEST_NOTE, placeholder="none", height=110)
        _tags("Tags", sorted({*tags, *notes.tags}), notes.tags, f"tags_{token}")
        st.form_submit_button("Save", icon=":material/save:", on_click=_save_one, args=(record.path, token))


def _of_several(chosen: Sequence[Record], tags: Sequence[str]) -> None:
    token = f"{zlib.crc32(repr([(record.name, record.notes) for record in chosen]).encode()):x}"
    carried = sorted({tag for record in chosen for tag in record.notes.tags})
    with st.form(f"many_{token}", border=False):
        st.caption(f"Of {len(chosen)} picked runs. Pick a single one to give it a label and a note.")
        _tags("Add tags", tags, (), f"add_{token}")
        if carried:
            st.multiselect("Take away tags", carried, key=f"less_{token}", placeholder="none")
        st.form_submit_button(
            "Save", icon=":material/save:", on_click=_save_several, args=([run.path for run in chosen], token)
        )


def _tags(label: str, options: Sequence[str], current: Sequence[str], key: str) -> None:
    st.multiselect(
        label,
        options,
        list(current),
        key=key,
        accept_new_options=True,
        max_selections=MOST_TAGS,
        placeholder="type a tag and press Enter",
    )


def _save_one(path: Path, token: str) -> None:
    """A form's callback."""
    state = st.session_state
    _write(path, Notes.of(state[f"label_{token}"], state[f"note_{token}"] or "", state[f"tags_{token}"]))


def _save_several(paths: Sequence[Path], token: str) -> None:
    """A form's callback."""
    added, less = st.session_state[f"add_{token}"], st.session_state.get(f"less_{token}", [])
    for path in paths:
        try:
            before = read_notes(path)
        except ZorbaError as error:
            st.session_state[_PROBLEM] = str(error)
            return
        tags = [tag for tag in before.tags if tag not in less]
        _write(path, Notes.of(before.label, before.note, [*tags, *added]))


def _write(path: Path, notes: Notes) -> None:
    try:
        write_notes(path, notes)
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)


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
