"""Learning curves of runs over their rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from zorba_core.errors import InvalidInputError
from zorba_core.plots.theme import DASHES, LIGHT, SYMBOLS, Palette, as_text, styled

if TYPE_CHECKING:
    from zorba_core.runs import Run

MEASURES = {
    "eval_accuracy": "Accuracy on held-out rows",
    "eval_loss": "Loss on held-out rows",
    "train_loss": "Loss on the clients' batches",
}
_MARKED_UP_TO = 60  # points; more markers would hide the line


def curves_figure(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    title: str,
    rounds: int | None = None,
    share: bool = False,
    targets: Sequence[float] = (),
    palette: Palette = LIGHT,
    height: int = 300,
) -> go.Figure:
    """Values against rounds, each curve with a colour, a dash and a marker.

    Args:
        curves: rounds and values by name, in the order of their colours. NaN is left out.
        rounds: the end of the axis; by default the last round drawn.
        share: values are shares, shown in percent.
        targets: level lines.
    """
    traces = []
    for index, (name, (round_P, value_P)) in enumerate(curves.items()):
        round_P, value_P = np.asarray(round_P), np.asarray(value_P, float)
        known_P = ~np.isnan(value_P)
        color = palette.series[index % len(palette.series)]
        traces.append(
            go.Scatter(
                x=round_P[known_P],
                y=value_P[known_P],
                mode="lines+markers" if known_P.sum() <= _MARKED_UP_TO else "lines",
                name=as_text(name),
                cliponaxis=False,
                line={"color": color, "width": 2.2, "dash": DASHES[index % len(DASHES)]},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 6, "color": color},
                hovertemplate=("%{y:.1%}" if share else "%{y:.4f}")
                + " after %{x} rounds<extra>"
                + as_text(name)
                + "</extra>",
            )
        )
    line = {"color": palette.muted, "width": 1.2, "dash": "dot"}
    layout: dict[str, Any] = {
        "showlegend": len(traces) > 1,
        "hovermode": "closest",
        "dragmode": False,
        "margin": {"l": 58, "r": 14, "t": 12 + (22 if len(traces) > 1 else 0), "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "maxheight": 88},
        "xaxis": {"title": {"text": "rounds"}, "rangemode": "tozero", "automargin": False},
        "yaxis": {"title": {"text": title}, "tickformat": ".0%" if share else None, "automargin": False},
        "shapes": [
            {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": y, "y1": y, "line": line} for y in targets
        ],
        "annotations": [
            {
                "x": 1, "xref": "paper", "xanchor": "right", "y": target, "yanchor": "bottom", "showarrow": False,
                "text": f"target {target:.0%}" if share else f"target {target:g}",
                "font": {"size": 12, "color": palette.muted},
            }
            for target in targets
        ],
    }  # fmt: skip
    if rounds:
        layout["xaxis"]["range"] = [0, rounds]
    return styled(traces, palette, height=height, layout=layout)


def learning_curves_figure(
    runs: Sequence[Run], *, measure: str = "eval_accuracy", palette: Palette = LIGHT, height: int = 440
) -> go.Figure:
    """One curve per run; accuracy also gets each target as a level line.

    Raises:
        InvalidInputError: an unknown measure.
    """
    if measure not in MEASURES:
        raise InvalidInputError(f"unknown measure {measure!r}; choose one of {', '.join(MEASURES)}")
    is_share = measure == "eval_accuracy"
    targets = sorted({float(run.config["target"]) for run in runs if run.config.get("target")}) if is_share else ()
    return curves_figure(
        {run.path.name: (run.metrics["round"], run.metrics[measure]) for run in runs},
        title=MEASURES[measure],
        share=is_share,
        targets=targets,
        palette=palette,
        height=height,
    )
