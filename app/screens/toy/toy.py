"""Toy: every 3 x 3 allocation there is, and what the paper says about them, one click a claim.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import streamlit as st

from app.shared import components
from app.shared.components import Download, as_pdf
from app.shared.glossary import glossary
from app.shared.guard import fragment
from app.shared.links import choice, choose, linked
from zorba_core.allocation import coupled_noise
from zorba_core.plots.toy import Panel, matrix_panels
from zorba_core.plots.toy_map import toy_map
from zorba_core.study.toy.observations import Fact, counter_example, exact_lambda, exact_v, facts, lettered_classes

MAP, CLASS = "toy_map", "class"
ALL = "all"
_SEEN, _DRAWN = "toy_seen", "toy_claim_drawn"
# On a phone the map keeps its width and is scrolled, so that no matrix covers another.
_SCROLL = """<style>
.st-key-toy_scroll { overflow-x: auto; }
.st-key-toy_scroll > div { min-width: 620px; }
@media (max-width: 1000px) {  /* the picture has the width, and the class stands below it */
  .st-key-toy_split > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] { flex-direction: column; }
  .st-key-toy_split > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] > div { width: 100%; }
}
</style>"""
ICONS = {"holds": ":material/check_circle:", "contradicted": ":material/cancel:"}


@st.cache_resource
def _facts() -> dict[str, Fact]:
    return {fact.key: fact for fact in facts()}


def page() -> None:
    st.title("Every small allocation there is", anchor=False)
    classes = lettered_classes()
    st.markdown(
        f"Three blocks (rows), three clients (columns): of the 512 matrices, "
        f"**{sum(each.count for each in classes.values())}** give every block a client and every client a block. "
        f"Up to the order of blocks and clients they are **{len(classes)} classes**, a to q, all of them below. Small "
        "enough to check each of the paper's claims on every case, in exact fractions."
    )
    _claims()
    glossary()


@fragment
def _claims() -> None:
    facts = _facts()
    chosen = linked(
        st.segmented_control,
        "What the paper says",
        [ALL, *facts],
        required=True,
        format_func=lambda key: "All classes" if key == ALL else facts[key].title,
        key="claim",
    )
    fact = facts.get(chosen)
    _settle_class(fact)
    if fact is None:
        st.info(
            "Choose a claim above to see the classes that show it, or click a matrix to see its numbers. Blue cells "
            "are activated; the fraction above each matrix is its Λ.",
            icon=":material/touch_app:",
        )
    else:
        _verdict(fact)
    _pictures(fact)
    if fact is not None:
        _evidence(fact)
    _table()


def _verdict(fact: Fact) -> None:
    box = {"holds": st.success, "contradicted": st.error}.get(fact.verdict, st.info)
    box(
        f"**{fact.title}: {fact.verdict}.** The paper: *{fact.claim}*\n\n{fact.finding}",
        icon=ICONS.get(fact.verdict, ":material/info:"),
    )


def _pictures(fact: Fact | None) -> None:
    """Draw first what was clicked: another class's numbers, or another claim's classes."""
    with st.container(key="toy_split"):
        plot, words = st.columns([0.66, 0.34], gap="medium")
    claim = None if fact is None else fact.key
    answers = [(words, _one_class), (plot, lambda: _map(fact))]
    if st.session_state.get(_DRAWN) != claim:
        answers.reverse()
    st.session_state[_DRAWN] = claim
    for place, draw in answers:
        with place:
            draw()


def _settle_class(fact: Fact | None) -> None:
    """Decide which class's numbers are shown: clicked since the last run, chosen before, named by the link, or the
    claim's first."""
    classes = lettered_classes()
    event = st.session_state.get(MAP)
    points = event["selection"]["points"] if event else []
    custom = points[0].get("customdata") if points else None
    clicked = (custom["0"] if isinstance(custom, dict) else custom[0]) if custom else None
    if clicked != st.session_state.get(_SEEN):
        st.session_state[_SEEN] = clicked
        if clicked in classes:
            choose(CLASS, clicked)
    choose(CLASS, choice(CLASS, list(classes), fact.shows[0] if fact else "d"))


def _class() -> str:
    return choice(CLASS, list(lettered_classes()))


def _map(fact: Fact | None) -> None:
    drawn = toy_map(
        lettered_classes(),
        shown=fact.shows if fact else (),
        arrows=fact.pairs if fact else (),
        selected=_class(),
        palette=components.palette(),
    )
    name = f"zorba-toy-{fact.key if fact else ALL}"
    st.html(_SCROLL)
    with st.container(key="toy_scroll"):
        components.figure(
            drawn,
            key=MAP,
            select=True,
            name=name,
            alt="Seventeen small matrices placed by their total of activated blocks, 3 to 9, and their Λ, 1/3 to 3. "
            + (f"Framed: {', '.join(fact.shows)}. {fact.finding}" if fact else "The table below lists them."),
        )
    components.downloads(as_pdf(lambda: drawn, name), key="map_files")


