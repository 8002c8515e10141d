"""Clients of one kind of card, changed at once: with 170 columns nobody clicks cell after cell.

Shapes: M blocks, N clients, K kinds. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.screens.allocation.edits import Edits
from app.shared import components
from zorba_core.plots.kinds import kinds_figure

MOST_KINDS = 16  # with more sizes of cards, those that hold as many blocks are one kind
_SAID = "kinds_said"


@dataclass(frozen=True, eq=False)
class Kind:
    """Clients with the same card, or with cards that hold as many blocks."""

    label: str
    clients: NDArray[np.int64]


def kinds_of(capacity_N: NDArray[np.float64], most_N: NDArray[np.int64]) -> list[Kind]:
    """The largest cards first."""
    size_N = np.round(np.asarray(capacity_N, float), 2)
    by_size = len(np.unique(size_N)) <= MOST_KINDS
    key_N = size_N if by_size else np.asarray(most_N)
    kinds = []
    for key in np.unique(key_N)[::-1]:
        clients = np.flatnonzero(key_N == key)
        holds = f"{most_N[clients].min()}" + (
            f" to {most_N[clients].max()}" if most_N[clients].min() != most_N[clients].max() else ""
        )
        blocks = "block" if holds == "1" else "blocks"
        what = f"{key:g} GiB, holds {holds} {blocks}" if by_size else f"holds {holds} {blocks}"
        kinds.append(Kind(f"{what}: {len(clients)} client{'' if len(clients) == 1 else 's'}", clients))
    return kinds


def switched(
    A_MN: NDArray[np.bool_], clients: NDArray[np.int64], blocks: Sequence[int], on: bool, most_N: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], int]:
    """(the matrix with ``blocks`` set or cleared on ``clients``, how many cells found no room): a client that is full
    gets no more blocks."""
    changed_MN, without_room = A_MN.copy(), 0
    for block in blocks:
        if not on:
            changed_MN[block, clients] = False
            continue
        wanting = clients[~changed_MN[block, clients]]
        able = wanting[changed_MN[:, wanting].sum(axis=0) < most_N[wanting]]
        changed_MN[block, able] = True
        without_room += len(wanting) - len(able)
    return changed_MN, without_room


def section(
    capacity_N: NDArray[np.float64], most_N: NDArray[np.int64], edits: Edits, change: Callable[[Edits], None]
) -> None:
    """All kinds as one picture, and what can be done to one of them: each button is one step of Undo."""
    kinds = kinds_of(capacity_N, most_N)
    A_MN = edits.A_MN
    share_MK = np.stack([A_MN[:, kind.clients].mean(axis=1) for kind in kinds], axis=1)
    components.figure(
        kinds_figure(share_MK, [kind.label for kind in kinds], palette=components.palette()),
        key="kinds_plot",
        name="zorba-allocation-by-kind",
        alt=f"How large a share of each of {len(kinds)} kinds of cards trains each of {len(A_MN)} blocks.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="controls_of_kinds"):
        labels = [kind.label for kind in kinds]
        chosen = st.selectbox("Kind of card", labels, key="kind_to_change", width=300)
        blocks = st.multiselect(
            "Blocks", list(range(len(A_MN))), key="blocks_to_change", placeholder="choose", width=300
        )
        kind = kinds[labels.index(chosen)] if chosen in labels else kinds[0]
        for on, label, icon in ((True, "Set on all", "add_box"), (False, "Clear on all", "indeterminate_check_box")):
            st.button(
                label,
                key=f"kind_{'set' if on else 'clear'}",
                on_click=_apply,
                args=(edits, kind, tuple(blocks), on, most_N, change),
                disabled=not blocks,
                icon=f":material/{icon}:",
                help="On every client of this kind that has room for it." if on else "On every client of this kind.",
            )
    said = st.session_state.get(_SAID)
    if said is not None and said[0] is edits:
        st.caption(said[1])


def _apply(
    edits: Edits,
    kind: Kind,
    blocks: Sequence[int],
    on: bool,
    most_N: NDArray[np.int64],
    change: Callable[[Edits], None],
) -> None:
    """A button's callback."""
    A_MN, without_room = switched(edits.A_MN, kind.clients, blocks, on, most_N)
    after = edits.become(A_MN)
    count = int((A_MN != edits.A_MN).sum())
    full = f" {without_room} found no room: their cards are full." if without_room else ""
    words = f"{count} cell{'' if count == 1 else 's'} {'set' if on else 'cleared'} on {kind.label}.{full}"
    st.session_state[_SAID] = (after, words)
    change(after)
