"""Learning curves of runs: a measure against rounds or cost, the target, and where each run reached it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from zorba_core.errors import InvalidInputError
from zorba_core.plots.axes import log_axis_of
from zorba_core.plots.targets import share_without_stars, target_line
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, as_text, styled
from zorba_core.study.comparison.curves import Curve, curve_of, has_target, metrics_of, smoothed
from zorba_core.study.comparison.panel import CurvePanel

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
_LEGEND_ROWS = 6  # at most; the legend then scrolls
_LINE = 115  # characters of a legend's row
_GAP = 0.09  # between panels, as a share of the height


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
    targets = sorted({float(run.config["target"]) for run in runs if has_target(run)})
    curves = [smoothed(curve_of(run, measure=measure, cost=cost), smoothing) for run in runs]
    panel = CurvePanel(tuple(curves), measure, cost, {}, (), tuple(targets), metrics_of(runs))
    return curves_figure([panel], palette=palette, height=height)


def curves_figure(
    panels: Sequence[CurvePanel],
    *,
    baseline: str | None = None,
    log_cost: bool = False,
    log_loss: bool = False,
    palette: Palette = LIGHT,
    height: int | None = None,
) -> go.Figure:
    """Panels over each other with one axis of cost; a curve looks the same in all of them.

    Args:
        panels: of one cost; one at least.
        baseline: the curve that the others are held against: drawn heavier and in the colour of text.
        log_cost: logarithmic axis of cost, which leaves out what cost nothing yet; log_loss: of losses.
        height: of the figure without its legend, in pixels; 440 for one panel, 300 each for several.

    Raises:
        InvalidInputError: no panel, an unknown measure or cost, or unlike costs.
    """
    for panel in panels:
        _check(panel.measure, panel.cost)
    if len({panel.cost for panel in panels}) != 1:
        raise InvalidInputError("curves are drawn against one cost; give panels of the same, one at least")
    looks = curve_looks(panels, baseline, palette)
    traces: list[go.Scatter] = []
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    in_legend: set[str] = set()
    share = (1 - _GAP * (len(panels) - 1)) / len(panels)
    for row, panel in enumerate(panels):
        axis = "y" if row == 0 else f"y{row + 1}"
        top = 1 - row * (share + _GAP)
        of_accuracy = panel.measure == "eval_accuracy"
        axes[axis.replace("y", "yaxis")] = {
            "title": {"text": measure_title(panel.measure, panel.metric)},
            "tickformat": ".0%" if of_accuracy else None,
            "domain": [max(0.0, top - share), top],
            "anchor": "x",
            "type": "linear",
        }
        stars = [curve for curve in panel.curves if of_accuracy and curve.reached is not None]
        if log_loss and not of_accuracy:
            axes[axis.replace("y", "yaxis")] |= log_axis_of([_seen(curve) for curve in panel.curves], room=6)
        for curve in panel.curves:
            if log_cost:
                curve = _from_first_cost(curve)
            traces += _drawn(curve, looks[curve.name], axis, in_legend=curve.name not in in_legend)
            in_legend.add(curve.name)
        # Labels of several stars would lie over each other; hovering tells the round.
        traces += [_star(curve, looks[curve.name], axis, palette, labelled=len(stars) == 1) for curve in stars]
        for target in panel.targets if of_accuracy else ():
            line, label = target_line(target, palette, at=share_without_stars(stars, panel.curves, log_cost))
            shapes.append({**line, "yref": axis})
            annotations.append({**label, "yref": axis})
    names = [trace.name for trace in traces if trace.showlegend is not False]
    layout: dict[str, Any] = {
        "showlegend": True,
        "hovermode": "closest",
        "dragmode": "pan",
        "uirevision": " ".join([*(panel.measure for panel in panels), panels[0].cost, str(log_cost), str(log_loss)]),
        "legend": {
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
            "itemdoubleclick": False,
            "maxheight": 22 * _LEGEND_ROWS,
        },
        "xaxis": {
            "title": {"text": COSTS[panels[0].cost]},
            "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
            "exponentformat": "SI",
            **(
                log_axis_of([curve.x_P for panel in panels for curve in panel.curves])
                if log_cost
                else {"rangemode": "tozero"}
            ),
        },
        **axes,
        "shapes": shapes,
        "annotations": annotations,
    }
    if height is None:
        height = 440 if len(panels) == 1 else 300 * len(panels)
    rows = min(_legend_rows(names), _LEGEND_ROWS)
    return styled(traces, palette, height=height + 22 * rows, layout=layout)


def _seen(curve: Curve) -> np.ndarray:
    """What an axis must hold of a curve: its values and its band."""
    return np.concatenate([part for part in (curve.y_P, curve.low_P, curve.high_P) if part is not None])


def measure_title(measure: str, metric: str = "accuracy") -> str:
    """A measure in words, for runs that count this as right."""
    return MEASURES[measure].replace("accuracy", metric)


class CurveLook(NamedTuple):
    """How a curve is drawn: plotly's names."""

    color: str
    dash: str
    symbol: str
    width: float