def _one_class() -> None:
    classes = lettered_classes()
    letter = linked(
        st.selectbox,
        "Class",
        list(classes),
        "",  # always in the address: which class is shown first depends on the claim
        format_func=lambda x: f"{x}: {classes[x].total_blocks} blocks, Λ = {exact_lambda(classes[x].representative)}",
        key=CLASS,
        help="Or click a matrix on the map.",
    )
    matrix_class = classes[letter]
    matrix = matrix_class.representative
    components.figure(
        _in_the_middle(matrix_panels([Panel(matrix, " ")], name_axes=True, palette=components.palette())),
        key="class_plot",
        name=f"zorba-toy-{letter}",
        alt=f"Class {letter}: the weight 1/c of each active cell, the largest of each client outlined.",
    )
    squares = " + ".join(_square(int(least)) for least in sorted(matrix.least_popularity_N, reverse=True))
    st.latex(rf"\Lambda = {squares} = {_latex(exact_lambda(matrix))}")
    st.caption(
        "Active cells show the weight 1/c of a client in a block. The outlined weight is a client's largest; Λ adds up "
        "their squares, once per client."
    )
    numbers = (
        str(exact_v(matrix)),
        f"{matrix.effective_clients:.2f} of 3",
        f"{coupled_noise(matrix.A_MN):.2f}",
        str(matrix_class.count),
    )
    st.markdown(
        f"| V | N_eff | E | matrices |\n| --- | --- | --- | --- |\n| {' | '.join(numbers)} |",
        help=r"$V = \frac{1}{M} \sum_m 1/c_m$ counts every scarce block. $N_{\mathrm{eff}} = 1/\sum_n I_n^2$: how many "
        r"equal clients would weigh as these do. $E = \frac{1}{M} \sum_m \frac{1}{c_m^2} \sum_{n \ni m} k_n$: coupled "
        "noise, at best 1 here. *Matrices*: how many differ from this one only in order.",
    )


def _in_the_middle(figure):
    """The drawing without its caption's room, centred in a narrow column."""
    return figure.update_layout(width=None, height=190, margin={"l": 8, "r": 8, "t": 0, "b": 0})


def _square(least: int) -> str:
    return "1" if least == 1 else rf"\tfrac{{1}}{{{least**2}}}"


def _latex(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"


def _evidence(fact: Fact) -> None:
    classes = lettered_classes()
    if fact.key == "theorem-3":
        _against_theorem_3()
        return
    if not fact.pairs:
        return
    rows = []
    for start, end in fact.pairs:
        a, b = classes[start].representative, classes[end].representative
        rows.append(
            {
                "from": start,
                "to": end,
                "blocks": f"{a.total_blocks} → {b.total_blocks}",
                "Λ": f"{exact_lambda(a)} → {exact_lambda(b)}",
                "change of Λ": float(exact_lambda(b) - exact_lambda(a)),
                "V": f"{exact_v(a)} → {exact_v(b)}",
                "N_eff": f"{a.effective_clients:.2f} → {b.effective_clients:.2f}",
            }
        )
    st.markdown(f"## The {len(rows)} pairs behind it")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        width="stretch",
        column_config={"change of Λ": st.column_config.NumberColumn(format="%+.3f")},
        alt=f"Pairs of classes that show {fact.title}, with blocks, Λ, V and N_eff before and after.",
    )


def _against_theorem_3() -> None:
    flat, hub = counter_example()
    st.markdown("## The smallest case against it: 3 blocks, 6 clients with budgets 3, 2, 1, 1, 1, 1")
    components.figure(
        matrix_panels(
            [
                Panel(flat, f"what its rule asks for<br>Λ = 6/9 = <b>{exact_lambda(flat)}</b>"),
                Panel(hub, f"better by Λ<br>Λ = 4/25 + 2/4 = <b>{exact_lambda(hub)}</b>"),
            ],
            columns=2,
            name_axes=True,
            palette=components.palette(),
        ),
        key="counter_plot",
        name="zorba-theorem-3",
        alt=f"Two matrices: Theorem 3's, Λ {exact_lambda(flat)}, and a better one, Λ {exact_lambda(hub)}.",
    )
    st.markdown(
        "Flattening gives each block three clients. It is better to let the four small clients share *one* block with "
        "the large one and to leave the other two blocks to the two large clients: these two are charged 1/4 each "
        f"instead of 1/9, but the four small ones only 1/25. The gain is not free: V rises from {exact_v(flat)} to "
        f"{exact_v(hub)} and N_eff falls from {flat.effective_clients:.2f} to {hub.effective_clients:.2f}."
    )


def _table() -> None:
    rows = pd.DataFrame(
        {
            "class": letter,
            "blocks": matrix_class.total_blocks,
            "Λ": str(exact_lambda(matrix_class.representative)),
            "Λ, decimal": matrix_class.bias_lambda,
            "matrices": matrix_class.count,
            "popularities": _vector(matrix_class.representative.popularity_M),
            "blocks held": _vector(matrix_class.representative.blocks_held_N),
            "least popularities": _vector(matrix_class.representative.least_popularity_N),
            "V": str(exact_v(matrix_class.representative)),
            "N_eff": matrix_class.representative.effective_clients,
            "E": coupled_noise(matrix_class.representative.A_MN),
        }
        for letter, matrix_class in lettered_classes().items()
    )
    with st.expander("All 17 classes as a table", icon=":material/table:"):
        st.dataframe(
            rows,
            hide_index=True,
            width="stretch",
            height=35 * (len(rows) + 1) + 3,
            column_config={
                "Λ, decimal": st.column_config.NumberColumn(format="%.3f"),
                "N_eff": st.column_config.NumberColumn(format="%.2f"),
                "E": st.column_config.NumberColumn(format="%.2f"),
            },
            alt="The seventeen classes with their totals, Λ, popularities, V and N_eff.",
        )
        components.downloads(
            [
                Download(
                    "Classes (CSV)",
                    "zorba-toy.csv",
                    lambda: rows.to_csv(index=False).encode(),
                    "The table with exact fractions.",
                )
            ],
            key="toy_files",
        )


def _vector(numbers) -> str:
    return ", ".join(str(int(number)) for number in sorted(numbers, reverse=True))


page()
