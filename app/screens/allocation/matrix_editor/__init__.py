"""A matrix edited in place: a click changes one cell, as do arrow keys and the space bar.

Plotly's heatmaps report no clicks and its markers no keys, so this is a component of our own (`editor.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from zorba_core.plots import Palette

_HERE = Path(__file__).parent
_mount = st.components.v2.component(
    "zorba_matrix_editor",
    html='<div id="matrix"></div>',
    css=(_HERE / "editor.css").read_text(encoding="utf-8"),
    js=(_HERE / "editor.js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class Column:
    """One client of the matrix."""

    index: int  # in the order given
    name: str
    capacity: float  # GiB
    budget: int  # blocks after the reduction
    most: int  # blocks that its VRAM can hold


def matrix_editor(
    A_MN: NDArray[np.bool_],
    base_MN: NDArray[np.bool_],
    columns: Sequence[Column],
    *,
    popularity_M: NDArray[np.int64],
    num_clients: int,
    parameters_gib: float,
    block_gib: float,
    applied: int,
    palette: Palette,
    hint: str,
    key: str,
    on_change: Callable[[], None],
) -> None:
    """Draw ``A_MN`` (the columns shown, in the order shown) with the VRAM of each client above, each block's popularity
    over all ``num_clients`` on the left and each client's least popularity below; cells that differ from ``base_MN``
    are marked. :func:`operations` reads what was done since operation number ``applied``."""
    _mount(
        key=key,
        data={
            "rows": ["".join("1" if cell else "0" for cell in row) for row in A_MN],
            "base": ["".join("1" if cell else "0" for cell in row) for row in base_MN],
            "clients": [asdict(column) for column in columns],
            "popularity": popularity_M.tolist(),
            "total": num_clients,
            "parameters": parameters_gib,
            "block": block_gib,
            "applied": applied,
            "shape": f"{A_MN.shape[0]} {len(columns)}",
            "colors": {
                name: getattr(palette, name)
                for name in ("paper", "text", "muted", "faint", "quiet", "front", "selected", "warning")
            },
            "label": f"Activation matrix: {A_MN.shape[0]} blocks by {len(columns)} clients. Arrow keys move, space "
            "switches a cell, control Z takes it back.",
            "hint": hint,
        },
        on_operations_change=on_change,
    )


def operations(key: str) -> Sequence[Mapping[str, Any]]:
    """What the editor of that key sent last."""
    state = st.session_state.get(key) or {}
    sent = state.get("operations")
    return sent if isinstance(sent, list) else ()
