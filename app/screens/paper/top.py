"""Five things to know before the rows: what was found about the claims that people act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from app.screens.paper.claims import in_words
from app.screens.paper.verdicts import LOOKS
from app.shared import components
from app.shared.links import choose
from zorba_core.study.ledger import Claim


class Thing(NamedTuple):
    """A claim, and what it comes to in plain words."""

    claim: str  # its id
    says: str


THINGS = (
    Thing("lambda/predicts", "Whether an allocation with a lower Λ trains better"),
    Thing("theorem-3", "That serving the least popular block first minimises Λ"),
    Thing("fig-1/linear", "That VRAM grows with every activated block (MiB more with 12 blocks than with 1)"),
    Thing("table-2/vram/opt-125m/ag-news/fedit", "The VRAM that the paper prints for the baselines (here FedIT)"),
    Thing("faster/fedit", "That first-order training needs the fewest rounds"),
)
_LONGEST = 45


def show(claims: Sequence[Claim]) -> None:
    """A line each, with the verdict's word and what was found; those that the ledger has."""
    by_id = {claim.id: claim for claim in claims}
    there = [thing for thing in THINGS if thing.claim in by_id]
    if not there:
        return
    st.markdown(f"## {_NUMBERS.get(len(there), str(len(there)))} to know")
    for thing in there:
        claim = by_id[thing.claim]
        look = LOOKS[claim.verdict]
        ours = in_words(claim.ours, claim.unit)
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.badge(look.title, icon=look.icon, color=look.badge)
            found = f": found {components.plain(ours)}" if len(ours) <= _LONGEST else ""
            st.markdown(f"{thing.says}{found}.", width="stretch")
            st.button(
                "Show",
                key=f"show_{thing.claim}",
                icon=":material/arrow_downward:",
                type="tertiary",
                on_click=choose,
                args=("claim_text", thing.claim),
            )


_NUMBERS = {1: "One thing", 2: "Two things", 3: "Three things", 4: "Four things", 5: "Five things"}
