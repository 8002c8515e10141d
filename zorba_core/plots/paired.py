"""Differences between arms, seed by seed, against rounds: the part that remains when the seeds' common part has
cancelled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zorba_core.plots.theme import LIGHT, SYMBOLS, Palette, apply


def paired_curves_figure(
    curves: pd.DataFrame, titles: Mapping[str, str], *, x: str, y: str, width: int = 900, palette: Palette = LIGHT
) -> go.Figure:
    """A panel for each arm of ``titles`` that ``curves`` (of ``analysis.paired_curves``) has: its seeds as thin lines,
    their mean with its 95 % interval. All panels have one scale; zero is the usual setting."""
    arms = [arm for arm in titles if arm in set(curves["arm"])]
    figure = make_subplots(
        1, max(len(arms), 1), subplot_titles=[titles[arm] for arm in arms], shared_yaxes=True, horizontal_spacing=0.02
    )
    for column, arm in enumerate(arms, start=1):
        curve = curves[curves["arm"] == arm].sort_values("round")
        place = {"row": 1, "col": column, "exclude_empty_subplots": False}
        figure.add_hline(y=0, line={"color": palette.muted, "dash": "dot", "width": 1.5}, **place)
        for index, seed in enumerate(sorted({seed for by_seed in curve["by_seed"] for seed in by_seed})):
            figure.add_scatter(
                x=curve["round"],
                y=[by_seed.get(seed, np.nan) for by_seed in curve["by_seed"]],
                mode="lines+markers",
                name=f"seed {seed}",
                legendgroup=f"seed {seed}",
                showlegend=column == 1,
                line={"color": palette.quiet, "width": 1.2},
                marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 6, "color": palette.muted},
                row=1,
                col=column,
            )
        finite = np.isfinite(curve["high"]) & np.isfinite(curve["low"])
        figure.add_scatter(
            x=curve["round"],
            y=curve["mean"],
            error_y={
                "type": "data",
                "array": np.where(finite, curve["high"] - curve["mean"], 0.0),
                "arrayminus": np.where(finite, curve["mean"] - curve["low"], 0.0),
                "thickness": 1.6,
                "width": 4,
            },
            mode="lines+markers",
            name="mean, 95 % interval",
            legendgroup="mean",
            showlegend=column == 1,
            line={"color": palette.selected, "width": 2.5},
            marker={"symbol": "diamond", "size": 8},
            row=1,
            col=column,
        )
        figure.update_xaxes(title=x, row=1, col=column)
    apply(figure, palette, height=390)
    figure.update_yaxes(title=y, col=1)
    return figure.update_layout(
        width=width,
        margin={"t": 70, "l": 8, "r": 8, "b": 8},
        legend={"orientation": "h", "x": 0, "y": 1.14, "yanchor": "bottom"},
    )
