"""The saved views on top of the Runs page, as cards, and where they are named, renamed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs import choose
from app.screens.runs.views import LONGEST_NAME, VIEWS, SavedView, Views, read_views, same_view, write_views
from app.shared import components
from app.shared.escape import as_code
from app.shared.folders import short
from app.shared.links import open_here, parameters
from zorba_core.errors import ZorbaError

_PROBLEM = "views_problem"
_MOST_CARDS = 8
_ICONS = {"outcomes": ":material/scatter_plot:", "target": ":material/flag:"}


def cards(folder: Path, experiments: Sequence[tuple[str, str]]) -> list[SavedView]:
    """A card for each view; the one in view is marked. Returns all of them."""
    try:
        views = read_views(folder).all(experiments)
    except ZorbaError as error:
        components.problem("The saved views cannot be read", str(error))
        return []
    here = parameters()
    for number, view in enumerate(views[:_MOST_CARDS]):
        st.button(
            components.plain(view.name),
            key=f"view_{number}",
            on_click=_open,
            args=(view,),
            icon=_ICONS.get(view.parameters.get("picture", [""])[0], ":material/show_chart:"),
            type="primary" if same_view(view, here) else "secondary",
            help="A view of the committed experiments." if view.given else "Saved here.",
        )
    return views


def manage(folder: Path, views: Sequence[SavedView], suggested: str) -> None:
    """Save what the page shows now; open, rename and delete what is saved."""
    with st.popover("Views", icon=":material/bookmarks:", help="Save what the page shows now, under a name."):
        problem = st.session_state.pop(_PROBLEM, None)
        if problem:
            components.problem("This was not kept", problem)
        with st.form("save_view", border=False, clear_on_submit=False):
            key = f"view_name_{suggested}"
            st.text_input("Save this view as", suggested, key=key, max_chars=LONGEST_NAME)
            st.form_submit_button("Save", icon=":material/bookmark_add:", on_click=_save, args=(folder, key))
        if not views:
            return
        by_name = {view.name: view for view in views}
        name = st.selectbox("Saved views", list(by_name), key="view_to_change")
        view = by_name[name if name in by_name else next(iter(by_name))]
        new_key = f"view_new_name_{view.name}"
        new = st.text_input("Its name", view.name, key=new_key, max_chars=LONGEST_NAME)
        with st.container(horizontal=True, gap="small"):
            st.button("Open", key="open_view", on_click=_open, args=(view,), icon=":material/open_in_new:")
            st.button(
                "Rename",
                key="rename_view",
                on_click=_change,
                args=(folder, lambda views: views.renamed(view, st.session_state[new_key])),
                icon=":material/edit:",
                disabled=new == view.name,
            )
            st.button(
                "Delete",
                key="delete_view",
                on_click=_change,
                args=(folder, lambda views: views.less(view)),
                icon=":material/delete:",
            )
        st.caption(f"Kept in {as_code(short(folder / VIEWS))}: names and addresses, no runs.")


def _open(view: SavedView) -> None:
    """A button's callback."""
    choose.forget_picks()
    open_here(view.parameters)


def _save(folder: Path, key: str) -> None:
    """A form's callback: the address is that of the picture that the reader saw."""
    name, here = st.session_state[key], parameters()
    _change(folder, lambda views: views.with_view(name, here))


def _change(folder: Path, change: Callable[[Views], Views]) -> None:
    try:
        write_views(folder, change(read_views(folder)))
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)
