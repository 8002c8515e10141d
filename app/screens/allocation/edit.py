"""Change the matrix by hand: every number follows at once, and the solver says what it would have done.

Shapes: M blocks, N clients; W clients shown. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from app.screens.allocation import files, kinds
from app.screens.allocation.edits import Edits
from app.screens.allocation.judgement import Judgement, judge
from app.screens.allocation.matrix_editor import Column, matrix_editor, operations
from app.screens.allocation.verdict import verdict
from app.screens.train.words import NEW
from app.shared import components, selection, state
from app.shared.components import Download, Number, as_pdf
from app.shared.escape import in_figure
from app.shared.files import allocation_npz
from app.shared.links import choice, keep, linked, linked_number, number
from app.shared.scenario import block_gib
from app.shared.study import Study
from app.shared.tradeoff import AXES
from zorba_core.allocation import Allocation, Solution
from zorba_core.plots import allocation_figure, client_order

KEY = "matrix_editor"
ORDERS = {"vram": "VRAM", "budget": "budget", "blocks": "blocks held", "least": "least popularity", "given": "as given"}
SHOWN = 60  # clients whose single cells can be drawn and hit
_EDITS, _FIRST = "allocation_edits", "first_client"
_HINT = "Click a cell, or walk with the arrow keys and press space. Ctrl+Z takes a change back."


def show(study: Study, point: int) -> None:
    start = state.solution(study.scenario, point)
    edits = current_edits(study, point, start)
    judgement = _judged(study, point, start, edits)
    _headline(study, judgement, start)
    verdict(study, judgement, edits)
    say_unheld(edits)
    _tools(study, point, edits)
    _matrix(study, start, edits)
    _files(study, start, judgement.allocation, point)


def current_edits(study: Study, point: int, start: Solution) -> Edits:
    """The matrix under edit of this scenario and point; started from what Train would use, or from the link."""
    identity = (study.scenario, point)
    stored = st.session_state.get(_EDITS)
    if stored is None or stored[0] != identity:
        base_MN = start.allocation.A_MN
        # Operations are numbered through the session, so that the first one here is no repetition of one elsewhere.
        edits = Edits(base_MN, applied=stored[1].applied if stored else 0)
        by_hand = selection.edited_allocation()
        if by_hand is not None:
            edits = edits.become(by_hand.A_MN)
        elif stored is None:
            edits = edits.flip(st.query_params.get("flips", ""))
        st.session_state[_EDITS] = (identity, edits)
    return st.session_state[_EDITS][1]


def carry(study: Study, point: int) -> None:
    """On a page or view without the matrix: its changes count there too, and stay in the address."""
    start = state.solution(study.scenario, point)
    stored = st.session_state.get(_EDITS)
    if stored is None or stored[0] == (study.scenario, point) or selection.edited_allocation() is not None:
        edits = current_edits(study, point, start)
        if edits.is_changed:
            _judged(study, point, start, edits)
            if selection.edited_allocation() is None:
                st.caption(":material/block: The matrix changed by hand cannot run: the point's own is used here.")
        keep("flips", edits.as_link())
        say_unheld(edits)
    else:
        keep("flips", None)


def say_unheld(edits: Edits) -> None:
    """Where a link does not hold the changes: what to send instead, and afterwards what it did not hold."""
    if edits.is_changed and not edits.is_linked:
        st.caption(
            f":material/link_off: {edits.num_changed:,} changed cells are too many for a link: whoever opens it, and a "
            "reload, gets the point's own matrix. Send *Allocation (JSON)* of the Allocation page instead."
        )
    elif edits.unheld and not edits.is_changed:
        cells = "the cells" if edits.unheld == 1 else f"the {edits.unheld:,} cells"
        st.warning(
            f"The link does not hold {cells} that were changed by hand: this is the point's own matrix.",
            icon=":material/link_off:",
        )


def change(edits: Edits) -> None:
    """Replace the edits (a button's callback)."""
    identity, _ = st.session_state[_EDITS]
    st.session_state[_EDITS] = (identity, edits)


def _from_the_editor() -> None:
    if _EDITS in st.session_state:
        identity, edits = st.session_state[_EDITS]
        st.session_state[_EDITS] = (identity, edits.apply(operations(KEY)))


def _judged(study: Study, point: int, start: Solution, edits: Edits) -> Judgement:
    """Judge the matrix, and hand it to Train when it can run and differs from the point's own."""
    allocation = Allocation(edits.A_MN)
    budget_N, most_N = start.problem.budget_N, study.everything.problem.budget_N
    solver, seed = study.scenario.solver, study.front.seed_of(point)
    judgement = judge(allocation, budget_N, most_N, solver=solver, seed=seed)
    if edits.is_changed and judgement.is_feasible:
        selection.set_edited(allocation)
    else:
        selection.clear_edited()
    keep("flips", edits.as_link())
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


def _tools(study: Study, point: int, edits: Edits) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.button(
            "Undo",
            key="edit_undo",
            on_click=change,
            args=(edits.undo(),),
            disabled=not edits.done,
            icon=":material/undo:",
            help="Take the last change back (Ctrl+Z in the matrix).",
        )
        st.button(
            "Redo",
            key="edit_redo",
            on_click=change,
            args=(edits.redo(),),
            disabled=not edits.undone,
            icon=":material/redo:",
            help="Make the change again (Ctrl+Y in the matrix).",
        )
        st.button(
            "Start again",
            key="edit_reset",
            on_click=change,
            args=(edits.become(edits.base_MN),),
            disabled=not edits.is_changed,
            icon=":material/restart_alt:",
            help="Back to the point's own matrix.",
        )
        changed = edits.num_changed
        st.caption(
            f"{changed} cell{'' if changed == 1 else 's'} changed."
            if changed
            else "Nothing changed yet: this is the point's own matrix.",
            width="content",
        )
        st.page_link(
            "screens/train/train.py",
            label="Train it",
            icon=":material/model_training:",
            width="content",
            query_params={"job": NEW},
        )
        st.space("stretch")
        linked(
            st.selectbox,
            "Sort clients by",
            ORDERS,
            key="order",
            width=170,
            help="By what the clients have at the start, so that columns stay where they are while you edit.",
        )


def _matrix(study: Study, start: Solution, edits: Edits) -> None:
    capacity_N, most_N = study.fleet.capacity_N_gib, study.everything.problem.budget_N
    base_MN, A_MN = edits.base_MN, edits.A_MN
    order_N = client_order(base_MN, capacity_N, choice("order", list(ORDERS)), budget_N=start.problem.budget_N)
    everyone, all_N = st.container(), order_N
    if len(all_N) > SHOWN:
        first = number(_FIRST, 1, len(all_N) - SHOWN + 1, 1)
        order_N = all_N[first - 1 : first - 1 + SHOWN]
    parameters_gib, one_block_gib = block_gib(study.scenario)
    columns = [
        Column(int(n), study.fleet.names[n], float(capacity_N[n]), int(start.problem.budget_N[n]), int(most_N[n]))
        for n in order_N
    ]
    matrix_editor(
        A_MN[:, order_N],
        base_MN[:, order_N],
        columns,
        popularity_M=A_MN.sum(axis=1),
        num_clients=A_MN.shape[1],
        parameters_gib=parameters_gib,
        block_gib=one_block_gib,
        applied=edits.applied,
        palette=components.palette(),
        hint=_HINT,
        key=KEY,
        on_change=_from_the_editor,
    )
    if len(all_N) > SHOWN:
        with everyone:
            kinds.section(capacity_N, most_N, edits, change)
            _close_up(study, Allocation(base_MN), all_N)


def _close_up(study: Study, start: Allocation, order_N: np.ndarray) -> None:
    """All clients as one picture in groups, as they start (one cell would not show, and a picture that stays need not
    be drawn again), and the slider that says whose single cells are shown."""
    components.figure(
        allocation_figure(
            start.A_MN, names=in_figure(study.fleet.names), order_N=order_N, palette=components.palette()
        ),
        key="overview_plot",
        name="zorba-allocation",
        alt=f"All {len(order_N)} clients in groups: how large a share of each group trains each block at the start.",
    )
    linked_number(
        st.slider,
        f"Clients to change, {SHOWN} at a time",
        1,
        len(order_N) - SHOWN + 1,
        1,
        key=_FIRST,
        help="Position in the order chosen above. The picture shows all of them at the start, a column for a group.",
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
