"""The first box: which cards there are, from a paste, a file or a few written lines; and how its columns were read."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pandas as pd
import streamlit as st

from app.shared import components
from app.shared.links import choose, draw, keep, linked_number, remembered
from zorba_core.data.inventory import UNITS, CardKind, Columns, Inventory, cards_of, read_cards, read_inventory, written
from zorba_core.errors import InvalidInputError

EXAMPLE = "4 x RTX 3060, 12 GiB\n6 x Laptop RTX 3050, 4 GiB\n2 x Jetson Nano, 2 GiB ~ 0.3"
LONGEST_LINK = 1_000  # characters of the list in an address
_FILE, _UPLOADS = "start_file", "start_uploads"
_ROLES = {
    "memory": "Memory",
    "free": "Free memory",
    "count": "How many",
    "each": "Cards per machine",
    "kind": "Kind of card",
    "name": "Machine",
    "speed": "Relative speed",
    "share": "Share available",
}
_NONE, _LONG = "–", "list_too_long_for_a_link"
_QUERY = "nvidia-smi --query-gpu=name,memory.total,memory.free --format=csv"


def ask() -> list[CardKind] | None:
    """The cards, what each can spend; None until they can be read, after saying why."""
    st.markdown("## 1 · My cards")
    upload = st.session_state.get(_FILE)
    text = ""
    if upload is None:
        usual = st.session_state.get(_LONG, EXAMPLE)  # whoever comes back to an address that could not hold the list
        text = remembered("my_cards", usual, lambda text: text.replace(";", "\n")[:20_000]) or EXAMPLE
        draw(
            st.text_area,
            "my_cards",
            text,
            (),
            "Cards",
            height=132,
            label_visibility="collapsed",
            help="What nvidia-smi prints, a table copied from a spreadsheet, or lines such as `4 x RTX 3090, 24 GB`. "
            "`~ 0.5` at the end: half as fast as this machine.",
        )
    else:
        st.markdown(f":material/description: **{components.plain(upload[0])}**")
        st.button("Write a list instead", on_click=_forget_file, icon=":material/close:", type="tertiary")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        _sources()
        share = _share()
    try:
        inventory = read_inventory(text) if upload is None else upload[1]
        columns = _columns(inventory)
        kinds, busy = read_cards(inventory, columns)
    except InvalidInputError as error:
        link = text.replace("\n", ";")
        keep("my_cards", link if link and len(link) <= LONGEST_LINK else None)
        components.problem("These cards cannot be read yet", components.sentence(error))
        if upload is not None and "inventory" in locals():
            _preview(inventory)
        return None
    listed = written(kinds)
    link = listed.replace("\n", ";")
    if upload is None and len(link) > LONGEST_LINK:
        st.session_state[_LONG] = text
    else:
        st.session_state.pop(_LONG, None)
    keep("my_cards", None if listed == _example_list() or len(link) > LONGEST_LINK else link)
    count = sum(card.count for card in kinds)
    st.caption(
        f"**{count:,} card{'s' if count > 1 else ''}** of {len(kinds)} kind{'s' if len(kinds) > 1 else ''}, {share} % "
        "of each for training. "
        + (f"{busy:,} with nothing free {'is' if busy == 1 else 'are'} left out. " if busy else "")
        + "One "
        "card is one client." + (" Too many kinds for a link: keep the file." if len(link) > LONGEST_LINK else "")
    )
    return [replace(card, gib=card.gib * share / 100) for card in kinds]


def _example_list() -> str:
    inventory = read_inventory(EXAMPLE)
    return written(cards_of(inventory, inventory.columns))


def _share() -> int:
    with st.popover("Share", icon=":material/percent:", help="The part of each card that training may use."):
        return linked_number(
            st.slider,
            "Share of each card for training (%)",
            5,
            100,
            90,
            key="my_share",
            help="The rest is for the system and for other programs. Of free memory, where the list says it.",
        )


def _sources() -> None:
    with st.popover("Paste or upload", icon=":material/upload:"):
        st.file_uploader(
            "CSV or Excel, any column names",
            type=["csv", "tsv", "txt", "xlsx"],
            key=f"start_upload_{st.session_state.get(_UPLOADS, 0)}",
            on_change=_take_upload,
        )
        st.caption("Or paste into the box what this prints on each machine:")
        st.code(_QUERY, language="bash")
        if shutil.which("nvidia-smi"):
            st.button("The cards of this machine", on_click=_this_machine, icon=":material/developer_board:")


def _take_upload() -> None:
    turn = st.session_state.get(_UPLOADS, 0)
    file = st.session_state.get(f"start_upload_{turn}")
    if file is None:
        return
    st.session_state[_UPLOADS] = turn + 1
    try:
        st.session_state[_FILE] = (file.name[:80], read_inventory(file.getvalue(), file.name[:80]))
    except InvalidInputError as error:
        said = f"{components.plain(file.name[:80])}: {components.plain(str(error))}."
        st.toast(said, icon=":material/warning:", duration="infinite")


def _forget_file() -> None:
    st.session_state.pop(_FILE, None)


def _this_machine() -> None:
    try:
        printed = subprocess.run(_QUERY.split(), capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        st.toast("nvidia-smi did not answer.", icon=":material/warning:", duration="long")
        return
    st.session_state.pop(_FILE, None)
    choose("my_cards", printed)


def _columns(inventory: Inventory) -> Columns:
    """The guess, as the reader has corrected it."""
    if inventory.source == "a written list":
        for doubt in inventory.doubts:
            st.caption(f":material/help: {components.plain(components.capitalised(doubt))}.")
        return inventory.columns
    guess, identity = inventory.columns, hash((inventory.header, len(inventory.rows)))
    source, memory = components.plain(inventory.source), components.plain(guess.memory or "no memory")
    with st.expander(
        f"Read as {source}: {memory} in {guess.unit}",
        icon=":material/table_view:" if not inventory.doubts else ":material/help:",
        expanded=guess.memory is None,
    ):
        chosen: dict[str, str | None] = {}
        places = [place for _ in range(5) for place in st.columns(2)]
        for place, (role, label) in zip(places, _ROLES.items(), strict=False):
            options = [_NONE, *inventory.header]
            usual = getattr(guess, role) or _NONE
            value = place.selectbox(label, options, options.index(usual), key=f"start_{role}_{identity}")
            chosen[role] = None if value == _NONE else value
        unit = places[len(_ROLES)].selectbox(
            "Unit", list(UNITS), list(UNITS).index(guess.unit), key=f"start_unit_{identity}"
        )
        _preview(inventory)
    columns = Columns(unit=unit, **chosen)
    if remarks := [*inventory.doubts_of(columns), *_unread(inventory, columns)]:
        st.caption(" ".join(components.sentence(remark) for remark in map(components.plain, remarks)))
    return columns


def _unread(inventory: Inventory, columns: Columns) -> list[str]:
    """The columns that nothing is taken from, named, so that a wrong guess is seen."""
    names = inventory.unread(columns)
    if not names:
        return []
    named = ", ".join(name[:24] for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return [f"not used: {named}"]


def _preview(inventory: Inventory) -> None:
    st.dataframe(
        pd.DataFrame(inventory.rows[:5], columns=inventory.header),
        hide_index=True,
        width="stretch",
        alt="The first rows of the list as they were read.",
    )
    st.caption(f"The first {min(5, len(inventory.rows))} of {len(inventory.rows):,} rows.")
