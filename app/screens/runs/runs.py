"""Runs: did it learn, how fast, at what cost, and exactly what was run. Reads run folders; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs import (
    choose,
    compare,
    curves,
    delete,
    export,
    look,
    table,
    toolbar,
)
from app.screens.runs.reading import experiment_listing, folder_listing
from app.screens.train.jobs import titles_of_runs
from app.screens.train.processes import being_written
from app.shared import components
from app.shared.folders import experiments_folder, runs_folder, short
from app.shared.links import linked
from zorba_core.errors import ZorbaError
from zorba_core.study.comparison import Listing, Record, experiments_there

FIRST_RUN = "zorba train --dataset toy-reviews --clients 20 --rounds 60 --seed 0"
EVERY_SECONDS = 5.0
_FOLDER = "folder"


def page() -> None:
    folder, experiments = runs_folder(), experiments_there(experiments_folder())
    try:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.title("Does it learn?", anchor=False, width="stretch")
            listing, source = _read(folder, experiments)
    except _Unreadable as error:
        components.problem(error.title, error.sentence)
        return
    # The picture stands above the filters and is drawn after them: they say which runs there are.
    picture = st.container()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="controls_of_filters"):
        titles = titles_of_runs(folder)
        records = choose.filtered(listing.records, titles) if listing.records else []
        baseline = choose.baseline_of(records) if records else None
    _problems(listing.problems)
    if listing.notes:
        st.caption(f":material/info: {'; '.join(components.plain(note) for note in listing.notes[:5])}.")
    chosen = choose.chosen_of(records, listing.records, source)
    if not listing.records:
        _nothing_yet(folder)
        return
    if not records:
        st.info("No run passes these filters. Clear one of them.", icon=":material/filter_alt_off:")
        return
    with picture, st.container(key="flip_runs"):
        controls = st.container()
        with controls:
            asked = toolbar.ask(records)
        with st.container():
            drawn = _picture(asked, records, listing.records, chosen, baseline, source)
    colors = None if drawn is None else curves.swatches(drawn)
    table.show_table(records, chosen, baseline, colors, titles)
    if records[0].path is not None:  # the tables of an experiment are as they were committed
        delete.draw(folder, source, chosen)
    _follow(folder, listing.records)
    if drawn is not None:
        compare.group_table(drawn, baseline)
        export.draw(chosen, baseline, drawn)
    if not chosen:
        return
    compare.differences(chosen)
    st.divider()
    look.draw(chosen)


def _picture(
    asked: toolbar.CurvesAsked,
    records: Sequence[Record],
    everyone: Sequence[Record],
    chosen: Sequence[Record],
    baseline: Record | None,
    source: str,
) -> curves.DrawnCurves | None:
    if chosen or baseline is not None:
        return curves.draw(asked, chosen, baseline)
    _nothing_picked(records, everyone, source)
    return None


def _nothing_picked(records: Sequence[Record], everyone: Sequence[Record], source: str) -> None:
    """A filter may hide all that is picked: it stays picked, and the runs that are left are a press away."""
    hidden = choose.picked_and_hidden(source, records, everyone)
    shown = [record.name for record in records]
    if not hidden:
        st.info("Pick one or more runs in the table to see their curves.", icon=":material/check_box:")
        return
    count = min(len(shown), choose.SHOWN_AT_ONCE)
    are = "run is" if hidden == 1 else "runs are"
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{hidden} picked {are} hidden by the filters**, which {len(shown)} others pass.")
        st.button(
            f"Draw {'these' if count == len(shown) > 1 else 'the newest'}{f' {count}' if count > 1 else ''}",
            key="draw_what_passes",
            on_click=choose.pick_by_name,
            args=(source, shown, shown[:count]),
            icon=":material/show_chart:",
        )


class _Unreadable(Exception):
    def __init__(self, title: str, sentence: str) -> None:
        super().__init__(title)
        self.title, self.sentence = title, sentence


def _read(folder: Path, tables: Sequence[tuple[str, str]]) -> tuple[Listing, str]:
    """What there is to compare, and where it comes from; asks where there is a choice."""
    source = _FOLDER
    if tables:
        labels = {_FOLDER: f"Run folders ({short(folder)})"} | {
            f"{name}.{profile}": f"Experiment {name}, {profile}" for name, profile in tables
        }
        source = linked(st.selectbox, "Runs of", labels, key="source", width=255)
    if folder.exists() and not folder.is_dir():
        raise _Unreadable(
            "The runs folder is no folder", f"{folder} is a file. Set ZORBA_RUNS to a folder, or unset it."
        )
    try:
        if source != _FOLDER:
            name, profile = source.split(".", 1)
            return experiment_listing(name, profile), source
        return folder_listing(folder), source
    except ZorbaError as error:
        raise _Unreadable("These runs cannot be read", f"{error}") from None
    except OSError as error:
        raise _Unreadable(
            "The runs folder cannot be read",
            f"{short(folder)}: {error.strerror}. Allow reading it, or set ZORBA_RUNS to another folder.",
        ) from None


def _follow(folder: Path, records: Sequence[Record]) -> None:
    """While a run is in progress, refresh automatically."""
    going = [record for record in records if record.status == "unfinished" and record.path is not None]
    if any(being_written(record.path) for record in going):
        st.fragment(_look_again, run_every=EVERY_SECONDS)(folder, _evaluated(folder))


def _look_again(folder: Path, seen: tuple) -> None:
    if _evaluated(folder) != seen:
        st.rerun()


def _evaluated(folder: Path) -> tuple:
    """Changes with every evaluation and end of a run, and not with every round."""
    files = [*folder.glob("*/metrics.parquet"), *folder.glob("*/summary.json")]
    return tuple(sorted((str(file), file.stat().st_mtime_ns) for file in files))


def _problems(problems: Sequence[str]) -> None:
    if not problems:
        return
    some = "1 entry is no readable run" if len(problems) == 1 else f"{len(problems)} entries are no readable runs"
    more = f"\n- and {len(problems) - 5} more; `zorba runs` names every one" if len(problems) > 5 else ""
    st.warning(
        f"**{some}; the others are shown.**\n\n"
        + "\n".join(f"- {components.plain(line[:600])}" for line in problems[:5])
        + more,
        icon=":material/folder_off:",
    )


def _nothing_yet(folder: Path) -> None:
    with st.container(border=True):
        st.markdown("## No runs yet")
        st.markdown("A first run needs no data and no download: the Train page starts one.")
        st.page_link(
            "screens/train/train.py", label="Train with the chosen allocation", icon=":material/model_training:"
        )
        st.markdown("Or in a terminal, in this checkout, with its environment active:")
        st.code(FIRST_RUN, language=None)
        st.caption(f"Runs appear here when their folder is in {components.plain(short(folder))}.")


page()
