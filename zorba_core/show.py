"""What objects show of themselves in a notebook: one line of text above a small SVG, made by hand.

Text and axes have the notebook's own colour (``currentColor``), and marks one blue that stands out from white and from
black, so the same picture suits a light and a dark theme. No library is loaded.

Shapes: B bars, P points of a curve, R rows and C columns of a matrix.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BLUE = "#3d84c6"  # contrast 3.9 with white, 4.9 with #111
_WIDTH, _HEIGHT = 420, 120  # pixels of a picture
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 8, 30  # room around the marks
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_MOST_ROWS, _MOST_COLUMNS = 39, 126  # cells of a drawn matrix; larger ones are averaged


def card(line: str, picture: str) -> str:
    """The HTML of an object: ``line`` above a picture of this module."""
    label = html.escape(line)
    svg = (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'style="max-width:100%;display:block" fill="currentColor" font-family="sans-serif" font-size="10">'
        f"{picture}</svg>"
    )
    return f'<figure style="margin:0"><figcaption style="font-size:small">{label}</figcaption>{svg}</figure>'


def histogram(count_B: NDArray[np.int64], first: str, last: str, label: str) -> str:
    """Bars of these heights. ``first`` and ``last`` name the ends of the axis, ``label`` its quantity."""
    step, highest = _INNER_WIDTH / len(count_B), max(1, int(count_B.max()))
    bars = [
        f'<rect x="{_LEFT + b * step + 0.1 * step:.1f}" y="{_TOP + _INNER_HEIGHT * (1 - count / highest):.1f}" '
        f'width="{0.8 * step:.1f}" height="{_INNER_HEIGHT * count / highest:.1f}" fill="{_BLUE}"/>'
        for b, count in enumerate(count_B.tolist())
        if count
    ]
    return "".join(bars) + _axes(first, last, label, "0", str(highest))


def matrix(A_MN: NDArray[np.bool_], label: str) -> str:
    """A matrix of cells, its rows from top to bottom; a large one as averages over neighbours."""
    share_RC = _averaged(_averaged(A_MN.astype(float), _MOST_ROWS).T, _MOST_COLUMNS).T
    R, C = share_RC.shape
    width, height = _INNER_WIDTH / C, _INNER_HEIGHT / R
    gap = 0.6 if min(width, height) > 3 else 0.0
    paths = []
    for level in (0.25, 0.5, 0.75, 1.0):
        path = "".join(
            f"M{_LEFT + c * width:.4g} {_TOP + r * height:.4g}h{width - gap:.4g}v{height - gap:.4g}h{gap - width:.4g}z"
            for r, c in np.argwhere((share_RC > level - 0.25) & (share_RC <= level)).tolist()
        )
        paths.append(f'<path d="{path}" fill="{_BLUE}" fill-opacity="{level:g}"/>' if path else "")
    return "".join(paths) + _axes("1", str(A_MN.shape[1]), label, str(len(A_MN)), "1")


def curve(x_P: NDArray[np.float64], y_P: NDArray[np.float64], ends: Sequence[str], label: str, mark: int | None) -> str:
    """A line through points of rising x. ``ends`` name the least and the largest x, then y; ``mark`` is a point with a
    dot."""
    left_P = _LEFT + _INNER_WIDTH * (0.01 + 0.98 * _scaled(x_P))
    top_P = _TOP + _INNER_HEIGHT * (0.97 - 0.94 * _scaled(y_P))
    points = " ".join(f"{left:.1f},{top:.1f}" for left, top in zip(left_P, top_P, strict=True))
    line = f'<polyline points="{points}" fill="none" stroke="{_BLUE}" stroke-width="2"/>'
    dots = [mark] if mark is not None else [0] if len(x_P) == 1 else []
    marks = [f'<circle cx="{left_P[p]:.1f}" cy="{top_P[p]:.1f}" r="4" fill="{_BLUE}"/>' for p in dots]
    return line + "".join(marks) + _axes(ends[0], ends[1], label, ends[2], ends[3])


def _scaled(values_P: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0 to 1; 0.5 if all are equal."""
    span = np.ptp(values_P)
    return (values_P - values_P.min()) / span if span else np.full(len(values_P), 0.5)


def _axes(left: str, right: str, label: str, low: str, high: str) -> str:
    """Two lines with the names of their ends, and the label below."""
    bottom, end = _TOP + _INNER_HEIGHT, _LEFT + _INNER_WIDTH
    texts = (
        (_LEFT, bottom + 12, "start", left),
        (end, bottom + 12, "end", right),
        ((_LEFT + end) / 2, bottom + 24, "middle", label),
        (_LEFT - 4, bottom, "end", low),
        (_LEFT - 4, _TOP + 8, "end", high),
    )
    lines = f'<path d="M{_LEFT} {_TOP}V{bottom}H{end}" fill="none" stroke="currentColor" stroke-opacity="0.5"/>'
    return lines + "".join(f'<text x="{x}" y="{y}" text-anchor="{at}">{html.escape(t)}</text>' for x, y, at, t in texts)


def _averaged(values_RC: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """At most ``most`` rows, each the mean of neighbours."""
    if len(values_RC) <= most:
        return values_RC
    starts = np.arange(most) * len(values_RC) // most
    counts = np.diff(np.append(starts, len(values_RC)))
    return np.add.reduceat(values_RC, starts) / counts[:, None]
