"""Change the matrix by hand: every number follows at once, and the solver says what it would have done.

Shapes: M blocks, N clients; W clients shown. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.screens.allocation import files
from app.screens.allocation.edits import as_link, flipped, with_cells
from app.screens.allocation.judgement import Judgement, judge
from app.screens.allocation.verdict import verdict
from app.screens.train.words import NEW
from app.shared import components, selection, state
from app.shared.components import Download, Number, as_pdf
from app.shared.files import allocation_npz
from app.shared.links import keep, linked, linked_number
from app.shared.scenario import Scenario
from app.shared.study import Study
from app.shared.tradeoff import AXES
from zorba_core.allocation import Allocation, Solution
from zorba_core.plots import client_order

ORDERS = {"vram": "VRAM", "budget": "budget", "blocks": "blocks held", "least": "least popularity", "given": "as given"}
SHOWN = 60  # clients with a column each
_EDITOR = "matrix_editor"


@dataclass(frozen=True, eq=False)
class _Editor:
    """The matrix under edit. The table of ``turn`` starts from ``start_MN`` and keeps its own edits; ``A_MN`` has
    them."""

    of: tuple[Scenario, int]
    turn: int
    start_MN: NDArray[np.bool_]
    A_MN: NDArray[np.bool_]
    clients: tuple[int, ...] = ()  # that have a column


def show(study: Study, point: int) -> None:
    start = state.solution(study.scenario, point)
    A_MN = current_matrix(study, point)
    judgement = _judged(study, point, start, A_MN)
    is_changed = bool((A_MN != start.allocation.A_MN).any())
    _headline(study, judgement, start)
    verdict(study, judgement, is_changed=is_changed)
    order_N = _tools(study, start, A_MN)
    _matrix(study, start, order_N)
    _picture(study, judgement.allocation)
    _files(study, start, judgement.allocation, point)


def current_matrix(study: Study, point: int) -> NDArray[np.bool_]:
    """The matrix under edit of this scenario and point; at first what Train would use, or the link's."""
    of = (study.scenario, point)
    editor = st.session_state.get(_EDITOR)
    if editor is None or editor.of != of:
        base_MN = state.solution(study.scenario, point).allocation.A_MN
        by_hand = selection.edited_allocation()
        link = st.query_params.get("flips", "") if editor is None else ""
        A_MN = flipped(base_MN, link) if by_hand is None else by_hand.A_MN
        editor = _Editor(of, 0 if editor is None else editor.turn + 1, A_MN, A_MN)
        st.session_state[_EDITOR] = editor
    return editor.A_MN


def change(A_MN: NDArray[np.bool_]) -> None:
    """Go on with another matrix (a button's callback)."""
    editor = st.session_state[_EDITOR]
    st.session_state[_EDITOR] = replace(editor, turn=editor.turn + 1, start_MN=A_MN, A_MN=A_MN)


def _take_cells(key: str) -> None:
    """The table's callback."""
    editor = st.session_state[_EDITOR]
    A_MN = with_cells(editor.start_MN, st.session_state[key]["edited_rows"])
    st.session_state[_EDITOR] = replace(editor, A_MN=A_MN)


def _judged(study: Study, point: int, start: Solution, A_MN: NDArray[np.bool_]) -> Judgement:
    """Judge the matrix, and hand it to Train when it can run and differs from the point's own."""
    allocation = Allocation(A_MN)
    budget_N, most_N = start.problem.budget_N, study.everything.problem.budget_N
    solver, seed = study.scenario.solver, study.front.seed_of(point)
    judgement = judge(allocation, budget_N, most_N, solver=solver, seed=seed)
    is_changed = bool((A_MN != start.allocation.A_MN).any())
    if is_changed and judgement.is_feasible:
        selection.set_edited(allocation)
    else:
        selection.clear_edited()
    keep("flips", as_link(start.allocation.A_MN, A_MN))
    return judgement


def _headline(study: Study, judgement: Judgement, start: Solution) -> None:
    now, before = judgement.allocation, start.allocation
    used = float(study.used_N_gib(now.blocks_held_N).sum())

    def beside_the_start(name: str) -> Number:
        origin = components.measured(name, before).value
        shown = components.measured(name, now)
        return replace(shown, note="as at the start" if shown.value == origin else f"{origin} at the start")

    components.numbers(
        [
            *map(beside_the_start, AXES),
            Number(
                "VRAM by the paper's model",
                f"{used:.1f} GiB",
                r"$\sum_n \psi_{\mathrm{tot},n}$: the model's parameters on every client, and the activations of "
                f"{now.total_blocks} activated blocks.",
                f"{used / study.capacity_gib:.1%}, {now.total_blocks} blocks",
            ),
        ]
    )


