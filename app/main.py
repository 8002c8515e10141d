"""The dashboard: `streamlit run app/main.py`. Five pages; Explore is the root.

Streamlit reads this file twice: once imported, for the server (`app`), and in every run of a page, for `main`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `streamlit run` puts only this file's folder on the path
    sys.path.insert(0, str(ROOT))

from app.parts import ui  # noqa: E402

MARK, WORDMARK = (str(Path(__file__).with_name(name)) for name in ("mark.svg", "wordmark.svg"))


def main() -> None:
    st.set_page_config(page_title="ZorBA", page_icon=MARK, layout="wide", initial_sidebar_state="collapsed")
    st.logo(WORDMARK, size="medium", icon_image=MARK)
    page = st.navigation(
        [
            st.Page("views/explore.py", title="Explore", icon=":material/show_chart:", default=True),
            st.Page("views/allocation.py", title="Allocation", icon=":material/grid_on:"),
            st.Page("views/train.py", title="Train", icon=":material/model_training:"),
            st.Page("views/runs.py", title="Runs", icon=":material/list_alt:"),
            st.Page("views/findings.py", title="Findings", icon=":material/fact_check:"),
        ],
        position="top",
    )
    ui.style()
    with ui.shown_errors(f"page {page.title}"):
        page.run()


if __name__ == "__main__":  # not where a process that this one starts reads the file again
    main()
elif __name__ == Path(__file__).stem:  # imported by `streamlit run`, which finds the server by this name
    app = st.App(__file__, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])])
