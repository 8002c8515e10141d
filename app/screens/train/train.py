"""Train: run the chosen allocation, watch it learn, stop and resume it. The training is a process of its own."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.screens.runs.reading import folder_listing
from app.screens.train import form, live, processes
from app.screens.train.jobs import Job, list_jobs, state_of
from app.screens.train.words import ERROR, STATES, ago
from app.shared import components
from app.shared.folders import as_code, runs_folder
from app.shared.links import keep

SHOWN = 8


def page() -> None:
    st.title("Train with this allocation", anchor=False)
    st.markdown(
        "Rehearse the chosen allocation on this machine: clients fine-tune a small model by forward passes alone, each "
        "its own blocks. A run is a process of its own: it goes on when this page is closed, and is found here again."
    )
    folder = runs_folder()
    jobs, problems = list_jobs(folder)
    jobs = _newest_of_each_run(folder, jobs)
    watched = _watched(folder, jobs)
    error = st.session_state.pop(ERROR, None)
    if error:
        components.problem("This was not done", f"{error[:1].upper()}{error[1:]}.")
    if watched is not None:
        live.panel(folder, watched)
    busy = any(state_of(folder, job).alive for job in jobs)
    if jobs:
        with st.expander("A new run", icon=":material/add_circle:", expanded=not busy):
            form.draw(folder)
    else:
        form.draw(folder)
    _jobs(folder, jobs, watched)
    _elsewhere(folder, jobs)
    for line in problems[:5]:
        st.caption(f":material/folder_off: {components.plain(line)}")


def _newest_of_each_run(folder: Path, jobs: tuple[Job, ...]) -> list[Job]:
    """A run that was resumed has several jobs; the latest speaks for it."""
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


def _watched(folder: Path, jobs: list[Job]) -> Job | None:
    """The job that the address names, else the newest one."""
    by_id = {job.id: job for job in jobs}
    named = st.query_params.get("job")
    if named in by_id:
        return by_id[named]
    keep("job", None)
    going = [job for job in jobs if state_of(folder, job).alive]
    return (going or jobs or [None])[0]


def _watch(job: Job) -> None:
    keep("job", job.id)


def _jobs(folder: Path, jobs: list[Job], watched: Job | None) -> None:
    if len(jobs) < 2:
        return
    st.markdown("##### Started here")
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
                    on_click=processes.forget,
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
    st.markdown("##### Started in a terminal, not finished")
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
