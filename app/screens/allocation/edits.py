"""A matrix under edit: what was changed since the start, and how to take it back. No Streamlit here.

Shapes: M blocks, N clients. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]  # block, client
MAX_PENDING = 10_000
MAX_LINKED = 600  # characters of an address that changed cells may take
_PACKED, _UNHELD = "~m", "~n"  # how what is no list of cells begins: a packed matrix, or how many cells are missing


@dataclass(frozen=True, eq=False)
class Edits:
    """Changes on top of ``base_MN``, each a set of cells to flip; ``applied`` is the last operation of the editor that
    counts already, so that none counts twice. ``unheld``: cells that were changed where the link was made, and are not
    in it."""

    base_MN: NDArray[np.bool_]
    done: tuple[tuple[Cell, ...], ...] = ()
    undone: tuple[tuple[Cell, ...], ...] = ()
    applied: int = 0
    unheld: int = 0

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

    @property
    def is_linked(self) -> bool:
        """Whether a link holds the changes."""
        return not (self.as_link() or "").startswith(_UNHELD)

    def as_link(self) -> str | None:
        """The changed cells for a page's address, None for none: as ``block.client`` joined by ``_``, or the matrix of
        changes packed where that is shorter. Where both are too long only how many there are, so that whoever opens the
        link sees it."""
        changed_MN = self.base_MN ^ self.A_MN
        count = int(changed_MN.sum())
        if not count:
            return f"{_UNHELD}{self.unheld}" if self.unheld else None
        packed = zlib.compress(np.packbits(changed_MN).tobytes(), 9)
        texts = [_PACKED + base64.urlsafe_b64encode(packed).decode().rstrip("=")]
        if count <= MAX_LINKED:
            texts.append("_".join(f"{block}.{client}" for block, client in np.argwhere(changed_MN).tolist()))
        shortest = min(texts, key=len)
        return shortest if len(shortest) <= MAX_LINKED else f"{_UNHELD}{count}"

    def flip(self, text: str) -> Edits:
        """Flip the cells that a link names, as one change; what is no cell of this matrix is ignored."""
        if text.startswith(_UNHELD):
            count = text.removeprefix(_UNHELD)
            return replace(self, unheld=int(count) if count.isdecimal() and len(count) < 10 else 1)
        if text.startswith(_PACKED):
            changed_MN = _unpacked(text.removeprefix(_PACKED), self.base_MN.shape)
            return replace(self, unheld=1) if changed_MN is None else self.become(self.base_MN ^ changed_MN)
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


def _unpacked(text: str, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    """The matrix of changes of a link; None where it is none of this shape."""
    cells = shape[0] * shape[1]
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), cells // 8 + 2)
    except (ValueError, zlib.error, binascii.Error):
        return None
    if not unpacker.eof or len(content) != (cells + 7) // 8:
        return None
    return np.unpackbits(np.frombuffer(content, np.uint8), count=cells).reshape(shape).astype(bool)
