"""One job on the screen: its progress, measures, costs and log; and Stop and Resume.

Everything shown is read from files and from the process anew each time, so a reload or another browser shows the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import streamlit as st

from app.screens.train import jobs, processes
from app.screens.train.jobs import Job, State
from app.screens.train.measures import evaluation_cost, numbers
from app.screens.train.run_log import LiveLog
from app.screens.train.words import ERROR, STATES, ago, duration
from app.shared import components
from app.shared.links import keep
from zorba_core.errors import ZorbaError
from zorba_core.plots import progress_figure
from zorba_core.runs import TRAJECTORY, Request, read_request
from zorba_core.study.comparison import metric_of

EVERY_SECONDS = 2.0


def panel(runs_folder: Path, job: Job) -> None:
    """The job, read again every two seconds while it runs."""
    alive = jobs.state_of(runs_folder, job).alive
    st.fragment(_look, run_every=EVERY_SECONDS if alive else None)(runs_folder, job, alive)


def _look(runs_folder: Path, job: Job, was_alive: bool) -> None:
    try:
        job = jobs.read_job(jobs.job_folder(runs_folder, job))
    except ZorbaError:  # taken out of the list by another page
        st.rerun()
    state = jobs.state_of(runs_folder, job)
    if was_alive and not state.alive:
        st.rerun()  # the list, the form and this panel all change, and nothing needs to be looked at again
    with st.container(border=True):
        _heading(runs_folder, job, state)
        request = _request(state.run)
        if request is None:
            _not_begun(job, state)
        else:
            _running(job, state, request)
        _said(runs_folder, job, state)


def _heading(runs_folder: Path, job: Job, state: State) -> None:
    word, color, icon = STATES[state.name]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"## {components.plain(job.title)}", width="stretch")
        st.badge(word, color=color, icon=icon)
        _buttons(runs_folder, job, state)
        if state.run is not None and not state.alive:
            st.page_link(
                "screens/runs/runs.py",
                label="Open in Runs",
                icon=":material/show_chart:",
                query_params={"runs": state.run.name},
            )
    if state.name == "interrupted" and job.stop_asked is None and jobs.summary_of(state.run) is None:
        st.info(
            "The process ended without a message: it was killed, or the machine ran out of memory or power. Every "
            "whole round is kept; Resume continues from the last.",
            icon=":material/power_off:",
        )
    if state.reason:
        title = "The run was refused, before its first round" if state.name == "refused" else "The run failed"
        components.problem(title, components.capitalised(state.reason))


def _buttons(runs_folder: Path, job: Job, state: State) -> None:
    """Stop or Resume. A click within a fragment reruns the fragment alone; both change the rest of the page too."""
    if state.alive:
        again = state.name == "stopping"
        if st.button(
            "Stop at once" if again else "Stop",
            key=f"stop_{'now_' if again else ''}{job.id}",  # two buttons: one click must never be taken for both
            icon=":material/stop_circle:",
            help="Loses the round at hand, keeps all before it."
            if again
            else "As Ctrl-C: finishes the round at hand and keeps everything. Resume continues to the same bits.",
        ):
            processes.stop(runs_folder, job)
            st.rerun()
    elif state.resumable and st.button(
        "Resume",
        key=f"resume_{job.id}",
        type="primary",
        icon=":material/play_arrow:",
        help="`zorba resume`: continues after the last whole round, to the weights of an uninterrupted run.",
    ):
        resume(runs_folder, state.run, job.rounds, job.title)
        st.rerun()


def resume(runs_folder: Path, run: Path, rounds: int, title: str) -> None:
    """Resume a run (a button's callback)."""
    try:
        job = processes.start_resume(runs_folder, run, rounds=rounds, title=title)
    except ZorbaError as error:
        st.session_state[ERROR] = str(error)
    else:
        keep("job", job.id)


def _not_begun(job: Job, state: State) -> None:
    if state.alive:
        waited = time.time() - job.started
        st.progress(0, f"Loading model and rows, and measuring whether these settings can learn … {duration(waited)}")
    elif state.name == "cancelled":
        st.info("Stopped before the first round: nothing was written.", icon=":material/info:")
    elif not state.reason:
        components.problem(
            "The process ended without a message before its first round",
            "The machine may have run out of memory, or someone ended it. Try a smaller batch or model.",
        )


def _running(job: Job, state: State, request: Request) -> None:
    log = _log(state.run)
    config = request.config
    rounds = int(config.get("rounds") or job.rounds)
    done = min(log.rounds_done, rounds)
    left = log.seconds_left(rounds, *evaluation_cost(log, state.run, config)) if state.name == "running" else None
    words = f"Round {done} of {rounds}"
    if left is not None and done < rounds:
        words += f" · about {duration(left)} left"
    elif state.name == "running" and not done:
        words += " · evaluating the model before fine-tuning"
    st.progress(done / rounds if rounds else 0.0, words)
    _say_damage(log, state)
    components.numbers(numbers(job, state, request, log))
    _curves(log, config, rounds, components.capitalised(metric_of(request)))


def _say_damage(log: LiveLog, state: State) -> None:
    """Why there is less to see than the run has done."""
    summary = None if state.alive else jobs.summary_of(state.run)
    finished = summary.get("rounds_done") if isinstance(summary, dict) else None
    if log.damaged_at is not None:
        components.problem(
            "The run's log is damaged",
            f"{log.path.name} at byte {log.damaged_at}: a checksum does not fit. What is shown here ends before it. "
            "Restore the file from a copy.",
        )
    elif isinstance(finished, int) and log.rounds_done < finished:
        components.problem(
            "The run's log has lost rounds",
            f"{log.path.name} has {log.rounds_done} rounds, and the run ended after {finished}. Restore the file from "
            "a copy.",
        )


def _curves(log: LiveLog, config: dict[str, Any], rounds: int, metric: str) -> None:
    if not log.evaluations:
        return
    target = config.get("target")
    shared = {"rounds_asked": rounds, "resumed_after": log.resumed_after, "palette": components.palette()}
    evaluated = [judged.round for judged in log.evaluations]
    left, right = st.columns(2, gap="medium")
    with left:
        components.figure(
            progress_figure(
                (evaluated, [judged.accuracy for judged in log.evaluations]),
                title=metric,
                share=True,
                target=target if isinstance(target, float) else None,
                **shared,
            ),
            key="live_accuracy",
            name="zorba-accuracy",
            alt=f"{metric} after {log.rounds_done} of {rounds} rounds: from {log.evaluations[0].accuracy:.1%} to "
            f"{log.evaluations[-1].accuracy:.1%}.",
        )
    with right:
        components.figure(
            progress_figure(
                (evaluated, [judged.loss for judged in log.evaluations]),
                title="Loss",
                each_round=([entry.round for entry in log.rounds], [entry.train_loss for entry in log.rounds]),
                **shared,
            ),
            key="live_loss",
            name="zorba-loss",
            alt=f"Loss after {log.rounds_done} of {rounds} rounds: from {log.evaluations[0].loss:.3f} to "
            f"{log.evaluations[-1].loss:.3f} on held-out rows.",
        )


def _said(runs_folder: Path, job: Job, state: State) -> None:
    with st.expander("What the process says, and its command", icon=":material/terminal:"):
        st.caption(f"Process {job.pid}, started {ago(job.started)}. The same run in a terminal:")
        st.code(" ".join(job.command), language="bash", wrap_lines=True)
        lines = jobs.log_lines(runs_folder, job)
        st.code("\n".join(lines) or "(nothing yet)", language=None, wrap_lines=True)


def _log(run: Path) -> LiveLog:
    """The run's log, read on from where this session's last look ended."""
    logs = st.session_state.setdefault("live_logs", {})
    if str(run) not in logs:
        logs.clear()  # one at a time: a long log is megabytes
        logs[str(run)] = LiveLog(run / TRAJECTORY)
    return logs[str(run)].update()


def _request(run: Path | None) -> Request | None:
    try:
        return None if run is None else read_request(run)
    except (ZorbaError, OSError):
        return None
