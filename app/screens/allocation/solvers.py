"""The same number of blocks, other solvers: the numbers side by side, and which cells differ.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.screens.allocation import edit
from app.screens.allocation.files import numbers
from app.screens.allocation.judgement import rival_solution
from app.shared import components, state
from app.shared.escape import in_figure
from app.shared.links import choose, linked, linked_switch
from app.shared.scenario import PROVER, WITHOUT_TOTAL, Scenario
from app.shared.study import Study
from zorba_core.allocation import MEASURES, SOLVERS, Allocation, Solution
from zorba_core.plots import client_order
from zorba_core.plots.difference import difference_figure, matched_blocks

YOURS = "This matrix"
PROOF_SECONDS = 8.0


@st.cache_resource(max_entries=128, show_spinner="Asking the other solvers …", show_time=True)
def _rival(scenario: Scenario, point: int, matrix: bytes, solver: str) -> Solution | None:
    front = state.solved(scenario).front
    problem = front.problem(point)
    A_MN = np.unpackbits(np.frombuffer(matrix, np.uint8), count=problem.num_blocks * problem.num_clients)
    allocation = Allocation(A_MN.reshape(problem.num_blocks, problem.num_clients))
    return rival_solution(
        allocation, problem.budget_N, solver=solver, seed=front.seed_of(point), time_limit=PROOF_SECONDS
    )


def rival(scenario: Scenario, point: int, allocation: Allocation, solver: str) -> Solution | None:
    """What a solver does with as many blocks as ``allocation``, remembered."""
    return _rival(scenario, point, np.packbits(allocation.A_MN).tobytes(), solver)


def show(study: Study, point: int) -> None:
    start = state.solution(study.scenario, point)
    yours = Allocation(edit.current_matrix(study, point))
    is_changed = bool((yours.A_MN != start.allocation.A_MN).any())
    if not yours.is_complete:
        st.warning(
            "The matrix edited by hand has a block without a client, or a client without a block. Complete it first: "
            "then other solvers can be asked what they do with as many blocks.",
            icon=":material/warning:",
        )
        st.button("Start again from the point's own matrix", on_click=edit.change, args=(start.allocation.A_MN,))
        return
    st.markdown(
        f"What each solver makes of **{yours.total_blocks} blocks**, within the same budgets. "
        + ("*This matrix* is the one that you edited." if is_changed else "*This matrix* is the point's own.")
    )
    asked = st.session_state.get("exact_for") == (study.scenario, point, yours.A_MN.tobytes())
    solutions: dict[str, Solution] = {}
    for solver in SOLVERS:
        if solver == PROVER and not asked:
            continue
        solution = rival(study.scenario, point, yours, solver)
        if solution is not None:
            solutions[solver] = solution
    if not asked:
        st.button(
            f"Ask the {PROVER} solver, too ({PROOF_SECONDS:.0f} s at most)",
            on_click=lambda: st.session_state.update(exact_for=(study.scenario, point, yours.A_MN.tobytes())),
            icon=":material/verified:",
            key="ask_exact",
        )
    _table(yours, solutions)
    _cells(study, yours, solutions, is_changed=is_changed)


def _table(yours: Allocation, solutions: dict[str, Solution]) -> None:
    columns = {YOURS: numbers(yours)}
    columns |= {
        SOLVERS[solver].title: numbers(Allocation(solution.allocation.A_MN)) for solver, solution in solutions.items()
    }
    only_differences = linked_switch(
        "Only what differs",
        True,
        key="only_differences",
        help="Leave out the rows in which every solver has the same number.",
    )
    rows = {}
    for name, measure in MEASURES.items():
        values = [column[name] for column in columns.values()]
        shown = [measure.text(value) for value in values]
        if only_differences and len(set(shown)) == 1:
            continue
        best = _best(values, measure.better)
        rows[measure.label] = [f"{text} ★" if n in best else text for n, text in enumerate(shown)]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(columns))
    if table.empty:
        st.success("Every solver gives a matrix with the very same numbers.", icon=":material/drag_handle:")
    else:
        table.index.name = "★ best of the row"
        st.dataframe(
            table,
            width="stretch",
            alt="Numbers of this matrix and of each solver's; a star marks the best of a row.",
        )
    bound = max((solution.lower_bound for solution in solutions.values()), default=0.0)
    proven = [SOLVERS[solver].title for solver, solution in solutions.items() if solution.optimal]
    st.caption(
        f"No matrix within these budgets and {yours.total_blocks} blocks has Λ below {bound:.4g}."
        + (f" Proven optimal for Λ: {', '.join(proven)}." if proven else "")
        + f" {SOLVERS[WITHOUT_TOTAL].title} takes no total: it gets the numbers of blocks per client of this matrix."
    )


def _best(values: list[float], better: str) -> set[int]:
    if not better or len(values) < 2:
        return set()
    best = min(values) if better == "lower" else max(values)
    best_rows = {n for n, value in enumerate(values) if np.isclose(value, best, rtol=1e-9)}
    return best_rows if len(best_rows) < len(values) else set()


def _cells(study: Study, yours: Allocation, solutions: dict[str, Solution], *, is_changed: bool) -> None:
    st.markdown("## Which cells differ")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        other = linked(
            st.segmented_control,
            "Compare this matrix with",
            sorted(solutions, key=lambda solver: solver == study.scenario.solver and not is_changed),
            required=True,
            format_func=lambda name: SOLVERS[name].title,
            key="against",
        )
        changed_only = linked_switch(
            "Only clients that differ",
            False,
            key="changed_only",
            help="Leave out the clients that train the same blocks in both.",
        )
        align = linked_switch(
            "Match blocks",
            True,
            key="align",
            help="Λ, V and N_eff do not depend on the order of blocks, so two solvers may name the same allocation "
            "differently. Matching renames the other's blocks in the picture, so that as few cells as possible differ.",
        )
    if other not in solutions:
        other = next(iter(solutions))
    theirs_MN = solutions[other].allocation.A_MN
    if align:
        theirs_MN = theirs_MN[matched_blocks(yours.A_MN, theirs_MN)]
    order_N = client_order(yours.A_MN, study.fleet.capacity_N_gib, "vram")
    differs_N = (theirs_MN != yours.A_MN).any(axis=0)
    if changed_only or len(order_N) > 2 * edit.SHOWN:
        order_N = order_N[differs_N[order_N]][: 2 * edit.SHOWN]
    if not differs_N.any():
        st.success(f"{SOLVERS[other].title} gives the same matrix, cell by cell.", icon=":material/drag_handle:")
        return
    different = int((yours.A_MN ^ theirs_MN).sum())
    components.figure(
        difference_figure(
            yours.A_MN,
            theirs_MN,
            labels=("this matrix", SOLVERS[other].title),
            names=in_figure(study.fleet.names),
            order_N=order_N,
            palette=components.palette(),
        ),
        key="difference_plot",
        name=f"zorba-difference-{other}",
        alt=f"{different} cells of {int(differs_N.sum())} clients differ between this matrix and the {other} solver's.",
    )
    st.caption(
        f"{different} cells differ, on {int(differs_N.sum())} of {yours.num_clients} clients (largest VRAM first). "
        "Filled: only this matrix. Outlined: only the other."
    )
    st.button(
        f"Go on with this matrix: {SOLVERS[other].title}",
        key="adopt",
        on_click=_adopt,
        args=(solutions[other].allocation.A_MN,),  # its own blocks, not the matched ones
        icon=":material/input:",
        help="It becomes the matrix under edit, and what Train starts from.",
    )


def _adopt(A_MN: NDArray[np.bool_]) -> None:
    edit.change(A_MN)
    choose("view", "edit")
