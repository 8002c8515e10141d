"""Train: run the chosen allocation, watch it learn, stop and resume it. The training is a separate process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app.screens.runs.reading import folder_listing
from app.screens.train import form, live, processes
from app.screens.train.jobs import Job, list_jobs, state_of
from app.screens.train.words import ERROR, NEW, STATES, ago
from app.shared import components
from app.shared.escape import as_code
from app.shared.folders import runs_folder
from app.shared.links import keep

SHOWN = 8


def page() -> None:
    st.title("Train with this allocation", anchor=False)
    st.markdown(
        "Try the chosen allocation on this machine: clients fine-tune a small model by forward passes alone, each "
        "its own blocks. A run is a separate process: it continues when this page is closed, and is listed here again."
    )
    folder = runs_folder()
    all_jobs, problems = list_jobs(folder)
    jobs = _newest_of_each_run(folder, all_jobs)
    watched = _watched(folder, jobs, all_jobs)
    error = st.session_state.pop(ERROR, None)
    if error:
        components.problem("This was not done", components.sentence(error))
    if watched is not None:
        live.panel(folder, watched)
    busy = any(state_of(folder, job).alive for job in jobs)
    if watched is not None:
        with st.expander("A new run", icon=":material/add_circle:", expanded=not busy):
            _form(folder)
    else:
        _form(folder)
    _jobs(folder, jobs, watched)
    _elsewhere(folder, jobs)
    for line in problems[:5]:
        st.caption(f":material/folder_off: {components.plain(line)}")


def _form(folder: Path) -> None:
    form.draw(folder)


def _newest_of_each_run(folder: Path, jobs: tuple[Job, ...]) -> list[Job]:
    """The newest job of each run: a resumed run has several."""
    seen: set[Path] = set()
    newest = []
    for job in jobs:
        run = state_of(folder, job).run
        if run is not None and run in seen:
            continue
        if run is not None:
            seen.add(run)
        newest.append(job)
    return newest


def _watched(folder: Path, jobs: list[Job], all_jobs: Sequence[Job]) -> Job | None:
    """The job that the address names, or what became of its run since; without a name the newest one. None where the
    form was asked for, and where the named job is gone: another run would be mistaken for it."""
    named = st.query_params.get("job")
    if named == NEW:
        return None
    if named is not None:
        runs = {job.id: state_of(folder, job).run or job.id for job in all_jobs}
        if named in runs:
            return next(job for job in jobs if runs[job.id] == runs[named])
        st.warning(
            f"The link names the run {as_code(named[:80])}, which is not in the list of this machine any more. The "
            "Runs page has every run whose folder is still there.",
            icon=":material/link_off:",
        )
        return None
    going = [job for job in jobs if state_of(folder, job).alive]
    return (going or jobs or [None])[0]


def _watch(job: Job) -> None:
    keep("job", job.id)


def _forget(folder: Path, job: Job) -> None:
    processes.forget(folder, job)
    if st.query_params.get("job") == job.id:
        keep("job", None)


def _jobs(folder: Path, jobs: list[Job], watched: Job | None) -> None:
    if len(jobs) < 2 and (watched is not None or not jobs):
        return
    st.markdown("## Started here")
    for job in jobs[:SHOWN]:
        state = state_of(folder, job)
        word, color, icon = STATES[state.name]
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(word, color=color, icon=icon)
            name = "" if state.run is None else f" · {as_code(state.run.name)}"
            st.markdown(f"{components.plain(job.title)}{name} · {ago(job.started)}", width="stretch")
            if watched is None or job.id != watched.id:
                st.button("Show", key=f"watch_{job.id}", on_click=_watch, args=(job,), icon=":material/visibility:")
            if not state.alive:
                st.button(
                    "Remove",
                    key=f"forget_{job.id}",
                    on_click=_forget,
                    args=(folder, job),
                    icon=":material/playlist_remove:",
                    help="From this list only. The run's folder stays as it is.",
                )
    if len(jobs) > SHOWN:
        st.caption(f"And {len(jobs) - SHOWN} older ones; the Runs page has every run.")


def _elsewhere(folder: Path, jobs: list[Job]) -> None:
    """Runs without an end that no job here is about: a terminal's, or another machine's."""
    known = {state_of(folder, job).run for job in jobs}
    try:
        records = folder_listing(folder).records
    except OSError:  # the Runs page says so
        return
    unfinished = [run for run in records if run.status in ("unfinished", "interrupted") and run.path not in known]
    if not unfinished:
        return
    st.markdown("## Started in a terminal, not finished")
    for run in unfinished[:SHOWN]:
        going = processes.being_written(run.path)
        word, color, icon = STATES["elsewhere" if going else "interrupted"]
        rounds = run.config.get("rounds")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(word, color=color, icon=icon)
            done = int(run.metrics["round"].max()) if len(run.metrics) else 0
            st.markdown(f"{as_code(run.name)} · round {done} of {rounds}", width="stretch")
            if not going:
                st.button(
                    "Resume",
                    key=f"resume_{run.name}",
                    icon=":material/play_arrow:",
                    on_click=live.resume,
                    args=(folder, run.path, rounds if isinstance(rounds, int) else 0, run.name),
                )


page()
