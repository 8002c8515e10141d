"""Shapes of a given size in pixels, as the toy map's small matrices, in the size of a printed sheet."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import Any

WITHOUT_ROOM = "without_room"  # in a trace's ``meta``: its words where there is no room for all of them
_ROOM = 0.8  # of the screen's size, from which all words have room
_ENDS, _OFFSETS = ("x0", "x1", "y0", "y1"), ("standoff", "startstandoff")


def shrink_pixel_shapes(
    traces: Sequence[MutableMapping[str, Any]], layout: MutableMapping[str, Any], factor: float
) -> None:
    """Shapes that plotly draws in pixels stay as large as they are on the screen, and would cover each other in a
    smaller figure: make them, and what is placed around them, ``factor`` times as large. A figure without such shapes
    stays as it is."""
    shapes = [shape for shape in layout.get("shapes", ()) if shape.get("xsizemode") == "pixel"]
    factor = min(factor, 1.0)
    if not shapes or factor == 1:
        return
    for shape in shapes:
        if "path" in shape:
            shape["path"] = re.sub(r"-?[\d.]+", lambda number: f"{factor * float(number[0]):.2f}", shape["path"])
        shape |= {end: factor * shape[end] for end in _ENDS if end in shape}
    for note in layout.get("annotations", ()):
        note |= {offset: factor * note[offset] for offset in _OFFSETS if offset in note}
    for trace in traces:
        meta = trace.get("meta") or {}
        if WITHOUT_ROOM in meta:
            trace["marker"] = {**trace["marker"], "size": factor * meta["size"]}
            if factor < _ROOM:
                beside = layout["width"] > layout["height"]  # where columns are wide and rows are low
                trace |= {"text": meta[WITHOUT_ROOM], "textposition": "middle left" if beside else "top center"}
