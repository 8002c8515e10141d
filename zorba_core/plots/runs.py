"""Learning curves of runs: a measure against rounds or cost, the target, and where each run reached it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from zorba_core.errors import InvalidInputError
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, apply

if TYPE_CHECKING:
    import pandas as pd

    from zorba_core.runs import Run

MEASURES = {
    "eval_accuracy": "Validation accuracy",
    "eval_loss": "Validation cross-entropy",
    "train_loss": "Training loss, mean over clients",
}
COSTS = {
    "round": "Rounds",
    "forward_passes": "Forward passes of one client's batch",
    "seconds": "Seconds of training",
    "scalars_up": "Numbers sent by all clients",
}


def learning_curves_figure(
    runs: Sequence[Run],
    *,
    measure: str = "eval_accuracy",
    cost: str = "round",
    palette: Palette = LIGHT,
    height: int = 440,
) -> go.Figure:
    """One curve per run, each with a colour, a dash and a marker of its own. Accuracy also gets each target as a line
    and a star where a run first reached its own.

    Raises:
        InvalidInputError: an unknown measure or cost.
    """
    for what, value, known in (("measure", measure, MEASURES), ("cost", cost, COSTS)):
        if value not in known:
            raise InvalidInputError(f"unknown {what} {value!r}; choose one of {', '.join(known)}")
    figure = go.Figure()
    for index, run in enumerate(runs):
        color = palette.series[index % len(palette.series)]
        rows = run.metrics.dropna(subset=[measure])
        few = len(rows) <= 60
        figure.add_trace(
            go.Scatter(
                x=rows[cost],
                y=rows[measure],
                customdata=rows["round"],
                mode="lines+markers" if few else "lines",
                cliponaxis=False,
                name=run.name,
                line={"color": color, "width": 2.2, "dash": DASHES[index % len(DASHES)]},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 6, "color": color},
                hovertemplate="<b>%{y:.4f}</b> after %{customdata} rounds<extra>" + run.name + "</extra>",
            )
        )
        reached = target_reached(run) if measure == "eval_accuracy" else None
        if reached is not None:
            figure.add_trace(_star(reached, cost, run, color, palette))
    if measure == "eval_accuracy":
        for target in sorted({run.config["target"] for run in runs if _has_target(run)}):
            figure.add_hline(
                y=target,
                line={"color": palette.muted, "width": 1.5, "dash": "dot"},
                annotation={
                    "text": f"target {target:.0%}",
                    "font": {"color": palette.muted, "size": 12},
                    "xanchor": "left",
                    "x": 0.005,
                    "showarrow": False,
                },
            )
    apply(figure, palette, height=height + 22 * min(len(runs), 12))
    figure.update_layout(
        showlegend=True,
        hovermode="closest",
        dragmode="pan",
        legend={"y": 1.02, "yanchor": "bottom", "x": 0, "itemdoubleclick": False},
    )
    figure.update_xaxes(title_text=COSTS[cost], rangemode="tozero")
    figure.update_yaxes(title_text=MEASURES[measure], tickformat=".0%" if measure == "eval_accuracy" else None)
    return figure


def target_reached(run: Run) -> pd.Series | None:
    """The first evaluated row at which the run's accuracy was at least its target; None if it never was."""
    if not _has_target(run):
        return None
    rows = run.evaluations
    rows = rows[rows["eval_accuracy"] >= run.config["target"]]
    return rows.iloc[0] if len(rows) else None


def _has_target(run: Run) -> bool:
    target = run.config.get("target")
    return isinstance(target, int | float) and not isinstance(target, bool)


def _star(row: pd.Series, cost: str, run: Run, color: str, palette: Palette) -> go.Scatter:
    return go.Scatter(
        x=[row[cost]],
        y=[row["eval_accuracy"]],
        mode="markers+text",
        text=[f"round {int(row['round'])}"],
        textposition="bottom right",
        textfont={"size": 12, "color": palette.text},
        marker={"symbol": "star", "size": 16, "color": color, "line": {"width": 1.5, "color": palette.paper}},
        hovertemplate=f"target reached in round {int(row['round'])}<extra>{run.name}</extra>",
        showlegend=False,
    )
