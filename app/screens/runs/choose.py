"""Which runs: filters, the pinned baseline, and what is picked, kept in the page's address."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

import streamlit as st

from app.shared import components
from app.shared.links import all_named, linked, linked_day, linked_many, linked_text, take_asked
from app.shared.widget_keys import current_key, is_shown, report, shown_value, widget_key
from zorba_core.study.comparison import Record

SHOWN_AT_FIRST = 3
SHOWN_AT_ONCE = 40  # by one press
_CHOSEN = "chosen_runs"
_LINK, _MOST_LINKED = "runs", 40
# Filters that appear where runs differ in them: key, label, what to read.
_FILTERS = (
    ("dataset", "Dataset", lambda record: str(record.config.get("dataset"))),
    ("method", "Method", lambda record: record.method),
    ("model", "Model", lambda record: str(record.config.get("model"))),
    ("status", "Status", lambda record: record.status),
)


def filtered(records: Sequence[Record], titles: Mapping[str, str]) -> list[Record]:
    """The records that pass the filters; ``titles``: under which runs were started from here, by their names."""
    text = linked_text("Find", key="find", placeholder="name, or a setting such as lr=0.01", icon=":material/search:")
    matching = [record for record in records if not text or _has(record, text, titles.get(record.name, ""))]
    for key, label, read in _FILTERS:
        values = sorted({read(record) for record in records})
        if len(values) < 2:
            continue
        values_wanted = linked_many(st.multiselect, label, values, [], key=f"only_{key}", placeholder="all", width=150)
        if values_wanted:
            matching = [record for record in matching if read(record) in values_wanted]
    return _since(records, matching)


def _since(records: Sequence[Record], matching: list[Record]) -> list[Record]:
    """Runs from a day on; asked only where there are several days."""
    days = {date.fromtimestamp(record.began) for record in records if record.began is not None}
    if len(days) < 2:
        return matching
    first = linked_day("Since", min(days), max(days), key="since", width=150)
    return [record for record in matching if record.began is None or date.fromtimestamp(record.began) >= first]


def _has(record: Record, text: str, title: str = "") -> bool:
    """Every word of ``text`` in the run's name or title, or as ``setting value`` in its config; a word such as
    ``lr=0.01`` is a setting of exactly this value."""
    settings = (f"{key} {value}" for key, value in record.config.items())
    searched = " ".join([record.name, title, record.status, *settings]).casefold()
    words = text.casefold().split()
    return text.casefold().strip() in searched or all(word in searched or _sets(record, word) for word in words)


def _sets(record: Record, word: str) -> bool:
    """Whether ``word`` is ``setting=value`` of the run: named as in its config or as an option of the command
    (``--batch-size=8``, ``directions=10``, ``solver=exact``); numbers as numbers (``1e-2`` is ``0.01``)."""
    setting, equals, wanted = word.lstrip("-").partition("=")
    name = setting.replace("-", "_")
    settings = {**record.settings, "method": record.method, "status": record.status}
    return bool(equals) and any(
        name in (key, last := key.rpartition(".")[2], last.removeprefix("num_")) and _same(value, wanted)
        for key, value in settings.items()
    )


def _same(value: Any, wanted: str) -> bool:
    if str(value).casefold() == wanted:
        return True
    try:
        return not isinstance(value, bool) and float(value) == float(wanted)
    except (TypeError, ValueError):
        return False


def chosen_of(records: Sequence[Record], everyone: Sequence[Record] | None = None, source: str = "") -> list[Record]:
    """What is picked of ``records``: in the table, else as this session or the link has it, else the newest few. What
    is picked and not shown by the filters stays picked; what is not among ``everyone`` of this ``source`` any more is
    named, and nothing else takes its place.

    Call before the table is drawn.
    """
    names = [record.name for record in records]
    there = {record.name for record in everyone or records}
    before = st.session_state.get(_CHOSEN, {}).get(source)
    picked = _picked(source, names)
    if not names and not picked:
        return []  # nothing to pick from yet
    rows = _reported_rows(names) if picked is before else None
    if rows is not None:
        hidden = [name for name in picked if name in there and name not in names]
        picked = (*(names[row] for row in rows), *hidden)
    st.session_state.setdefault(_CHOSEN, {})[source] = picked
    values = list(picked[:_MOST_LINKED]) or [""]
    if st.query_params.get_all(_LINK) != values:
        st.query_params[_LINK] = values
    if len(picked) > _MOST_LINKED:
        st.caption(f":material/link_off: A link holds the first {_MOST_LINKED} of the {len(picked)} picked runs.")
    _say_what_is_gone(source, [name for name in picked if name not in there])
    return [record for record in records if record.name in picked]


def picked_and_hidden(source: str, records: Sequence[Record], everyone: Sequence[Record]) -> int:
    """How many picked runs are there and not among ``records``, those that pass the filters."""
    picked = st.session_state.get(_CHOSEN, {}).get(source, ())
    there, shown = ({record.name for record in several} for several in (everyone, records))
    return len((there - shown).intersection(picked))


def _say_what_is_gone(source: str, missing: Sequence[str]) -> None:
    if not missing:
        return
    shown = ", ".join(components.plain(name[:80]) for name in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    st.warning(
        f"**{'This picked run is' if len(missing) == 1 else 'These picked runs are'} not here any more: {shown}"
        f"{more}.** No other run is drawn instead.",
        icon=":material/folder_off:",
    )
    st.button("Continue without", key="forget_gone", on_click=_forget, args=(source, missing), type="tertiary")


def _forget(source: str, missing: Collection[str]) -> None:
    """A button's callback."""
    picked = st.session_state[_CHOSEN][source]
    st.session_state[_CHOSEN][source] = tuple(name for name in picked if name not in missing)


