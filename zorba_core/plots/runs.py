"""Learning curves of runs: a measure against rounds or cost, the target, and where each run reached it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from zorba_core.errors import InvalidInputError
from zorba_core.plots.curves import Curve, curve_of, has_target, smoothed
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, styled

if TYPE_CHECKING:
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
    "bytes": "Bytes sent, both ways, all clients",
    "work": "Forward passes of one client's batch; a backward pass counts as two",
}
_MARKED_UP_TO = 60  # points; more markers would hide the line
_LEGEND_ROWS = 12


def learning_curves_figure(
    runs: Sequence[Run],
    *,
    measure: str = "eval_accuracy",
    cost: str = "round",
    smoothing: float = 0.0,
    palette: Palette = LIGHT,
    height: int = 440,
) -> go.Figure:
    """One curve per run, each with a colour, a dash and a marker of its own. Accuracy also gets each target as a line
    and a star where a run first reached its own.

    Raises:
        InvalidInputError: an unknown measure or cost.
    """
    _check(measure, cost)
    return curves_figure(
        [smoothed(curve_of(run, measure=measure, cost=cost), smoothing) for run in runs],
        measure=measure,
        cost=cost,
        targets=[run.config["target"] for run in runs if has_target(run)],
        palette=palette,
        height=height,
    )


def curves_figure(
    curves: Sequence[Curve],
    *,
    measure: str,
    cost: str,
    targets: Sequence[float] = (),
    baseline: str | None = None,
    palette: Palette = LIGHT,
    height: int = 440,
) -> go.Figure:
    """Curves that are ready, single runs or groups; ``baseline`` names the one that the others are held against, which
    is drawn heavier and in the colour of text.

    Raises:
        InvalidInputError: an unknown measure or cost.
    """
    _check(measure, cost)
    traces: list[go.Scatter] = []
    stars: list[go.Scatter] = []
    index = 0
    for curve in curves:
        pinned = curve.name == baseline
        color = palette.text if pinned else palette.series[index % len(palette.series)]
        dash = "solid" if pinned else DASHES[index % len(DASHES)]
        symbol = "diamond" if pinned else SYMBOLS[index % len(SYMBOLS)]
        index += not pinned
        traces += _drawn(curve, color, dash, symbol, 3.2 if pinned else 2.2)
        if measure == "eval_accuracy" and curve.reached is not None:
            stars.append(_star(curve, color, palette))
    if len(stars) > 1:  # their labels would lie over each other; hovering tells the round
        for star in stars:
            star.update(mode="markers", text=None)
    shown = sorted(set(targets)) if measure == "eval_accuracy" else []
    layout: dict[str, Any] = {
        "showlegend": True,
        "hovermode": "closest",
        "dragmode": "pan",
        "uirevision": f"{measure} {cost}",
        "legend": {"y": 1.02, "yanchor": "bottom", "x": 0, "itemdoubleclick": False},
        "xaxis": {"title": {"text": COSTS[cost]}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": MEASURES[measure]}, "tickformat": ".0%" if measure == "eval_accuracy" else None},
        "shapes": [target_line(target, palette)[0] for target in shown],
        "annotations": [target_line(target, palette)[1] for target in shown],
    }
    return styled(
        [*traces, *stars], palette, height=height + 22 * min(len(curves), _LEGEND_ROWS), layout=layout
    )  # fmt: skip


def target_line(target: float, palette: Palette, *, at_end: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """(line, label) across the figure at an accuracy that runs are after; the label at its start or end."""
    place = {"xref": "paper", "yref": "y"}
    line = {"type": "line", "x0": 0, "x1": 1, "y0": target, "y1": target, **place}
    label = {
        "text": f"target {target:.0%}",
        "font": {"color": palette.muted, "size": 12},
        "x": 0.995 if at_end else 0.005,
        "y": target,
        "xanchor": "right" if at_end else "left",
        "yanchor": "bottom",
        "showarrow": False,
        **place,
    }
    return {**line, "line": {"color": palette.muted, "width": 1.5, "dash": "dot"}}, label


def _check(measure: str, cost: str) -> None:
    for what, value, known in (("measure", measure, MEASURES), ("cost", cost, COSTS)):
        if value not in known:
            raise InvalidInputError(f"unknown {what} {value!r}; choose one of {', '.join(known)}")


def _drawn(curve: Curve, color: str, dash: str, symbol: str, width: float) -> list[go.Scatter]:
    """The line, with what lies behind it: the band of a group, the unsmoothed values."""
    # Plotly reads some HTML in names, and names are those of folders.
    name = curve.name.replace("&", "&amp;").replace("<", "&lt;")
    name += f" · {curve.runs} runs" if curve.runs > 1 else ""
    behind: list[go.Scatter] = []
    if curve.low_P is not None and curve.high_P is not None:
        behind.append(
            go.Scatter(
                x=np.concatenate([curve.x_P, curve.x_P[::-1]]),
                y=np.concatenate([curve.high_P, curve.low_P[::-1]]),
                fill="toself",
                fillcolor=_faded(color, 0.16),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                legendgroup=name,
            )
        )
    if curve.raw_P is not None:
        behind.append(
            go.Scatter(
                x=curve.x_P,
                y=curve.raw_P,
                mode="lines",
                line={"color": _faded(color, 0.3), "width": 1.2},
                hoverinfo="skip",
                showlegend=False,
                legendgroup=name,
            )
        )
    line = go.Scatter(
        x=curve.x_P,
        y=curve.y_P,
        customdata=curve.round_P,
        mode="lines+markers" if curve.x_P.size <= _MARKED_UP_TO else "lines",
        cliponaxis=False,
        name=name,
        legendgroup=name,
        line={"color": color, "width": width, "dash": dash},
        marker={"symbol": symbol, "size": 6 if width < 3 else 7, "color": color},
        hovertemplate="<b>%{y:.4f}</b> after %{customdata:.0f} rounds<extra>" + name + "</extra>",
    )
    return [*behind, line]


def _faded(color: str, opacity: float) -> str:
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _star(curve: Curve, color: str, palette: Palette) -> go.Scatter:
    x, y, done = curve.reached
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers+text",
        text=[f"round {done}"],
        textposition="bottom right",
        textfont={"size": 12, "color": palette.text},
        marker={"symbol": "star", "size": 16, "color": color, "line": {"width": 1.5, "color": palette.paper}},
        hovertemplate=f"target reached in round {done}<extra></extra>",
        showlegend=False,
    )
