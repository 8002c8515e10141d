"""Runs: did it learn, how fast, at what cost, and exactly what was run. Reads run folders; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app import components
from app.folders import experiments_folder, runs_folder, short
from app.links import linked
from app.processes import being_written
from app.runs import choose, compare, curves, export, look
from app.runs.reading import experiment_listing, folder_listing
from app.runs.records import Listing, Record, experiments_there
from zorba_core.errors import ZorbaError

FIRST_RUN = "zorba train --dataset toy-reviews --clients 20 --rounds 60 --seed 0"
EVERY_SECONDS = 5.0
_FOLDER = "folder"


def page() -> None:
    st.title("Does it learn?", anchor=False)
    st.markdown(
        "Fine-tuning runs side by side: forward passes only, each client training its own blocks. Pick runs in the "
        "table to lay their curves over each other."
    )
    folder = runs_folder()
    listing = _read(folder)
    if listing is None:
        return
    _problems(listing.problems)
    for note in listing.notes[:5]:
        st.caption(f":material/info: {components.plain(note)}.")
    if not listing.records:
        _nothing_yet(folder)
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        kept = choose.filtered(listing.records)
        baseline = choose.baseline_of(kept)
    if not kept:
        st.info("No run passes these filters. Clear one of them.", icon=":material/filter_alt_off:")
        return
    chosen = choose.pick(kept, baseline)
    _follow(folder, listing.records)
    if not chosen:
        st.info("Pick one or more runs in the table to see their curves.", icon=":material/check_box:")
        return
    drawn = curves.draw(chosen, baseline)
    if drawn is not None:
        compare.group_table(drawn[0], baseline)
        export.draw(chosen, *drawn)
    compare.differences(chosen)
    st.divider()
    look.draw(chosen)


def _read(folder: Path) -> Listing | None:
    """What there is to compare; None when it cannot be read, after saying why."""
    tables = experiments_there(experiments_folder())
    source = _FOLDER
    if tables:
        labels = {_FOLDER: f"Run folders ({short(folder)})"} | {
            f"{name}.{profile}": f"Experiment {name}, {profile}" for name, profile in tables
        }
        source = linked(st.selectbox, "Runs of", list(labels), format_func=labels.get, key="source", width=360)
    if folder.exists() and not folder.is_dir():
        components.problem(
            "The runs folder is no folder", f"{folder} is a file. Set ZORBA_RUNS to a folder, or unset it."
        )
        return None
    try:
        if source != _FOLDER:
            name, profile = source.split(".", 1)
            return experiment_listing(name, profile)
        return folder_listing(folder)
    except ZorbaError as error:
        components.problem("These runs cannot be read", f"{error}")
    except OSError as error:
        components.problem(
            "The runs folder cannot be read",
            f"{short(folder)}: {error.strerror}. Allow reading it, or set ZORBA_RUNS to another folder.",
        )
    return None


def _follow(folder: Path, records: Sequence[Record]) -> None:
    """While a run goes on, look again by itself."""
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
        st.markdown("##### No runs yet")
        st.markdown("A first run needs no data and no download: the Train page starts one.")
        st.page_link("views/train.py", label="Train with the chosen allocation", icon=":material/model_training:")
        st.markdown("Or in a terminal, in this checkout, with its environment active:")
        st.code(FIRST_RUN, language="bash")
        st.caption(f"Runs appear here when their folder is in {components.plain(short(folder))}.")


page()
