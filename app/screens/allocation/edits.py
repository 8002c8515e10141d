"""A matrix under edit: what was changed since the start, and how to take it back. No Streamlit here.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]  # block, client
MAX_PENDING = 10_000
MAX_LINKED = 100  # cells that a link carries


@dataclass(frozen=True, eq=False)
class Edits:
    """Changes on top of ``base_MN``, each a set of cells to flip; ``applied`` is the last operation of the editor that
    counts already, so that none counts twice."""

    base_MN: NDArray[np.bool_]
    done: tuple[tuple[Cell, ...], ...] = ()
    undone: tuple[tuple[Cell, ...], ...] = ()
    applied: int = 0

    @property
    def A_MN(self) -> NDArray[np.bool_]:
        """The matrix with every change."""
        A_MN = self.base_MN.copy()
        for change in self.done:
            blocks, clients = np.array(change).T
            A_MN[blocks, clients] ^= True
        return A_MN

    @property
    def num_changed(self) -> int:
        """Cells that differ from the start."""
        return int((self.base_MN ^ self.A_MN).sum())

    @property
    def is_changed(self) -> bool:
        return self.num_changed > 0

    def toggle(self, block: int, client: int) -> Edits:
        """Flip one cell; one outside the matrix changes nothing."""
        blocks, clients = self.base_MN.shape
        if not (0 <= block < blocks and 0 <= client < clients):
            return self
        return replace(self, done=(*self.done, ((block, client),)), undone=())

    def become(self, A_MN: NDArray[np.bool_]) -> Edits:
        """Take over another matrix of the same shape, as one change."""
        cells = tuple(map(tuple, np.argwhere(A_MN != self.A_MN).tolist()))
        return replace(self, done=(*self.done, cells), undone=()) if cells else self

    def as_link(self) -> str | None:
        """The changed cells as ``block.client`` joined by ``_``, for a page's address; None for none or too many."""
        cells = np.argwhere(self.base_MN ^ self.A_MN).tolist()
        return "_".join(f"{block}.{client}" for block, client in cells) if 0 < len(cells) <= MAX_LINKED else None

    def flip(self, text: str) -> Edits:
        """Flip the cells that a link names, as one change; what is no cell of this matrix is passed over."""
        A_MN = self.A_MN
        for part in text.split("_")[:MAX_LINKED]:
            block, _, client = part.partition(".")
            if all(number.isdecimal() and len(number) < 7 for number in (block, client)):
                m, n = int(block), int(client)
                if m < A_MN.shape[0] and n < A_MN.shape[1]:
                    A_MN[m, n] = not self.base_MN[m, n]
        return self.become(A_MN)

    def undo(self) -> Edits:
        return replace(self, done=self.done[:-1], undone=(*self.undone, self.done[-1])) if self.done else self

    def redo(self) -> Edits:
        return replace(self, done=(*self.done, self.undone[-1]), undone=self.undone[:-1]) if self.undone else self

    def apply(self, operations: Iterable[Mapping[str, Any]]) -> Edits:
        """What the editor sent: toggles, undos and redos with rising ids. Those that count already, and those that make
        no sense, are passed over."""
        edits = self
        for operation in list(operations)[:MAX_PENDING]:
            try:
                number, kind = int(operation["id"]), operation["kind"]
                if number <= edits.applied:
                    continue
                if kind == "toggle":
                    edits = edits.toggle(int(operation["block"]), int(operation["client"]))
                elif kind in ("undo", "redo"):
                    edits = getattr(edits, kind)()
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            edits = replace(edits, applied=number)
        return edits
