"""Change the matrix by hand: every number follows at once, and the solver says what it would have done.

Shapes: M blocks, N clients; W clients shown. ``A_MN`` bool, rows are blocks.
"""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import components, selection, state
from app.components import Download, Number
from app.links import keep, linked
from app.scenario import Study, block_gib
from app.views import _allocation_files as files
from app.views._edits import Edits
from app.views._judgement import Judgement, judge
from app.views._matrix_editor import Column, matrix_editor, operations
from zorba_core.allocation import Allocation, Solution
from zorba_core.plots import allocation_figure, client_order

KEY = "matrix_editor"
ORDERS = {"vram": "VRAM", "budget": "budget", "blocks": "blocks held", "least": "least popularity", "given": "as given"}
SHOWN = 60  # clients whose single cells can be drawn and hit
_EDITS = "allocation_edits"
_HINT = "Click a cell, or walk with the arrow keys and press space. Ctrl+Z takes a change back."


def show(study: Study, point: int) -> None:
    start = state.solution(study.scenario, point)
    edits = current_edits(study, point, start)
    judgement = _judged(study, point, start, edits)
    _headline(study, judgement, start)
    _verdict(study, judgement, edits)
    _tools(study, point, edits)
    _matrix(study, start, edits)
    _files(study, start, judgement.allocation, point)


def current_edits(study: Study, point: int, start: Solution) -> Edits:
    """The matrix under edit of this scenario and point; started from what Train would use, or from the link."""
    identity = (study.scenario, point)
    kept = st.session_state.get(_EDITS)
    if kept is None or kept[0] != identity:
        base_MN = start.allocation.A_MN
        edits = Edits(base_MN)
        by_hand = selection.edited_allocation()
        if by_hand is not None:
            edits = edits.become(by_hand.A_MN)
        elif kept is None:
            edits = Edits.from_link(base_MN, st.query_params.get("flips", ""))
        st.session_state[_EDITS] = (identity, edits)
    return st.session_state[_EDITS][1]


def change(edits: Edits) -> None:
    """Go on with other edits (a button's callback)."""
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
    solver, seed = study.scenario.solver, (study.scenario.seed, point)
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

    def against(value: float, origin: float, form: str) -> str:
        return "as at the start" if value == origin else f"{format(origin, form)} at the start"

    components.numbers(
        [
            Number(
                "Λ, convergence bias",
                _finite(now.bias_lambda, ".4g"),
                r"$\Lambda = \sum_n 1 / \underline{c}_n^2$, with $\underline{c}_n$ the smallest popularity among "
                "client *n*'s blocks. Lower is better. Infinite while a client has no block.",
                against(now.bias_lambda, before.bias_lambda, ".4g"),
            ),
            Number(
                "V, mean of 1/popularity",
                _finite(now.mean_inverse_popularity, ".4f"),
                r"$V = \frac{1}{M} \sum_m 1 / c_m$: bias and variance of the averaged update. Infinite while a block "
                "has no client.",
                against(now.mean_inverse_popularity, before.mean_inverse_popularity, ".4f"),
            ),
            Number(
                "Effective clients",
                f"{now.effective_clients:.1f}",
                r"$N_{\mathrm{eff}} = 1 / \sum_n I_n^2$, $I_n = \frac{1}{M} \sum_m a_{m,n} / c_m$: how many equal "
                "clients would weigh on the result as these do.",
                against(round(now.effective_clients, 1), round(before.effective_clients, 1), ".1f"),
            ),
            Number(
                "Least trained block",
                f"{now.min_popularity}",
                r"$\min_m c_m$: clients that train the block with the fewest.",
                against(now.min_popularity, before.min_popularity, "d"),
            ),
            Number(
                "Forward work",
                f"{now.forward_work}",
                r"$\sum_n (M - \text{first block of } n)$: blocks that a round computes anew when each client reuses "
                "the unperturbed pass up to its first active block.",
                against(now.forward_work, before.forward_work, "d"),
            ),
            Number(
                "VRAM in use",
                f"{used:.1f} GiB",
                r"$\sum_n \psi_{\mathrm{tot},n}$: the model's parameters on every client, and the activations of "
                f"{now.total_blocks} activated blocks.",
                f"{used / study.capacity_gib:.1%}, {now.total_blocks} blocks",
            ),
        ]
    )


