"""The dashboard: `streamlit run app/main.py`. The sidebar holds the scenario; each page answers one question.

Streamlit reads this file twice: once imported, for the server (`app`), and in every run of a page, for `main`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from streamlit.navigation.page import StreamlitPage

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `streamlit run` puts only this file's folder on the path
    sys.path.insert(0, str(ROOT))

from app.screens.registry import PAGES  # noqa: E402
from app.shared import components, links, state  # noqa: E402
from app.shared.guard import shown_errors  # noqa: E402

MARK = Path(__file__).with_name("mark.svg")
WORDMARK = Path(__file__).with_name("wordmark.svg")
SIDEBAR_FIRST = {entry.title for entry in PAGES.values() if entry.sidebar_first}
WITHOUT_SCENARIO = {entry.title for entry in PAGES.values() if not entry.uses_scenario}


def main() -> None:
    state.begin()
    st.set_page_config(page_title="ZorBA", page_icon=str(MARK), layout="wide")
    st.logo(str(WORDMARK), size="large", icon_image=str(MARK))
    sections: dict[str, list[StreamlitPage]] = {}
    for entry in PAGES.values():
        sections.setdefault(entry.section, []).append(
            st.Page(entry.path, title=entry.title, icon=entry.icon, default=entry.default)
        )
    page = st.navigation(sections)
    components.style()
    links.arrive(page.title)
    with shown_errors(f"page {page.title}"):
        _draw(page)


def _draw(page: StreamlitPage) -> None:
    """The page goes first: its picture is what people look at, and the sidebar is there from before."""
    used = page.title not in WITHOUT_SCENARIO
    if page.title in SIDEBAR_FIRST:
        state.sidebar(used)
        page.run()
        return
    try:
        page.run()
    except Exception:
        state.sidebar(used)  # the way out of what cannot be shown
        raise
    state.sidebar(used)


if __name__ == "__main__":  # not where a process that this one starts reads the file again
    main()
elif __name__ == Path(__file__).stem:  # imported by `streamlit run`, which finds the server by this name
    app = st.App(__file__, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])])