def curve_looks(panels: Sequence[CurvePanel], baseline: str | None, palette: Palette) -> dict[str, CurveLook]:
    """How :func:`curves_figure` draws each curve, by its name: no two of up to 42 look the same."""
    names = [curve.name for panel in panels for curve in panel.curves]
    looks: dict[str, CurveLook] = {}
    index = 0
    for name in dict.fromkeys(names):
        if name == baseline:
            looks[name] = CurveLook(palette.text, "solid", "diamond", 3.2)
            continue
        color = palette.series[index % len(palette.series)]
        looks[name] = CurveLook(color, DASHES[index % len(DASHES)], SYMBOLS[index % len(SYMBOLS)], 2.2)
        index += 1
    return looks


def _legend_rows(names: Sequence[str]) -> int:
    """Rows that plotly needs for a legend of equally wide entries on a screen of common width."""
    in_a_row = max(1, _LINE // (max(map(len, names), default=0) + 8))
    return math.ceil(len(names) / in_a_row)


def _from_first_cost(curve: Curve) -> Curve:
    """Without points that cost nothing, which have no place on a logarithmic axis."""
    kept_P = curve.x_P > 0
    parts = {
        part: None if (values := getattr(curve, part)) is None else values[kept_P]
        for part in ("x_P", "y_P", "round_P", "low_P", "high_P", "raw_P")
    }
    seeds = tuple((x_P[x_P > 0], y_P[x_P > 0]) for x_P, y_P in curve.seeds)
    return replace(curve, **parts, seeds=seeds)


def _check(measure: str, cost: str) -> None:
    for what, value, choices in (("measure", measure, MEASURES), ("cost", cost, COSTS)):
        if value not in choices:
            raise InvalidInputError(f"unknown {what} {value!r}; choose one of {', '.join(choices)}")


def _drawn(curve: Curve, look: CurveLook, axis: str, *, in_legend: bool) -> list[go.Scatter]:
    """The line, with what lies behind it: the band of a group, the unsmoothed values."""
    name = as_text(curve.name)
    name += f" · {curve.runs} runs" if curve.runs > 1 else ""
    together = {"legendgroup": name, "yaxis": axis}
    unnamed = {**together, "hoverinfo": "skip", "showlegend": False, "mode": "lines"}
    behind: list[go.Scatter] = []
    if curve.low_P is not None and curve.high_P is not None:
        behind.append(
            go.Scatter(
                x=np.concatenate([curve.x_P, curve.x_P[::-1]]),
                y=np.concatenate([curve.high_P, curve.low_P[::-1]]),
                fill="toself",
                fillcolor=_faded(look.color, 0.16),
                line={"width": 0},
                **unnamed,
            )
        )
    if curve.seeds:
        thin_x, thin_y = _end_to_end(curve.seeds)
        behind.append(go.Scatter(x=thin_x, y=thin_y, line={"color": _faded(look.color, 0.35), "width": 0.9}, **unnamed))
    if curve.raw_P is not None:
        faint = {"color": _faded(look.color, 0.3), "width": 1.2}
        behind.append(go.Scatter(x=curve.x_P, y=curve.raw_P, line=faint, **unnamed))
    going_P = np.ones(curve.x_P.size, bool) if curve.held_from is None else curve.x_P <= curve.held_from
    if not going_P.all():
        from_here = max(0, int(going_P.sum()) - 1)
        behind.append(
            go.Scatter(
                x=curve.x_P[from_here:],
                y=curve.y_P[from_here:],
                customdata=curve.round_P[from_here:],
                line={"color": look.color, "width": look.width, "dash": "2px,5px"},
                hovertemplate="<b>%{y:.4f}</b>, some runs at their last value<extra>" + name + "</extra>",
                **{key: value for key, value in unnamed.items() if key != "hoverinfo"},
            )
        )
    line = go.Scatter(
        x=curve.x_P[going_P],
        y=curve.y_P[going_P],
        customdata=curve.round_P[going_P],
        mode="lines+markers" if curve.x_P.size <= _MARKED_UP_TO else "lines",
        cliponaxis=False,
        name=name,
        showlegend=in_legend,
        line={"color": look.color, "width": look.width, "dash": look.dash},
        marker={"symbol": look.symbol, "size": 6 if look.width < 3 else 7, "color": look.color},
        hovertemplate="<b>%{y:.4f}</b> after %{customdata:.0f} rounds<extra>" + name + "</extra>",
        **together,
    )
    return [*behind, line]


def _end_to_end(seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Several lines as one trace: NaN ends each."""
    gap = np.array([np.nan])
    return tuple(np.concatenate([part for seed in seeds for part in (seed[side], gap)]) for side in (0, 1))


def _faded(color: str, opacity: float) -> str:
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _star(curve: Curve, look: CurveLook, axis: str, palette: Palette, *, labelled: bool) -> go.Scatter:
    x, y, done = curve.reached
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers+text" if labelled else "markers",
        text=[f"round {done}"] if labelled else None,
        # Beside the right edge its words would be cut.
        textposition="bottom left" if x > 0.85 * curve.x_P.max() else "bottom right",
        textfont={"size": 12, "color": palette.text},
        marker={"symbol": "star", "size": 16, "color": look.color, "line": {"width": 1.5, "color": palette.paper}},
        hovertemplate=f"target reached in round {done}<extra></extra>",
        showlegend=False,
        yaxis=axis,
    )
