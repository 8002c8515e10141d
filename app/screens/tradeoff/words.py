"""The reader's question in words: what does saving memory cost, and which point suits me?"""

from __future__ import annotations

import streamlit as st

from app.shared import lambda_verdict
from app.shared.links import linked_number, several
from app.shared.scenario import PROVER
from app.shared.tradeoff import MEASURES, View, value_of
from zorba_core.allocation import SOLVERS, Solution

SAVINGS = (0.1, 0.2, 0.3)
# A front whose best point within a saving lies this much below it has nothing near: the cost is then at most so much.
_SPARSE = 0.03


def preference() -> None:
    """The slider that moves the recommended point."""
    st.markdown("## What matters more to you?")
    linked_number(
        st.slider,
        "Weight on convergence (%)",
        0,
        100,
        50,
        key="weight",
        help="Moves the recommended point (the star, while another is selected) along the front. It is the smallest "
        "weighted sum of VRAM and of what it buys, each scaled to 0..1 over the front; at 50 % that is the knee. "
        "0 %: memory is everything. 100 %: convergence is.",
    )


def answers(view: View, point: int, recommended: int, solution: Solution) -> None:
    """The price of what is selected, and of saving a tenth, a fifth, three tenths of the VRAM."""
    study = view.study
    best = value_of(study.everything, view.measure)
    ratio = study.front.vram_ratio_E[point]
    here = "The selected point" if point != recommended else "The recommended point"
    st.markdown(
        f"{here} leaves **{1 - ratio:.0%}** of the VRAM free and has "
        f"**{_against(view, value_of(solution, view.measure), best)}** compared with using all there is."
    )
    st.markdown("## What does saving memory cost?")
    measure = MEASURES[view.measure]
    lines = []
    for saving in SAVINGS:
        if 1 - saving >= study.everything_ratio:
            lines.append(f"- Saving **{saving:.0%}** costs nothing: that much stays free anyway.")
            continue
        affordable = view.best_within(1 - saving)
        if affordable is None:
            lines.append(f"- Saving **{saving:.0%}** is out of reach: no swept point goes that far.")
            continue
        reached, at = view.y_E[affordable], study.front.vram_ratio_E[affordable]
        # A sweep with one reduction for each client leaves most of the range above its front empty.
        far = at < 1 - saving - _SPARSE
        lines.append(
            f"- Saving **{saving:.0%}** gives **{_against(view, reached, best)}**{' or better' if far else ''} "
            f"({_symbol(view.measure)}\u00a0=\u00a0{reached:{measure.format}}{f', found at {at:.0%}' if far else ''})."
        )
    st.markdown(
        f"With nothing held back the fleet uses {study.everything_ratio:.0%} of its VRAM, "
        f"{_symbol(view.measure)}\u00a0=\u00a0{best:{measure.format}}.\n\n" + "\n".join(lines)
    )
    _method(view)
    if view.study.scenario.solver == "balanced":
        st.caption(
            ":material/info: *Balanced* is the default because it is fast, all clients count and V is least. *exact* "
            "and *two-level* reach several times less Λ by letting few clients hold most of the model."
        )
    lambda_verdict.say()


def _against(view: View, value: float, best: float) -> str:
    """``value`` beside the one of all VRAM."""
    ratio, symbol = value / best, _symbol(view.measure)
    return f"{ratio:.1f} × {symbol}" if not 0.5 <= ratio <= 2 else f"{ratio:.2f} × {symbol}"


def _symbol(measure: str) -> str:
    return MEASURES[measure].symbol.replace("_", "\\_")


def _method(view: View) -> None:
    """What is known about the chosen method's distance from the best."""
    if view.measure != "lambda":
        return
    proven = int(view.study.front.optimal_E[view.order_F].sum())
    if proven:
        st.caption(
            f":material/verified: {proven} of {len(view.order_F)} points of this front are proven: no matrix within "
            "their limits has a smaller Λ."
        )
    if not proven and PROVER not in several("show", list(SOLVERS), ()):
        title = SOLVERS[PROVER].title
        st.caption(f"Could another method do better? Add **{title}** under *Also show* to see the proven optimum.")
