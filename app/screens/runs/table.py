"""The table to pick runs in: what each is, how it learned, and how far it is from the baseline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.screens.runs.choose import table_arguments
from app.shared import components
from zorba_core.study.comparison import Record, metrics_of


def show_table(
    records: Sequence[Record],
    chosen: Sequence[Record],
    baseline: Record | None,
    colors: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> None:
    """The table to pick in, with what is chosen marked.

    Args:
        colors: of the curves in the picture, by run.
        titles: under which runs were started from here, by run.
    """
    frame = _frame(records, baseline)
    shared = in_common(frame)
    if shared:
        st.caption("All of them: " + ", ".join(f"{key} {components.plain(value)}" for key, value in shared.items()))
    shown = _worth_showing(frame)
    drawn = shown.assign(learned=[record.small_curve for record in records])[_with_learned(shown)]
    started = [(titles or {}).get(record.name) for record in records]
    if any(started):
        drawn.insert(list(drawn).index("run") + 1, "started as", started)
    if colors:
        drawn.insert(0, "curve", [_dot(colors.get(record.name)) for record in records])
    st.dataframe(
        drawn,
        **table_arguments([record.name for record in records], chosen),
        on_select="rerun",
        selection_mode="multi-row",
        hide_index=True,
        width="stretch",
        height="auto" if len(records) <= 8 else 320,
        placeholder="–",
        column_config=_columns(metrics_of(records)) | {"learned": _learned_column(records)},
        alt=f"{len(records)} runs, newest first. Select rows to draw their curves.",
    )


def _dot(color: str | None) -> str | None:
    """A dot of this colour as a picture; our own palette's, so nothing from outside."""
    if color is None:
        return None
    return (
        "data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg' width='14' height='14'>"
        f"<circle cx='7' cy='7' r='4' fill='%23{color.removeprefix('#')}'/></svg>"
    )


def _learned_column(records: Sequence[Record]) -> Any:
    """Small curves on one scale, so that rows can be compared."""
    values = [value for record in records for value in record.small_curve]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    metric = metrics_of(records)
    return st.column_config.LineChartColumn(
        metric,
        y_min=low,
        y_max=max(high, low + 1e-6),
        width=110,
        help=f"Validation {metric} over the run, from {low:.0%} at the bottom to {high:.0%} at the top of each cell.",
    )


def _with_learned(frame: pd.DataFrame) -> list[str]:
    """The columns, with the small curve before the best accuracy."""
    columns = list(frame)
    columns.insert(columns.index("best"), "learned")
    return columns


def table(records: Sequence[Record], baseline: Record | None = None) -> pd.DataFrame:
    """One row a run; with a baseline also how far each is from it. Columns that are equal in all runs, or empty, are
    left out."""
    return _worth_showing(_frame(records, baseline))


def _frame(records: Sequence[Record], baseline: Record | None) -> pd.DataFrame:
    return pd.DataFrame([_row(record, None if baseline is None else baseline.outcome) for record in records])


def _worth_showing(frame: pd.DataFrame) -> pd.DataFrame:
    empty = {name for name in frame if name not in _ALWAYS and not frame[name].notna().any()}
    alike = {name for name in _VARIED if frame[name].nunique(dropna=False) < 2}
    return frame.drop(columns=[*empty.union(alike, in_common(frame))])


def in_common(frame: pd.DataFrame) -> dict[str, str]:
    """What all runs of a table share, so that no row repeats it: column to value."""
    if len(frame) < 2:
        return {}
    return {
        name: str(frame[name].iloc[0])
        for name in _SAID_ONCE
        if frame[name].nunique(dropna=False) == 1 and frame[name][0]
    }


_ALWAYS = ("run", "best", "to target", "rounds", "status")
_SAID_ONCE = ("dataset", "model", "method", "solver")
# Settings with a column where runs differ in them: heading to key of the config.
_VARIED = {
    "lr": "lr",
    "μ": "mu",
    "Q": "directions",
    "B": "batch_size",
    "N": "num_clients",
    "α": "alpha",
    "estimator": "estimator",
    "direction": "direction",
    "inactive": "inactive",
    "schedule": "schedule",
    "dtype": "dtype",
}


def _row(record: Record, against: dict[str, float | None] | None) -> dict[str, Any]:
    outcome = record.outcome
    row = {
        "run": record.name,
        "dataset": record.config.get("dataset"),
        "model": str(record.config.get("model")),
        "method": record.method,
        "solver": record.solver,
        **{heading: record.config.get(key) for heading, key in _VARIED.items()},
        "seed": record.config.get("seed"),
        "best": outcome["best"],
    }
    if against is not None:
        row["Δ best"] = _difference(outcome["best"], against["best"])
    row["to target"] = outcome["to_target"]
    if against is not None:
        row["Δ to target"] = _difference(outcome["to_target"], against["to_target"])
        row["Δ VRAM"] = _difference(outcome["vram"], against["vram"])
        row["Δ Λ"] = _difference(outcome["lambda"], against["lambda"])
    return {
        **row,
        "rounds": outcome["rounds"],
        "blocks": outcome["total_blocks"],
        "Λ": outcome["lambda"],
        "VRAM (GiB)": outcome["vram"],
        "status": record.status,
        "began": None if record.began is None else time.strftime("%d %b %H:%M", time.localtime(record.began)),
    }


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _columns(metric: str) -> dict[str, Any]:
    """``metric``: what the runs count as right."""
    best = st.column_config.NumberColumn(f"best {metric}", format="percent")
    away = st.column_config.NumberColumn(format="%+.3f", help=f"Best {metric} less the baseline's")
    return _COLUMNS | {"best": best, "Δ best": away}


_COLUMNS = {
    "curve": st.column_config.ImageColumn("", width=36, pinned=True, help="The colour of its curve"),
    "run": st.column_config.TextColumn(pinned=True, help="The name of its folder"),
    "started as": st.column_config.TextColumn(width="medium", help="On the Train page"),
    "status": st.column_config.TextColumn(width=104),
    "lr": st.column_config.NumberColumn(format="%.3g", help="Learning rate η"),
    "μ": st.column_config.NumberColumn(format="%.3g", help="Step of the finite differences"),
    "Q": st.column_config.NumberColumn(help="Directions a round"),
    "B": st.column_config.NumberColumn(help="Batch size"),
    "N": st.column_config.NumberColumn(help="Clients"),
    "α": st.column_config.NumberColumn(format="%.3g", help="Of the Dirichlet division among clients"),
    "to target": st.column_config.NumberColumn(format="%d", help="Rounds until the target was first reached"),
    "Δ to target": st.column_config.NumberColumn(format="%+d", help="Rounds more than the baseline took"),
    "Δ VRAM": st.column_config.NumberColumn(format="%+.3f", help="GiB more than the baseline, all clients"),
    "Δ Λ": st.column_config.NumberColumn(format="%+.3g", help="Convergence bias less the baseline's"),
    "rounds": st.column_config.NumberColumn(format="%d", help="Rounds done"),
    "Λ": st.column_config.NumberColumn(format="%.3g", help="Convergence bias of the allocation"),
    "blocks": st.column_config.NumberColumn(format="%d", help="Activated blocks over all clients"),
    "VRAM (GiB)": st.column_config.NumberColumn(format="%.2f", help="All clients together, by the VRAM model"),
}
