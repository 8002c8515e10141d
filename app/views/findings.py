"""Findings: every claim of the paper with our measurement. Five sentences, then a table to filter."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.parts import ui
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json
from zorba_core.installed import artifacts

FILE, ADVICE = artifacts() / "claims.json", artifacts() / "experiments" / "advice.json"
COLUMNS = ("id", "where", "says", "measured", "verdict", "note", "decided_by")
# By the claim's id, the result in plain words.
SENTENCES = {
    "fig-1/linear": "The memory saving is not there: a forward pass frees each block's tensors, so activations take "
    "21 MiB with 1 block or with 12.",
    "theorem-3": "Serving the least popular block first does not minimise Λ: three blocks and six clients show it.",
    "lambda/bias": "Λ is not what the theory needs: with every block on every client the bias is 0, and the bound "
    "charges for it.",
    "fig-4a/scenarios": "SC2 and SC3, two of the paper's example points, do not come from the stated "
    "set-up: none of 1,000 fleets allows them.",
    "lambda/ranks": "Does an allocation of lower Λ train better than others of equally many blocks?",
}
VERDICT_HELP = (
    "**In shape**: the same order or shape, on another model. **Misprint**: the paper disagrees with itself. "
    "**Contradicted**: by mathematics or counting. **Undecided**: not run, or the interval allows both answers."
)
KINDS = {"Tables": r"\bTable", "Figures": r"\bFig", "Theory": r"Theorem|Lemma|Proposition|Observation|Remark"}


def page() -> None:
    st.title("Is the paper right?", anchor=False)
    claims = _claims(FILE.stat().st_mtime_ns if FILE.is_file() else 0)
    by_id = {claim["id"]: claim for claim in claims}
    message = [f"- {text} :gray[({by_id[name]['verdict']})]" for name, text in SENTENCES.items() if name in by_id]
    st.markdown("\n".join(message))
    _advice()
    _totals(pd.DataFrame(claims))
    frame = _filtered(pd.DataFrame(claims))
    st.caption(f"{len(frame)} of {len(claims)} claims. Choose one for details.")
    rows = ui.table(
        frame.loc[:, ["verdict", "says", "measured", "where"]],
        names=list(frame["id"]),
        param="claim",
        height=min(400, 38 + 35 * max(1, len(frame))),
        selection_mode="single-row",
        column_config={
            "verdict": st.column_config.TextColumn(width="small"),
            "says": st.column_config.TextColumn("the paper says", width="large"),
            "measured": st.column_config.TextColumn(width="large"),
            "where": st.column_config.TextColumn(width="small"),
        },
        alt=f"Table of {len(frame)} claims.",
    )
    if rows:
        _claim(by_id[frame["id"].iloc[rows[0]]])
    st.download_button("These claims (CSV)", frame.to_csv(index=False), "zorba-claims.csv", icon=":material/download:")


@st.cache_data(max_entries=2)
def _claims(changed_ns: int) -> list[dict[str, str]]:
    """The claims, contradicted ones first.

    Raises:
        MissingDataError: there is no such file.
        InvalidInputError: the file has another form.
    """
    if not FILE.is_file():
        raise MissingDataError(f"{FILE} does not exist; make it with: make claims")
    try:
        claims = [{column: str(claim[column]) for column in COLUMNS} for claim in read_json(FILE)]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{FILE}: not a file of claims ({error}); make it again with: make claims") from None
    return sorted(claims, key=lambda claim: claim["verdict"] != "contradicted")


def _advice() -> None:
    """What to run, in the sentences that ``make claims`` writes from the tables."""
    if ADVICE.is_file():
        with st.expander("What should I run?", expanded=True):
            st.markdown("\n".join(f"- {sentence}" for sentence in read_json(ADVICE)))
            st.caption("Numbers with 95 % intervals, over seeds. Nats are units of loss.")


def _totals(claims: pd.DataFrame) -> None:
    """How many claims have each verdict, then what was reproduced beside what was contradicted."""
    counts = claims["verdict"].value_counts()
    names = [*(name for name in ("reproduced", "contradicted") if name in counts), *counts.index]
    with st.container(horizontal=True, gap="small"):
        for name in dict.fromkeys(names):
            st.metric(name, f"{counts[name]}", border=True, width="content")
    with st.expander("Reproduced and contradicted, side by side"):
        for name, place in zip(("reproduced", "contradicted"), st.columns(2, gap="medium"), strict=True):
            rows = claims[claims["verdict"] == name]
            place.header(f"{len(rows)} {name}", anchor=False)
            place.markdown(
                "\n".join(
                    f"- {ui.plain(says)} :gray[{ui.plain(where)}]"
                    for says, where in zip(rows["says"], rows["where"], strict=True)
                )
            )


def _filtered(frame: pd.DataFrame) -> pd.DataFrame:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        known = list(frame["verdict"].unique())
        verdicts = st.multiselect(
            "Verdict", known, key="verdict", bind="query-params", placeholder="all", help=VERDICT_HELP
        )
        kinds = st.multiselect("About", list(KINDS), key="about", bind="query-params", placeholder="all")
        text = st.text_input("Find", key="find", bind="query-params", placeholder="words", icon=":material/search:")
    if verdicts:
        frame = frame.loc[frame["verdict"].isin(verdicts)]
    if kinds:
        frame = frame.loc[frame["where"].str.contains("|".join(KINDS[kind] for kind in kinds))]
    for word in text.lower().split():
        frame = frame.loc[frame.agg(" ".join, axis=1).str.lower().str.contains(word, regex=False)]
    return frame


def _claim(claim: dict[str, str]) -> None:
    """A claim in full."""
    with st.container(border=True):
        st.header(ui.plain(claim["says"]), anchor=False)
        st.markdown(
            f"**{claim['verdict'].capitalize()}**, {ui.plain(claim['where'])}  \n"
            f"**Measured**: {ui.plain(claim['measured'])}  \n**Note**: {ui.plain(claim['note'] or 'none')}"
        )
        st.caption(f"Decided by {ui.code(claim['decided_by'])}")


page()
