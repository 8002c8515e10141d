"""The line at the share of right answers that runs are after, and where its words cover no star."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zorba_core.plots.theme import Palette
from zorba_core.study.comparison.curves import Curve

_LABEL_SHARE = 0.2  # of the width that the target's words and half a star take, on a phone


def target_line(target: float, palette: Palette, *, at: float = 0.0) -> tuple[dict[str, Any], dict[str, Any]]:
    """(line, label) across the figure at the share of right answers that runs are after; the label at ``at`` of the
    width, from 0 to 1."""
    place = {"xref": "paper", "yref": "y"}
    line = {"type": "line", "x0": 0, "x1": 1, "y0": target, "y1": target, **place}
    label = {
        "text": f"target {target:.0%}",
        "font": {"color": palette.muted, "size": 12},
        "x": min(max(at, 0.005), 0.995),
        "y": target,
        "xanchor": "left" if at == 0 else "right" if at == 1 else "center",
        "yanchor": "bottom",
        "showarrow": False,
        **place,
    }
    return {**line, "line": {"color": palette.muted, "width": 1.5, "dash": "dot"}}, label


def share_without_stars(stars: Sequence[Curve], visible: Sequence[Curve], log_cost: bool) -> float:
    """Where along the width the target's words cover no star: an end, else the middle of the widest gap."""
    cost_P = np.concatenate([curve.x_P for curve in visible]) if visible else np.zeros(0)
    at_S = np.array([float(curve.reached[0]) for curve in stars])
    if log_cost:
        cost_P, at_S = np.log10(cost_P[cost_P > 0]), np.log10(at_S[at_S > 0])
    if not (at_S.size and cost_P.size):
        return 0.0
    low, high = (cost_P.min() if log_cost else 0.0), cost_P.max()
    share_S = np.clip((np.sort(at_S) - low) / max(high - low, 1e-9), 0, 1)
    if share_S[0] > _LABEL_SHARE:
        return 0.0
    if share_S[-1] < 1 - _LABEL_SHARE:
        return 1.0
    gap = int(np.diff(share_S).argmax())
    return float(share_S[gap : gap + 2].mean())
