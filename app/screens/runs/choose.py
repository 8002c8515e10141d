"""Which runs: filters, the pinned baseline, and what is picked, kept in the page's address."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from datetime import date

import streamlit as st

from app.shared import components
from app.shared.links import linked, linked_many
from zorba_core.study.comparison import Record

SHOWN_AT_FIRST = 3
_CHOSEN = "chosen_runs"
_LINK = "runs"
_MOST_IN_A_LINK = 24
# Filters that appear where runs differ in them: key, label, what to read.
_FILTERS = (
    ("dataset", "Dataset", lambda record: str(record.config.get("dataset"))),
    ("method", "Method", lambda record: record.method),
    ("model", "Model", lambda record: str(record.config.get("model"))),
    ("status", "Status", lambda record: record.status),
)


def filtered(records: Sequence[Record]) -> list[Record]:
    """The records that pass the filters."""
    text = st.text_input(
        "Find",
        key="find",
        bind="query-params",
        placeholder="name, or a setting such as lr 0.01",
        icon=":material/search:",
        max_chars=200,
    )
    kept = [record for record in records if _has(record, text)]
    for key, label, read in _FILTERS:
        values = sorted({read(record) for record in records})
        if len(values) < 2:
            continue
        wanted = linked_many(st.multiselect, label, values, [], key=f"only_{key}", placeholder="all", width=150)
        if wanted:
            kept = [record for record in kept if read(record) in wanted]
    return _since(records, kept)


def _since(records: Sequence[Record], kept: list[Record]) -> list[Record]:
    """Runs from a day on; asked only where there are several days."""
    days = {date.fromtimestamp(record.began) for record in records if record.began is not None}
    if len(days) < 2:
        return kept
    first = st.date_input("Since", min(days), min_value=min(days), max_value=max(days), key="since", width=150)
    return [record for record in kept if record.began is None or date.fromtimestamp(record.began) >= first]


def _has(record: Record, text: str) -> bool:
    """Every word of ``text`` in the run's name, or as ``setting value`` in its config."""
    told = " ".join(
        [record.name, record.status, *(f"{key} {value}" for key, value in record.config.items())]
    ).casefold()
    words = text.casefold().split()
    return text.casefold().strip() in told or all(word in told for word in words)


def chosen_of(records: Sequence[Record]) -> list[Record]:
    """What is picked of ``records``: in the table, else as this session or the link has it, else the newest few.

    Call before the table is drawn: it also marks the rows there.
    """
    names = [record.name for record in records]
    event = st.session_state.get(table_key(names))
    if event is None:
        chosen = _remembered(names)
        pick_by_name(names, chosen)
    else:
        chosen = [names[row] for row in event["selection"]["rows"] if row < len(names)]
    _remember(chosen)
    return [record for record in records if record.name in chosen]


def pick_by_name(names: Sequence[str], wanted: Collection[str]) -> None:
    """Pick rows of the table of ``names``; before it is drawn, or in a callback."""
    rows = [row for row, name in enumerate(names) if name in wanted]
    st.session_state[table_key(names)] = {"selection": {"rows": rows, "columns": [], "cells": []}}


def table_key(names: Sequence[str]) -> str:
    return f"runs_table_{zlib.crc32(chr(10).join(names).encode()):x}"


def _remembered(names: Sequence[str]) -> list[str]:
    """What is chosen of ``names``: in this session, else by the link, else the newest few."""
    if _CHOSEN not in st.session_state:
        named = st.query_params.get_all(_LINK)[:_MOST_IN_A_LINK]
        absent = [name for name in named if name not in names]
        if absent:
            shown = ", ".join(components.plain(name[:80]) for name in absent[:3])
            st.caption(f":material/link_off: The link names runs that are not here: {shown}.")
        if len(absent) < len(named):
            return [name for name in named if name in names]
        return list(names[:SHOWN_AT_FIRST])
    return [name for name in st.session_state[_CHOSEN] if name in names]


def _remember(names: list[str]) -> None:
    st.session_state[_CHOSEN] = names
    if names and len(names) <= _MOST_IN_A_LINK:
        if st.query_params.get_all(_LINK) != names:
            st.query_params[_LINK] = names
    elif _LINK in st.query_params:
        del st.query_params[_LINK]


def baseline_of(records: Sequence[Record]) -> Record | None:
    """The pinned run that the others are held against."""
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
