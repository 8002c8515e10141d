"""What reaching the target cost: every run as a dot, those that never reached it as open arrows at their last cost.

Shapes: R runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from zorba_core.plots.axes import log_axis_of
from zorba_core.plots.runs import COSTS
from zorba_core.plots.theme import LIGHT, SYMBOLS, Palette, as_text, styled

_ROW, _FRAME = 34, 110  # pixels
_FROM_ZERO = {"rangemode": "tozero"}
_LONGEST = 44  # letters of a row's name


@dataclass(frozen=True)
class ToTarget:
    """A group of runs: what reaching the target cost those that did, and how far the others had come."""

    name: str
    reached: tuple[float, ...]
    censored: tuple[float, ...]  # the last cost of runs that never reached it

    @property
    def median(self) -> float | None:
        """Of all runs; None where half of them or more never reached it by the cost that it would be."""
        costs = sorted([(cost, True) for cost in self.reached] + [(cost, False) for cost in self.censored])
        at_risk, left = len(costs), 1.0
        for cost, event in costs:  # the product-limit estimate of the share that has not reached it yet
            if event:
                left *= 1 - 1 / at_risk
                if left <= 0.5:
                    return cost
            at_risk -= 1
        return None


def to_target_figure(
    groups: Sequence[ToTarget], *, cost: str, log_cost: bool = False, palette: Palette = LIGHT
) -> go.Figure:
    """A row for each group, the cheapest median on top."""
    ordered = sorted(groups, key=lambda group: (group.median is None, group.median or 0, group.name))
    traces = []
    for row, group in enumerate(ordered):
        color, symbol = palette.series[row % len(palette.series)], SYMBOLS[row % len(SYMBOLS)]
        name = as_text(group.name)
        if group.reached:
            traces.append(
                go.Scatter(
                    x=group.reached,
                    y=[row] * len(group.reached),
                    mode="markers",
                    marker={"color": color, "symbol": symbol, "size": 10, "opacity": 0.75},
                    hovertemplate=f"<b>%{{x:,.4g}}</b><extra>{name}</extra>",
                    showlegend=False,
                )
            )
        if group.censored:
            traces.append(
                go.Scatter(
                    x=group.censored,
                    y=[row] * len(group.censored),
                    mode="markers",
                    marker={"color": color, "symbol": "triangle-right-open", "size": 13, "line": {"width": 2}},
                    hovertemplate=f"not reached by <b>%{{x:,.4g}}</b><extra>{name}</extra>",
                    showlegend=False,
                )
            )
        if group.median is not None:
            traces.append(
                go.Scatter(
                    x=[group.median, group.median],
                    y=[row - 0.3, row + 0.3],
                    mode="lines",
                    line={"color": palette.text, "width": 2.5},
                    hovertemplate=f"median <b>%{{x:,.4g}}</b><extra>{name}</extra>",
                    showlegend=False,
                )
            )
    names = [group.name if len(group.name) <= _LONGEST else f"{group.name[: _LONGEST - 1]}…" for group in ordered]
    layout = {
        "xaxis": {
            "title": {"text": f"{COSTS[cost]}, until the target"},
            "exponentformat": "SI",
            **(log_axis_of([[*group.reached, *group.censored] for group in ordered]) if log_cost else _FROM_ZERO),
        },
        "yaxis": {
            "tickvals": list(range(len(ordered))),
            "ticktext": [as_text(name) for name in names],
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "margin": {"l": 12, "r": 18, "t": 12, "b": 48},
    }
    return styled(traces, palette, height=_FRAME + _ROW * max(2, len(ordered)), layout=layout)
