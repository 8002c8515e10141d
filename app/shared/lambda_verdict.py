"""Does Λ tell how training ends? One word, one sentence and one link, the same on every page."""

from __future__ import annotations

import functools
from pathlib import Path

import streamlit as st

from app.shared import components
from app.shared.folders import ledger_file
from zorba_core.errors import ZorbaError
from zorba_core.study.ledger import Claim, read_ledger
from zorba_core.study.ledger.claims import MEANINGS

CLAIM = "lambda/predicts"
MEANING = MEANINGS["undecided"]
_WITHOUT_LEDGER = "At an equal number of activated blocks no run here decides it."


def say() -> None:
    """The verdict as the ledger has it, with coefficient and interval, and the way to the claim."""
    claim = _claim()
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(sentence(claim), width="stretch")
        st.page_link(
            "screens/paper/paper.py",
            label="The claim and its evidence",
            icon=":material/fact_check:",
            query_params={"claim_text": CLAIM},
        )


def sentence(claim: Claim | None) -> str:
    """``Does a lower Λ train better? Undecided ...``."""
    asked = "**Does a lower Λ train better?**"
    if claim is None:
        return f"{asked} **Undecided**: {MEANING}. {_WITHOUT_LEDGER}"
    word = components.capitalised(claim.verdict)
    meaning = f": {MEANING}" if claim.verdict == "undecided" else ""
    return f"{asked} **{word}**{meaning}. Rank correlation of Λ with the loss: {components.plain(str(claim.ours))}."


def _claim() -> Claim | None:
    file = ledger_file()
    try:
        return _read(file, file.stat().st_mtime_ns)
    except (OSError, ZorbaError):
        return None


@functools.lru_cache(maxsize=4)
def _read(file: Path, modified: int) -> Claim | None:
    del modified  # part of the cache's key only
    return next((claim for claim in read_ledger(file).claims if claim.id == CLAIM), None)
