"""The theorems' bounds as pictures: term by term as rounds grow, against Lambda, and what Lambda hides.

Shapes: T points of a curve, K allocations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from zorba_core.plots.axes import log_axis_of, upright
from zorba_core.plots.theme import LIGHT, Palette, styled
from zorba_core.study.theory import Bound

TERMS = {
    "start": "start: how far there is to go",
    "estimate": "finite differences (μ)",
    "dissimilarity": "clients' data differ (σ_G)",
    "variance": "mini-batches (σ)",
}
_DASHES = {"start": "solid", "estimate": "dash", "dissimilarity": "dot", "variance": "dashdot"}
_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "star")
_POINTS = 120
_CLOSE = 0.25  # share of the width within which the words above two lines would lie over each other
_RATIO_TICKS = tuple(step * 10.0**power for power in range(-4, 7) for step in (1, 2, 5))


def rounds_where_bias_takes_over(bound: Bound, bias_lambda: float, gap: float) -> float:
    """T at which the start term has fallen to the bias; after it, rounds reduce the bound by less than half of the
    remainder."""
    first = bound.terms(bias_lambda, gap, 1)
    bias = first.total - first.start
    return first.start / bias if bias > 0 and math.isfinite(first.total) else math.inf


def bound_by_rounds_figure(
    bound: Bound, bias_lambda: float, gap: float, num_rounds: float, *, palette: Palette = LIGHT
) -> go.Figure:
    """Every term of the bound against the number of rounds, both axes logarithmic; the rounds in view are marked."""
    turn = rounds_where_bias_takes_over(bound, bias_lambda, gap)
    last = max(10.0 * num_rounds, 100 * turn if math.isfinite(turn) else 0, 1e3)
    rounds_T = np.geomspace(1, last, _POINTS)
    terms_T = [bound.terms(bias_lambda, gap, float(rounds)) for rounds in rounds_T]
    traces = [
        go.Scatter(
            x=rounds_T,
            y=[terms.total for terms in terms_T],
            name="<b>the bound</b>",
            mode="lines",
            line={"color": palette.text, "width": 4},
            hovertemplate="%{x:.3g} rounds: %{y:.3g}<extra>the bound</extra>",
        )
    ]
    for number, (term, name) in enumerate(TERMS.items()):
        values = [getattr(terms, term) for terms in terms_T]
        if not any(values):
            continue
        traces.append(
            go.Scatter(
                x=rounds_T,
                y=values,
                name=name,
                mode="lines",
                line={"color": palette.series[number], "width": 2.5, "dash": _DASHES[term]},
                hovertemplate="%{x:.3g} rounds: %{y:.3g}<extra>" + name + "</extra>",
            )
        )
    shapes = [upright(num_rounds, color=palette.selected, width=2, dash="dot")]
    notes = [_note(math.log10(num_rounds), "T in view", palette.selected)]
    if math.isfinite(turn) and 1 < turn < last:
        shapes.append(upright(turn, color=palette.muted, width=2, dash="dash"))
        notes.append(_note(math.log10(turn), "bias takes over", palette.muted))
        if abs(notes[1]["x"] - notes[0]["x"]) < _CLOSE * math.log10(last):  # each on its own side
            first, second = sorted(notes, key=lambda note: note["x"])
            first["xanchor"], second["xanchor"] = "right", "left"
    return styled(
        traces,
        palette,
        height=400,
        layout={
            "margin": {"l": 60, "r": 12, "t": 28, "b": 46},
            "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top"},
            "shapes": shapes,
            "annotations": notes,
            "xaxis": {"title": {"text": "rounds T"}, **log_axis_of([rounds_T], pad=0.0, room=8)},
            "yaxis": {
                "title": {"text": "bound on the mean of ‖∇f‖²"},
                **log_axis_of([trace.y for trace in traces], room=8),
            },
        },
    )


def bound_by_lambda_figure(
    bound: Bound,
    gap: float,
    num_rounds: float,
    num_clients: int,
    marks: Mapping[str, float],
    *,
    palette: Palette = LIGHT,
) -> go.Figure:
    """The bound and its bias against Lambda, from 1/N (full activation) to N; ``marks`` name allocations by their
    Lambda. Shaded where the bound says nothing."""
    low, high = 1.0 / num_clients, float(num_clients)
    lambda_T = np.geomspace(low, min(high, 0.999 * bound.largest_lambda), _POINTS)
    lambda_T = lambda_T[lambda_T < bound.largest_lambda]
    bias_T = [bound.bias(float(value)) for value in lambda_T]
    total_T = [bound.average_gradient(float(value), gap, num_rounds) for value in lambda_T]
    traces = [
        go.Scatter(
            x=lambda_T,
            y=total_T,
            name="<b>the bound after T rounds</b>",
            mode="lines",
            line={"color": palette.text, "width": 4},
            hovertemplate="Λ %{x:.3g}: %{y:.3g}<extra>the bound</extra>",
        ),
        go.Scatter(
            x=lambda_T,
            y=bias_T,
            name="its bias, which no number of rounds lowers",
            mode="lines",
            line={"color": palette.front, "width": 2.5, "dash": "dash"},
            hovertemplate="Λ %{x:.3g}: %{y:.3g}<extra>bias</extra>",
        ),
    ]
    for number, (name, value) in enumerate(marks.items()):
        reached = bound.average_gradient(value, gap, num_rounds)
        if not math.isfinite(reached):
            continue
        traces.append(
            go.Scatter(
                x=[value],
                y=[reached],
                name=f"{name}: Λ = {value:.3g}",
                mode="markers",
                marker={
                    "symbol": _SYMBOLS[number % len(_SYMBOLS)],
                    "size": 14,
                    "color": palette.series[(number + 1) % len(palette.series)],
                    "line": {"color": palette.text, "width": 1},
                },
                hovertemplate=f"{name}: Λ %{{x:.3g}}, bound %{{y:.3g}}<extra></extra>",
            )
        )
    shapes, notes = [], []
    if bound.largest_lambda < high:
        shapes.append(
            {
                "type": "rect",
                "x0": max(bound.largest_lambda, low),
                "x1": high,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "fillcolor": palette.warning,
                "opacity": 0.18,
                "line": {"width": 0},
                "layer": "below",
            }
        )
        # Ends where the shading ends: it is often narrower than these words, and lies at the right edge.
        notes.append({**_note(math.log10(high), "D ≤ 0: no bound", palette.warning), "xanchor": "right"})
    return styled(
        traces,
        palette,
        height=400,
        layout={
            "margin": {"l": 60, "r": 12, "t": 28, "b": 46},
            "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top"},
            "shapes": shapes,
            "annotations": notes,
            "xaxis": {
                **log_axis_of([[low, high]], pad=0.03, room=8),
                "title": {"text": "Λ, from full activation (1/N) to the worst (N)"},
            },
            "yaxis": {
                "title": {"text": "bound on the mean of ‖∇f‖²"},
                **log_axis_of([trace.y for trace in traces if trace.y is not None], room=8),
            },
        },
    )


def hidden_figure(ratios: Mapping[str, Mapping[str, float]], *, palette: Palette = LIGHT) -> go.Figure:
    """``ratios[allocation][number]``: each number as a multiple of full activation's, one row a number, one marker an
    allocation; to the left is better."""
    names = list(next(iter(ratios.values())))
    dodge = np.linspace(-0.24, 0.24, len(ratios)) if len(ratios) > 1 else [0.0]
    traces = [
        go.Scatter(
            x=list(values.values()),
            y=np.arange(len(names)) + dodge[number],
            name=allocation,
            mode="markers",
            marker={
                "symbol": _SYMBOLS[number % len(_SYMBOLS)],
                "size": 13,
                "color": palette.series[number % len(palette.series)],
                "line": {"color": palette.text, "width": 1},
            },
            customdata=names,
            hovertemplate=allocation + ": %{x:.3g} × full activation<extra>%{customdata}</extra>",
        )
        for number, (allocation, values) in enumerate(ratios.items())
    ]
    shapes = [upright(1.0, color=palette.muted, width=2, dash="dash")]
    for row in range(1, len(names), 2):
        shapes.append(
            {
                "type": "rect",
                "layer": "below",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": row - 0.5,
                "y1": row + 0.5,
                "fillcolor": palette.faint,
                "opacity": 0.35,
                "line": {"width": 0},
            }
        )
    values = [1.0, *(value for each in ratios.values() for value in each.values() if math.isfinite(value))]
    low, high = min(values) / 1.3, max(values) * 1.3
    return styled(
        traces,
        palette,
        height=100 + 56 * len(names),
        layout={
            "margin": {"l": 8, "r": 12, "t": 8, "b": 46},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "shapes": shapes,
            "xaxis": {
                "type": "log",
                "range": [math.log10(low), math.log10(high)],
                "tickvals": [tick for tick in _RATIO_TICKS if low <= tick <= high],
                "title": {"text": "times full activation (logarithmic; less is better)"},
            },
            "yaxis": {
                "range": [len(names) - 0.5, -0.5],
                "tickvals": list(range(len(names))),
                "ticktext": names,
                "showgrid": False,
                "tickfont": {"size": 14},
            },
        },
    )


def _note(x: float, text: str, color: str) -> dict:
    return {
        "x": x,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"color": color, "size": 12},
    }