def _tools(study: Study, start: Solution, A_MN: NDArray[np.bool_]) -> NDArray[np.int64]:
    """What can be done to the matrix as a whole; the clients in the order chosen, those of one page of the table."""
    base_MN = start.allocation.A_MN
    changed = int((base_MN != A_MN).sum())
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        order = linked(
            st.selectbox,
            "Sort clients by",
            ORDERS,
            key="order",
            width=170,
            help="By what the clients have at the start, so that columns stay where they are while you edit.",
        )
        st.button(
            "Start again",
            key="edit_reset",
            on_click=change,
            args=(base_MN,),
            disabled=not changed,
            icon=":material/restart_alt:",
            help="Back to the point's own matrix.",
        )
        st.caption(
            f"{changed} cell{'' if changed == 1 else 's'} changed."
            if changed
            else "Nothing changed yet: this is the point's own matrix.",
            width="content",
        )
        if changed and as_link(base_MN, A_MN) is None:
            st.caption(":material/link_off: Too many for a link; send *Allocation (JSON)* instead.", width="content")
        st.page_link(
            "screens/train/train.py",
            label="Train it",
            icon=":material/model_training:",
            width="content",
            query_params={"job": NEW},
        )
    order_N = client_order(base_MN, study.fleet.capacity_N_gib, order, budget_N=start.problem.budget_N)
    if len(order_N) <= SHOWN:
        return order_N
    first = linked_number(
        st.slider,
        f"Clients to change, {SHOWN} at a time",
        1,
        len(order_N) - SHOWN + 1,
        1,
        key="first_client",
        help="Position in the order chosen above.",
    )
    return order_N[first - 1 : first - 1 + SHOWN]


def _matrix(study: Study, start: Solution, order_N: NDArray[np.int64]) -> None:
    """A column for each client shown, with a box to tick for each block."""
    editor, clients = st.session_state[_EDITOR], tuple(order_N.tolist())
    if editor.clients != clients:  # other columns, another table: it starts from the matrix as it is now
        editor = replace(editor, turn=editor.turn + 1, start_MN=editor.A_MN, clients=clients)
        st.session_state[_EDITOR] = editor
    key = f"matrix_{editor.turn}"
    budget_N, most_N = start.problem.budget_N, study.everything.problem.budget_N
    capacity_N = study.fleet.capacity_N_gib
    table = pd.DataFrame(editor.start_MN[:, order_N], columns=[str(n) for n in order_N])
    table.index.name = "block"
    st.data_editor(
        table,
        key=key,
        on_change=_take_cells,
        args=(key,),
        width="stretch",
        height="content",
        column_config={
            str(n): st.column_config.CheckboxColumn(
                str(n),
                help=f"{components.plain(study.fleet.names[n])}, {capacity_N[n]:.2f} GiB: room for {most_N[n]} blocks, "
                f"{budget_N[n]} at this point.",
                width=58,
            )
            for n in order_N
        },
        alt=f"Activation matrix: {len(table)} blocks by {len(order_N)} clients, a box to tick in each cell.",
    )


def _picture(study: Study, allocation: Allocation) -> None:
    components.figure(
        files.picture(study, allocation, components.palette()),
        key="matrix_plot",
        name="zorba-allocation",
        alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trains, its VRAM, and "
        "how many clients train each block.",
    )


def _files(study: Study, start: Solution, allocation: Allocation, point: int) -> None:
    name = f"zorba-allocation-{study.scenario.model}-{point}"
    palette = components.palette()
    components.downloads(
        [
            Download(
                "Allocation (JSON)",
                f"{name}.json",
                lambda: files.matrix_json(study, allocation),
                "Block ids of each client with every number; `zorba train --allocation` reads it.",
            ),
            Download(
                "Matrix (NPZ)",
                f"{name}.npz",
                lambda: allocation_npz(study, replace(start, allocation=allocation)),
                "NumPy arrays: A_MN (blocks by clients), budget_N, capacity_N_bytes.",
            ),
            Download(
                "Clients (CSV)",
                f"{name}.csv",
                lambda: files.clients_csv(study, start, allocation),
                "A row per client: VRAM, budget, blocks held, least popularity, influence.",
            ),
            *as_pdf(lambda: files.picture(study, allocation, palette), name),
        ],
        key="allocation_files",
    )
