"""A matrix changed by hand, as cells of an address. No Streamlit here.

Shapes: M blocks, N clients. ``base_MN``, ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 600  # characters of an address


def as_link(base_MN: NDArray[np.bool_], A_MN: NDArray[np.bool_]) -> str | None:
    """The cells that differ as ``block.client``, joined by ``_``; None for none, and for too many."""
    text = "_".join(f"{block}.{client}" for block, client in np.argwhere(base_MN ^ A_MN).tolist())
    return text if 0 < len(text) <= LONGEST else None


def flipped(base_MN: NDArray[np.bool_], text: str) -> NDArray[np.bool_]:
    """``base_MN`` with the cells of a link changed; what is no cell of this matrix is ignored."""
    A_MN = base_MN.copy()
    for part in text[:LONGEST].split("_"):
        block, _, client = part.partition(".")
        if all(number.isdecimal() and len(number) < 7 for number in (block, client)):
            m, n = int(block), int(client)
            if m < A_MN.shape[0] and n < A_MN.shape[1]:
                A_MN[m, n] = not base_MN[m, n]
    return A_MN


def with_cells(start_MN: NDArray[np.bool_], edited_rows: dict[Any, dict[str, bool]]) -> NDArray[np.bool_]:
    """``start_MN`` with what ``st.data_editor`` reports: by block, the clients (their numbers) and whether they train
    it."""
    A_MN = start_MN.copy()
    for block, cells in edited_rows.items():
        for client, trains in cells.items():
            A_MN[int(block), int(client)] = bool(trains)
    return A_MN
