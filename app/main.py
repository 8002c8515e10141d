"""The dashboard: `streamlit run app/main.py`. The sidebar holds the scenario; each page answers one question."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `streamlit run` puts only this file's folder on the path
    sys.path.insert(0, str(ROOT))

from app.shared import components, housekeeping, links, state  # noqa: E402
from zorba_core.errors import ZorbaError  # noqa: E402

MARK = Path(__file__).with_name("mark.svg")
WORDMARK = Path(__file__).with_name("wordmark.svg")
ANSWERED_LAST = ("Fleet", "Train")  # pages that ask for more of the scenario are drawn after the sidebar's controls


def main() -> None:
    begins = state.begin()
    st.set_page_config(page_title="ZorBA", page_icon=str(MARK), layout="wide")
    st.logo(str(WORDMARK), size="large", icon_image=str(MARK))
    components.style()
    # The folder is not called "pages": Streamlit would run a file of such a folder by itself when a link names it.
    page = st.navigation(
        {
            "Plan": [
                st.Page("screens/fleet/fleet.py", title="Fleet", icon=":material/memory:"),
                st.Page(
                    "screens/tradeoff/tradeoff.py", title="Trade-off", icon=":material/scatter_plot:", default=True
                ),
                st.Page("screens/allocation/allocation.py", title="Allocation", icon=":material/grid_on:"),
            ],
            "Understand": [
                st.Page("screens/toy/toy.py", title="Toy", icon=":material/view_module:"),
                st.Page("screens/theory/theory.py", title="Theory", icon=":material/function:"),
            ],
            "Run": [
                st.Page("screens/train/train.py", title="Train", icon=":material/model_training:"),
                st.Page("screens/runs/runs.py", title="Runs", icon=":material/show_chart:"),
            ],
            "Check": [
                st.Page("screens/paper/paper.py", title="Paper", icon=":material/fact_check:"),
            ],
        }
    )
    links.arrive(page.title)
    try:
        _draw(page, begins)
    except ZorbaError as error:
        components.problem("This cannot be shown", str(error))
    except Exception:
        logging.getLogger("zorba.app").exception("page %s failed", page.title)
        components.problem(
            "Something went wrong on our side",
            "The details are in the terminal that runs the dashboard. Change a control, or reload the page, to go on.",
        )
    housekeeping.settle(page.title)


def _draw(page: StreamlitPage, begins: bool) -> None:
    """A changed control is answered first where its answer is what people look at: the sidebar is there from before."""
    if begins or page.title in ANSWERED_LAST:
        state.sidebar()
        page.run()
        return
    try:
        page.run()
    except Exception:
        state.sidebar()  # the way out of what cannot be shown
        raise
    state.sidebar()


if __name__ == "__main__":  # not where a process that this one starts reads the file again
    main()