def unpick(source: str, gone: Collection[str]) -> None:
    """Runs that the reader has removed are picked no more; in a callback."""
    if source in st.session_state.get(_CHOSEN, {}):
        _forget(source, gone)


def pick_by_name(source: str, names: Sequence[str], wanted: Collection[str]) -> None:
    """Pick those of ``names``, the runs that pass the filters, that are wanted; in a callback."""
    choice = st.session_state.setdefault(_CHOSEN, {})
    hidden = [name for name in choice.get(source, ()) if name not in names]
    choice[source] = (*(name for name in names if name in wanted), *hidden)


def table_arguments(names: Sequence[str], chosen: Sequence[Record]) -> dict[str, Any]:
    """Key and marked rows of the table of ``names`` with ``chosen`` picked."""
    picked = {record.name for record in chosen}
    rows = [row for row, name in enumerate(names) if name in picked]
    marked = {"selection": {"rows": rows, "columns": [], "cells": []}}
    return {"key": widget_key(table_name(names), rows), "selection_default": marked}


def table_name(names: Sequence[str]) -> str:
    """Other rows, another table: its selection is by row number."""
    return f"runs_table_{zlib.crc32(chr(10).join(names).encode()):x}"


def _reported_rows(names: Sequence[str]) -> list[int] | None:
    """The rows that the reader has picked since the table was drawn, if any. The rows that it was drawn with are no
    choice, and what an earlier table reports is not looked at (``app.shared.widget_keys``)."""
    name = table_name(names)
    event = st.session_state.get(current_key(name))
    if event is None or not is_shown(name):
        return None
    rows = [row for row in event["selection"]["rows"] if row < len(names)]
    if set(rows) == shown_value(name):
        return None
    report(name, rows)
    return rows


def _picked(source: str, names: Sequence[str]) -> tuple[str, ...]:
    """What is picked of this source: in this session, else by the link, else the newest few."""
    choice = st.session_state.get(_CHOSEN, {})
    named = all_named(_LINK)
    if named and (take_asked(_LINK) or not choice):
        return tuple(dict.fromkeys(name[:200] for name in named[:_MOST_LINKED] if name))
    return choice.get(source, tuple(names[:SHOWN_AT_FIRST]))


def baseline_of(records: Sequence[Record]) -> Record | None:
    """The pinned run that the others are compared with."""
    by_name = {record.name: record for record in records}
    name = linked(
        st.selectbox,
        "Baseline",
        ["", *by_name],
        key="baseline",
        format_func=lambda name: name or "none pinned",
        width=190,
        help="Pin a run: the table then says how far each other run is from it, and its curve is drawn heavier.",
    )
    return by_name.get(name)
