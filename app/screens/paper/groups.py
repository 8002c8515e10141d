"""Rows that rest on one finding, as one line: 24 equal cells of a table are one thing to read."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.screens.paper.claims import in_words
from app.screens.paper.verdicts import LOOKS
from app.shared import components
from zorba_core.study.ledger import Claim

LEAST = 4  # rows that become a group


def grouped(claims: Sequence[Claim]) -> list[list[Claim]]:
    """The claims in their order; those of one finding and verdict together, where the first of them stands."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.verdict, claim.finding or claim.id), []).append(claim)
    lines: list[list[Claim]] = []
    for group in groups.values():
        lines += [group] if len(group) >= LEAST else [[claim] for claim in group]
    place = {claim.id: index for index, claim in enumerate(claims)}
    return sorted(lines, key=lambda group: place[group[0].id])


def draw(group: Sequence[Claim], detail) -> None:
    """One line; opened, a table of its rows and one of them in full (``detail``)."""
    look, first = LOOKS[group[0].verdict], group[0]
    places = ", ".join(dict.fromkeys(claim.where for claim in group))
    box = st.expander(
        f":{look.badge}[{look.icon}] {components.plain(first.finding)} "
        f":gray[· {len(group)} rows · {components.plain(places)}]",
        key=f"claims_{first.id}",
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        st.dataframe(
            pd.DataFrame(
                {
                    "claim": [claim.claim for claim in group],
                    "printed": [in_words(claim.printed, claim.unit) for claim in group],
                    "ours": [in_words(claim.ours, claim.unit) for claim in group],
                }
            ),
            hide_index=True,
            width="stretch",
            alt=f"{len(group)} rows of one finding: the claim, what is printed, what was found.",
        )
        by_claim = {claim.claim: claim for claim in group}
        chosen = st.selectbox("One of them in full", list(by_claim), key=f"one_of_{first.id}")
        detail(by_claim[chosen])
