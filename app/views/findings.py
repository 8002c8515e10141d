"""Findings: what was measured beside each claim of the paper. Five sentences, then a table to filter."""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd
import streamlit as st

from app.parts import runs, ui
from zorba_core.errors import MissingDataError

LEDGER = runs.ROOT / "artifacts" / "ledger.json"
# A claim's id, and what was found about it in plain words. A sentence whose claim is not in the ledger is left out.
SENTENCES = {
    "lambda/predicts": "Whether an allocation with a lower Λ trains better is open: at a fixed total of blocks, the "
    "interval of the correlation contains zero.",
    "theorem-3": "Serving the least popular block first does not always minimise Λ: three blocks and six clients are "
    "a counter-example.",
    "fig-1/linear": "Measured memory does not grow with the number of activated blocks, because forward passes free "
    "each block's tensors.",
    "table-2/vram/opt-125m/ag-news/fedit": "The VRAM that the paper prints for the baselines follows from its own "
    "formula, save for one cell.",
    "faster/fedit": "First-order training needs the fewest rounds, as the paper says; each of its rounds costs more "
    "memory.",
}
_KINDS = {"Tables": r"tab", "Figures": r"fig", "Theory": r"theorem|lemma|proposition|corollary", "Text": r""}


def page() -> None:
    st.title("Is the paper right?", anchor=False)
    claims = _claims(LEDGER.stat().st_mtime_ns if LEDGER.is_file() else 0)
    by_id = {claim["id"]: claim for claim in claims}
    known = [(sentence, by_id[name]["verdict"]) for name, sentence in SENTENCES.items() if name in by_id]
    st.markdown("\n".join(f"- {sentence} :gray[({verdict})]" for sentence, verdict in known))
    frame = _filtered(_table(claims))
    st.caption(f"{len(frame)} of {len(claims)} claims. Choose one to see what was done.")
    rows = st.dataframe(
        frame.drop(columns="id"),
        key="claims",
        hide_index=True,
        height=min(400, 38 + 35 * max(1, len(frame))),
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "claim": st.column_config.TextColumn(width="large"),
            "printed": st.column_config.TextColumn(width="small"),
            "measured": st.column_config.TextColumn(width="medium"),
            "where": st.column_config.TextColumn(width="small"),
            "unit": st.column_config.TextColumn(width="small"),
        },
        alt=f"Table of {len(frame)} claims.",
    ).selection.rows
    if rows and rows[0] < len(frame):
        _claim(by_id[frame["id"].iloc[rows[0]]])
    st.download_button("These claims (CSV)", frame.to_csv(index=False), "zorba-claims.csv", icon=":material/download:")


@st.cache_data(max_entries=2)
def _claims(changed_ns: int) -> list[dict[str, Any]]:
    if not changed_ns:
        raise MissingDataError(f"{LEDGER} is not there; make it with: zorba report")
    return json.loads(LEDGER.read_text(encoding="utf-8"))["claims"]


def _table(claims: list[dict[str, Any]]) -> pd.DataFrame:
    """A row for each claim, those first that do not hold."""
    claims = sorted(claims, key=lambda claim: claim["verdict"] != "contradicted")
    return pd.DataFrame(
        {
            "id": [claim["id"] for claim in claims],
            "verdict": [claim["verdict"] for claim in claims],
            "about": [_kind(claim["where"]) for claim in claims],
            "claim": [claim["claim"] for claim in claims],
            "printed": [_value(claim["printed"]) for claim in claims],
            "measured": [_value(claim["ours"]) for claim in claims],
            "where": [claim["where"] for claim in claims],
            "unit": [claim["unit"] for claim in claims],
        }
    )


def _kind(where: str) -> str:
    found = [
        (match.start(), kind)
        for kind, pattern in _KINDS.items()
        if pattern and (match := re.search(pattern, where.lower()))
    ]
    return min(found)[1] if found else "Text"


def _value(value: Any) -> str:
    return "–" if value in (None, "") else f"{value:,.6g}" if isinstance(value, int | float) else str(value)


def _filtered(frame: pd.DataFrame) -> pd.DataFrame:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        verdicts = st.multiselect(
            "Verdict", list(frame["verdict"].unique()), key="verdict", bind="query-params", placeholder="all"
        )  # fmt: skip
        kinds = st.multiselect("About", list(_KINDS), key="about", bind="query-params", placeholder="all")
        text = st.text_input("Find", key="find", bind="query-params", placeholder="words", icon=":material/search:")
    if verdicts:
        frame = frame[frame["verdict"].isin(verdicts)]
    if kinds:
        frame = frame[frame["about"].isin(kinds)]
    for word in text.lower().split():
        frame = frame[frame.agg(" ".join, axis=1).str.lower().str.contains(word, regex=False)]
    return frame


def _claim(claim: dict[str, Any]) -> None:
    """A claim in full."""
    with st.container(border=True):
        st.header(ui.plain(claim["claim"]), anchor=False)
        st.markdown(
            f"**Verdict**: {claim['verdict']}, {ui.plain(claim['where'])}  \n"
            f"**Printed**: {ui.plain(_value(claim['printed']))}  \n"
            f"**Measured**: {ui.plain(_value(claim['ours']))} ({ui.plain(claim['unit'])})"
        )
        for title, name in (("Note", "note"), ("Counter-example", "counter_example")):
            if claim.get(name):
                st.markdown(f"**{title}**: {ui.plain(claim[name])}")
        st.code(claim["how"], language="bash", wrap_lines=True)
        st.caption("Evidence: " + ", ".join(ui.code(item) for item in claim["evidence"]))


page()
