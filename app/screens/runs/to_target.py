"""What reaching the target cost each of the picked runs; those that never did stay in the picture."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.screens.runs.toolbar import TargetAsked
from app.shared import components
from app.shared.components import Download, Picture
from zorba_core.plots.to_target import ToTarget, to_target_figure
from zorba_core.study.comparison import Record, target_reached
from zorba_core.study.comparison.names import groups, labels


def draw(asked: TargetAsked, chosen: Sequence[Record]) -> None:
    """The picture, its numbers and files."""
    rows = of_runs(asked, chosen)
    if not rows:
        st.info(
            "None of the chosen runs has a target and this cost. Choose another cost, or pick runs.",
            icon=":material/search_off:",
        )
        return
    figure = to_target_figure(rows, cost=asked.cost, log_cost=asked.log_cost, palette=components.palette())
    reached, censored = sum(len(row.reached) for row in rows), sum(len(row.censored) for row in rows)
    components.figure(
        figure,
        key="target_plot",
        name="zorba-cost-to-target",
        alt="Cost until the target. "
        + "; ".join(
            f"{row.name}: {len(row.reached)} of {len(row.reached) + len(row.censored)} reached it"
            + ("" if row.median is None else f", median {row.median:,.4g}")
            for row in rows[:8]
        ),
    )
    st.caption(
        f"Dots: the {reached} runs that reached their target, where they first did. Open arrows: the {censored} that "
        "had not by then; they count in the medians (strokes), drawn where more than half of a row reached it."
    )
    components.downloads(
        [
            Download(
                "Costs (CSV)",
                "zorba-cost-to-target.csv",
                lambda: _table(rows).to_csv(index=False).encode(),
                "A row for each run: its group, the cost, and whether it reached the target.",
            )
        ],
        key="target_files",
        picture=Picture(lambda: figure, "zorba-cost-to-target"),
    )


def of_runs(asked: TargetAsked, chosen: Sequence[Record]) -> list[ToTarget]:
    """Rows of the picture: groups of seeds, or single runs."""
    behind = groups(chosen) if asked.grouped else {name: [record] for name, record in labels(chosen).items()}
    rows = []
    for name, runs in behind.items():
        reached, censored = [], []
        for run in runs:
            if not isinstance(run.config.get("target"), int | float) or asked.cost not in run.metrics:
                continue
            first = target_reached(run)
            if first is not None and pd.notna(first[asked.cost]):
                reached.append(float(first[asked.cost]))
            elif len(known := run.metrics[asked.cost].dropna()):
                censored.append(float(known.max()))
        if reached or censored:
            rows.append(ToTarget(name, tuple(reached), tuple(censored)))
    return rows


def _table(rows: Sequence[ToTarget]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"group": row.name, "cost": cost, "reached": known}
            for row in rows
            for costs, known in ((row.reached, True), (row.censored, False))
            for cost in costs
        ]
    )
