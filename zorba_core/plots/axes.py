"""Logarithmic axes that read as numbers: 0.5, 1, 2, 5, 10, not "2 5 10⁰"; lines across an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def upright(x: float, *, height: float = 1, **line: Any) -> dict[str, Any]:
    """A straight line at ``x`` over so much of the figure's height. ``line``: how it is drawn."""
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": height, "yref": "paper", "line": line}


def level(y: float, **line: Any) -> dict[str, Any]:
    """A straight line at ``y`` over the figure's width. ``line``: how it is drawn."""
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def log_axis_of(values: Iterable[Any], *, pad: float = 0.06, unit: str = "", room: int = 9) -> dict[str, Any]:
    """An axis around the positive ones of ``values``; linear where there are none.

    Args:
        values: arrays or numbers; NaN and what is not positive is passed over.
        pad: empty share of the range at both ends.
        unit: behind each number, such as ``%``.
        room: for about so many numbers; fewer where the range has more decades.
    """
    arrays = [np.ravel(np.asarray(value, float)) for value in values]
    shown = np.concatenate(arrays) if arrays else np.empty(0)
    shown = shown[np.isfinite(shown) & (shown > 0)]
    if not shown.size:
        return {"type": "linear"}
    low, high = float(np.log10(shown.min())), float(np.log10(shown.max()))
    space = pad * max(high - low, 0.3)
    ticks = log_ticks(low, high, room)
    return {
        "type": "log",
        "range": [low - space, high + space],
        "tickvals": ticks,
        "ticktext": [f"{tick_text(tick)}{unit}" for tick in ticks],
    }


def log_ticks(low: float, high: float, room: int = 9) -> list[float]:
    """Ticks from a decade below ``low`` to one above ``high`` (exponents of ten), so that a moved axis still has some:
    as close as ``room`` for about so many within the range allows."""
    decades = max(high - low, 0.1)
    steps: Sequence[float] = (1,)
    for closer in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        if decades * len(closer) <= room:
            steps = closer
    apart = max(1, math.ceil(decades / room)) if len(steps) == 1 else 1
    exponents = range(math.floor(low) - 1, math.ceil(high) + 2)
    return [float(f"{step * 10.0**e:.6g}") for e in exponents if e % apart == 0 for step in steps]


def tick_text(value: float) -> str:
    """``0.05``, ``20``, ``5000``, ``20k``, ``3M``; below a thousandth ``2×10⁻⁵``."""
    for size, prefix in _PREFIXES:
        if value >= size:
            scale = 1e3 if prefix == "k" else size
            return f"{value / scale:g}{prefix}"
    if value >= 1e-3:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    leading = f"{value / 10.0**exponent:.3g}"
    power = f"10{str(exponent).translate(_RAISED)}"
    return power if leading == "1" else f"{leading}×{power}"