def _finite(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "∞"


def _verdict(study: Study, judgement: Judgement, edits: Edits) -> None:
    """Whether it can run, and who is ahead: always one box in one place, so that nothing below moves."""
    if not judgement.is_feasible:
        st.error("**It cannot run.** " + " ".join(_obstacles(study, judgement)), icon=":material/block:")
        return
    lead, rival = judgement.lead, judgement.rival
    solver = state.SOLVER_LABELS[study.scenario.solver].split(" (")[0].lower()
    beyond = len(judgement.beyond_reduction)
    note = (
        f" {beyond} client{' uses' if beyond == 1 else 's use'} VRAM that this point leaves free; the solver may, too."
        if beyond
        else ""
    )
    if rival is None:
        st.info("It can run. No solver has an answer with so few blocks to compare with.", icon=":material/info:")
        return
    theirs = rival.allocation
    if judgement.left_to_gain:
        most = judgement.left_to_gain
        left = f"No matrix with this room has Λ below {rival.lower_bound:.4g}: at most {most:.1%} is left to gain."
    else:
        left = "Nothing is left to gain: it is proven optimal for Λ."
    numbers = f"Λ {judgement.allocation.bias_lambda:.4g} against {theirs.bias_lambda:.4g}"
    same = "as many blocks" if theirs.total_blocks == judgement.allocation.total_blocks else "no more blocks"
    if lead > 0:
        st.success(
            f"**You beat the {solver} solver by {lead:.2%}**: {numbers} with {same}. {left}{note}",
            icon=":material/trophy:",
        )
    elif lead < 0:
        st.info(
            f"**The {solver} solver is ahead by {-lead:.2%}**: {numbers} with {same}. {left}{note}",
            icon=":material/trending_down:",
        )
    else:
        started = "This is the solver's own matrix." if not edits.is_changed else "You are level with it."
        st.info(f"**Level with the {solver} solver.** {started} {left}{note}", icon=":material/drag_handle:")


def _obstacles(study: Study, judgement: Judgement) -> list[str]:
    names = study.fleet.names
    obstacles = []
    if judgement.untrained_blocks:
        blocks = judgement.untrained_blocks
        obstacles.append(f"{'Block' if len(blocks) == 1 else 'Blocks'} {_some(blocks)} would have nobody to train it.")
    if judgement.idle_clients:
        idle = [components.plain(names[n]) for n in judgement.idle_clients]
        obstacles.append(f"{_some(idle)} would train nothing.")
    for n in judgement.too_full_clients[:3]:
        held, most = judgement.allocation.blocks_held_N[n], judgement.most_N[n]
        obstacles.append(
            f"{components.plain(names[n])} holds {held} blocks, and its {study.fleet.capacity_N_gib[n]:.2f} GiB have "
            f"room for {most}."
        )
    more = len(judgement.too_full_clients) - 3
    if more > 0:
        obstacles.append(f"{more} more clients hold too many.")
    obstacles.append("Train would start from the point's own matrix until this is mended.")
    return obstacles


def _some(items: list) -> str:
    shown = [str(item) for item in items[:6]]
    return ", ".join(shown) + (f" and {len(items) - 6} more" if len(items) > 6 else "")


def _tools(study: Study, point: int, edits: Edits) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.button(
            "Undo", key="edit_undo", on_click=change, args=(edits.undo(),), disabled=not edits.done,
            icon=":material/undo:", help="Take the last change back (Ctrl+Z in the matrix).",
        )  # fmt: skip
        st.button(
            "Redo", key="edit_redo", on_click=change, args=(edits.redo(),), disabled=not edits.undone,
            icon=":material/redo:", help="Make the change again (Ctrl+Y in the matrix).",
        )  # fmt: skip
        st.button(
            "Start again", key="edit_reset", on_click=change, args=(edits.become(edits.base_MN),),
            disabled=not edits.is_changed, icon=":material/restart_alt:", help="Back to the point's own matrix.",
        )  # fmt: skip
        changed = edits.num_changed
        st.caption(
            f"{changed} cell{'' if changed == 1 else 's'} changed."
            if changed
            else "Nothing changed yet: this is the point's own matrix.",
            width="content",
        )
        st.space("stretch")
        linked(
            st.selectbox,
            "Sort clients by",
            list(ORDERS),
            format_func=ORDERS.get,
            key="order",
            width=170,
            help="By what the clients have at the start, so that columns stay where they are while you edit.",
        )


def _matrix(study: Study, start: Solution, edits: Edits) -> None:
    capacity_N, most_N = study.fleet.capacity_N_gib, study.everything.problem.budget_N
    base_MN, A_MN = edits.base_MN, edits.A_MN
    order_N = client_order(base_MN, capacity_N, st.session_state.get("order", "vram"), budget_N=start.problem.budget_N)
    if len(order_N) > SHOWN:
        order_N = _close_up(study, Allocation(A_MN), order_N)
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


def _close_up(study: Study, allocation: Allocation, order_N: np.ndarray) -> np.ndarray:
    """All clients as one picture in groups, and the few whose single cells are shown."""
    drawn = allocation_figure(
        allocation.A_MN,
        names=study.fleet.names,
        order_N=order_N,
        palette=components.palette(),
    )
    components.figure(
        drawn,
        key="overview_plot",
        name="zorba-allocation",
        alt=f"All {len(order_N)} clients in groups: how large a share of each group trains each block.",
    )
    last = len(order_N) - SHOWN
    first = st.slider(
        f"Clients to change, {SHOWN} at a time",
        1,
        last + 1,
        1,
        key="first_client",
        help="Position in the order chosen above. The picture shows all of them, a column for a group.",
    )
    return order_N[first - 1 : first - 1 + SHOWN]


def _files(study: Study, start: Solution, allocation: Allocation, point: int) -> None:
    name = f"zorba-allocation-{study.scenario.model}-{point}"
    components.downloads(
        [
            Download(
                "Allocation (JSON)", f"{name}.json", "application/json",
                lambda: files.matrix_json(study, allocation),
                "Block ids of each client with every number; `zorba train --allocation` reads it.",
            ),
            Download(
                "Matrix (NPZ)", f"{name}.npz", "application/octet-stream",
                lambda: files.matrix_npz(study, start, allocation),
                "NumPy arrays: A_MN (blocks by clients), budget_N, capacity_N_bytes.",
            ),
            Download(
                "Clients (CSV)", f"{name}.csv", "text/csv",
                lambda: files.clients_csv(study, start, allocation),
                "A row per client: VRAM, budget, blocks held, least popularity, influence.",
            ),
        ],
        key="allocation_files",
    )  # fmt: skip
