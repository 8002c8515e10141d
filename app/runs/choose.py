"""Which runs: filters, a table to pick from, and the choice in the page's address."""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import components
from app.links import linked, linked_many
from zorba_core.comparison import Record

SHOWN_AT_FIRST = 3
_CHOSEN = "chosen_runs"
_LINK = "runs"
_MOST_IN_A_LINK = 24
_SMALL_POINTS = 40  # of a curve in a cell of the table
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
        _mark(names, chosen)
    else:
        chosen = [names[row] for row in event["selection"]["rows"] if row < len(names)]
    _remember(chosen)
    return [record for record in records if record.name in chosen]


def pick_by_name(names: Sequence[str], wanted: Collection[str]) -> None:
    """Pick other rows of the table of ``names`` (a callback of something else)."""
    _mark(names, wanted)


def _mark(names: Sequence[str], wanted: Collection[str]) -> None:
    rows = [row for row, name in enumerate(names) if name in wanted]
    st.session_state[table_key(names)] = {"selection": {"rows": rows, "columns": [], "cells": []}}


def show_table(records: Sequence[Record], baseline: Record | None) -> None:
    """The table to pick in."""
    frame = _frame(records, baseline)
    shared = in_common(frame)
    if shared:
        st.caption("All of them: " + ", ".join(f"{key} {components.plain(value)}" for key, value in shared.items()))
    shown = _worth_showing(frame)
    st.dataframe(
        shown.assign(learned=[_learned(record) for record in records])[_with_learned(shown)],
        # Other rows, another table: its selection is by row number.
        key=table_key([record.name for record in records]),
        on_select="rerun",
        selection_mode="multi-row",
        hide_index=True,
        width="stretch",
        height="auto" if len(records) <= 8 else 320,
        placeholder="–",
        column_config=_COLUMNS | {"learned": _learned_column(records)},
        alt=f"{len(records)} runs, newest first. Select rows to draw their curves.",
    )


def _learned(record: Record) -> list[float]:
    """The run's accuracy at up to ``_SMALL_POINTS`` of its evaluations, the last one among them."""
    accuracy_P = record.evaluations["eval_accuracy"].to_numpy()
    kept = np.unique(np.linspace(0, len(accuracy_P) - 1, min(len(accuracy_P), _SMALL_POINTS)).round().astype(int))
    return accuracy_P[kept].round(4).tolist() if len(accuracy_P) else []


def _learned_column(records: Sequence[Record]) -> Any:
    """Small curves on one scale, so that rows can be compared."""
    values = [value for record in records for value in _learned(record)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return st.column_config.LineChartColumn(
        "accuracy",
        y_min=low,
        y_max=max(high, low + 1e-6),
        width=110,
        help=f"Validation accuracy over the run, from {low:.0%} at the bottom to {high:.0%} at the top of each cell.",
    )


def _with_learned(frame: pd.DataFrame) -> list[str]:
    """The columns, with the small curve before the best accuracy."""
    columns = list(frame)
    columns.insert(columns.index("best"), "learned")
    return columns


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


def table(records: Sequence[Record], baseline: Record | None = None) -> pd.DataFrame:
    """One row a run; with a baseline also how far each is from it. What all share, and what none tells, is left out."""
    return _worth_showing(_frame(records, baseline))


def _frame(records: Sequence[Record], baseline: Record | None) -> pd.DataFrame:
    return pd.DataFrame([_row(record, None if baseline is None else baseline.outcome) for record in records])


def _worth_showing(frame: pd.DataFrame) -> pd.DataFrame:
    empty = [name for name in frame if name not in _ALWAYS and not frame[name].notna().any()]
    return frame.drop(columns=[*empty, *in_common(frame)])


def in_common(frame: pd.DataFrame) -> dict[str, str]:
    """What all runs of a table share, and need not be told in every row: column to value."""
    if len(frame) < 2:
        return {}
    return {
        name: str(frame[name].iloc[0])
        for name in _SAID_ONCE
        if frame[name].nunique(dropna=False) == 1 and frame[name][0]
    }


_ALWAYS = ("run", "best", "to target", "rounds", "status")
_SAID_ONCE = ("dataset", "model", "method", "solver")


def _row(record: Record, against: dict[str, float | None] | None) -> dict[str, Any]:
    found = record.outcome
    row = {
        "run": record.name,
        "dataset": record.config.get("dataset"),
        "model": str(record.config.get("model")),
        "method": record.method,
        "solver": record.solver,
        "seed": record.config.get("seed"),
        "best": found["best"],
    }
    if against is not None:
        row["Δ best"] = _difference(found["best"], against["best"])
    row["to target"] = found["to_target"]
    if against is not None:
        row["Δ to target"] = _difference(found["to_target"], against["to_target"])
        row["Δ VRAM"] = _difference(found["vram"], against["vram"])
        row["Δ Λ"] = _difference(found["lambda"], against["lambda"])
    return {
        **row,
        "rounds": found["rounds"],
        "blocks": found["total_blocks"],
        "Λ": found["lambda"],
        "VRAM (GiB)": found["vram"],
        "status": record.status,
        "began": None if record.began is None else time.strftime("%d %b %H:%M", time.localtime(record.began)),
    }


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


_COLUMNS = {
    "run": st.column_config.TextColumn(pinned=True),
    "best": st.column_config.NumberColumn("best accuracy", format="percent"),
    "Δ best": st.column_config.NumberColumn(format="%+.3f", help="Best accuracy less the baseline's"),
    "to target": st.column_config.NumberColumn(format="%d", help="Rounds until the target was first reached"),
    "Δ to target": st.column_config.NumberColumn(format="%+d", help="Rounds more than the baseline took"),
    "Δ VRAM": st.column_config.NumberColumn(format="%+.3f", help="GiB more than the baseline, all clients"),
    "Δ Λ": st.column_config.NumberColumn(format="%+.3g", help="Convergence bias less the baseline's"),
    "rounds": st.column_config.NumberColumn(format="%d", help="Rounds done"),
    "Λ": st.column_config.NumberColumn(format="%.3g", help="Convergence bias of the allocation"),
    "blocks": st.column_config.NumberColumn(format="%d", help="Activated blocks over all clients"),
    "VRAM (GiB)": st.column_config.NumberColumn(format="%.2f", help="All clients together, by the VRAM model"),
}
