"""The dashboard: `streamlit run app/main.py`. Four pages; Explore is the root.

Streamlit imports this file for the server (`app`), and executes it as a script in every run of a page (`main`).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # `streamlit run` puts only this file's folder on the path
    sys.path.insert(0, str(HERE.parent))
importlib.import_module(HERE.name)  # in a wheel this is zorba_app, which then answers to the name app

from app.parts import ui  # noqa: E402

_SCRIPTS = Path(st.__file__).with_name("static") / "static" / "js"
MARK, WORDMARK = (str(Path(__file__).with_name(name)) for name in ("mark.svg", "wordmark.svg"))


def main() -> None:
    st.set_page_config(page_title="ZorBA", page_icon=MARK, layout="wide", initial_sidebar_state="collapsed")
    st.logo(WORDMARK, size="medium", icon_image=MARK)
    page = st.navigation(
        [
            st.Page("views/explore.py", title="Explore", icon=":material/show_chart:", default=True),
            st.Page("views/train.py", title="Train", icon=":material/model_training:"),
            st.Page("views/runs.py", title="Runs", icon=":material/list_alt:"),
            st.Page("views/findings.py", title="Findings", icon=":material/fact_check:"),
        ],
        position="top",
    )
    ui.style()
    with ui.shown_errors(f"page {page.title}"):
        page.run()


class EarlyPlotly:
    """Middleware: a link header lets the browser load plotly's script (5 MB) while the page runs."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        links = (f"</static/js/{file.name}>; rel=modulepreload" for file in _SCRIPTS.glob("PlotlyChart.*.js"))
        self.link = ", ".join(links)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_link(message: Message) -> None:
            if self.link and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("link", self.link)
            await send(message)

        await self.app(scope, receive, with_link)


if __name__ == "__main__":  # not if a child process imports this file
    main()
elif __name__ == Path(__file__).stem:  # imported by `streamlit run`, which looks for `app`
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app = st.App(__file__, middleware=[hosts, Middleware(EarlyPlotly)])
