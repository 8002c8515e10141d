"""One job on the screen: how far it is, what it measures, what it costs, what it says; and Stop and Resume.

Everything shown is read from files and from the process anew each time, so a reload or another browser shows the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app import components, jobs, processes
from app.components import Number
from app.jobs import Job, State
from app.links import keep
from app.process_identity import resident_bytes
from app.run_log import LiveLog, Round
from app.runs.sent import bytes_sent
from app.train.words import ERROR, STATES, ago, duration, mib, size
from zorba_core.errors import ZorbaError
from zorba_core.memory import GIB, Workload, psi_client_bytes
from zorba_core.models import model_spec
from zorba_core.plots import progress_figure
from zorba_core.runs import ENVIRONMENT, TRAJECTORY, Request, read_request
from zorba_core.training.model_source import resolve_model

EVERY_SECONDS = 2.0


def panel(runs_folder: Path, job: Job) -> None:
    """The job, looked at again every two seconds while it goes on."""
    alive = jobs.state_of(runs_folder, job).alive
    st.fragment(_look, run_every=EVERY_SECONDS if alive else None)(runs_folder, job, alive)


def _look(runs_folder: Path, job: Job, was_alive: bool) -> None:
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
        st.markdown(f"##### {components.plain(job.title)}", width="stretch")
        st.badge(word, color=color, icon=icon)
        if state.alive:
            again = state.name == "stopping"
            st.button(
                "Stop at once" if again else "Stop",
                key=f"stop_{job.id}",
                icon=":material/stop_circle:",
                on_click=processes.stop,
                args=(runs_folder, job),
                help="Loses the round at hand, keeps all before it."
                if again
                else "As Ctrl-C: finishes the round at hand and keeps everything. Resume goes on to the same bits.",
            )
        elif state.resumable:
            st.button(
                "Resume",
                key=f"resume_{job.id}",
                type="primary",
                icon=":material/play_arrow:",
                on_click=resume,
                args=(runs_folder, state.run, job.rounds, job.title),
                help="`zorba resume`: goes on after the last whole round, to the weights of an uninterrupted run.",
            )
        if state.run is not None and not state.alive:
            st.page_link(
                "views/runs.py",
                label="Open in Runs",
                icon=":material/show_chart:",
                query_params={"runs": state.run.name},
            )
    if state.reason:
        title = "The run was refused, before its first round" if state.name == "refused" else "The run failed"
        components.problem(title, f"{state.reason[:1].upper()}{state.reason[1:]}")


def resume(runs_folder: Path, run: Path, rounds: int, title: str) -> None:
    """Take a run up again (a button's callback)."""
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
            "The process ended without a word before its first round",
            "The machine may have run out of memory, or someone ended it. Try a smaller batch or model.",
        )


def _running(job: Job, state: State, request: Request) -> None:
    log = _log(state.run)
    config = request.config
    asked = int(config.get("rounds") or job.rounds)
    done = min(log.rounds_done, asked)
    left = log.seconds_left(asked, *_evaluation_cost(log, state.run, config)) if state.name == "running" else None
    words = f"Round {done} of {asked}"
    if left is not None and done < asked:
        words += f" · about {duration(left)} left"
    elif state.name == "running" and not done:
        words += " · evaluating the model before fine-tuning"
    st.progress(done / asked if asked else 0.0, words)
    components.numbers(_numbers(job, state, request, log))
    _curves(log, config, asked)


def _numbers(job: Job, state: State, request: Request, log: LiveLog) -> list[Number]:
    numbers = []
    if log.evaluations:
        first, last = log.evaluations[0], log.evaluations[-1]
        numbers.append(
            Number(
                "Accuracy",
                f"{last.accuracy:.1%}",
                "On rows that no client trains on, at the last evaluation.",
                f"started at {first.accuracy:.1%}",
            )
        )
        numbers.append(
            Number("Loss", f"{last.loss:.3f}", "Cross-entropy on the same rows.", f"started at {first.loss:.3f}")
        )
    if log.rounds:
        last_round = log.rounds[-1]
        numbers.append(
            Number(
                "Seconds a round",
                f"{last_round.seconds / last_round.round:.2g}",
                "Mean over the rounds done; evaluations are not counted.",
                f"{last_round.forward_passes:,} forward passes",
            )
        )
        numbers.append(
            Number(
                "Sent",
                _sent(request, last_round),
                "Both ways, all clients together, as messages on the wire.",
                f"{last_round.scalars_up:,} numbers up",
            )
        )
    vram = _vram(state.run, request)
    if vram is not None:
        numbers.append(
            Number(
                "VRAM by the model",
                f"{vram[0]:.2g} GiB",
                "What all clients would need together, by the paper's VRAM model, for this batch and length.",
                f"largest client {vram[1]:.2g} GiB",
            )
        )
    held = resident_bytes(job.pid) if state.alive else None
    if held is not None:
        numbers.append(
            Number(
                "Memory, measured",
                mib(held),
                "Of the process now: it plays all clients, Python and its libraries included.",
                "the process, all included",
            )
        )
    elif (grown := _measured_at_the_end(state.run)) is not None:
        numbers.append(
            Number(
                "Memory, measured",
                mib(grown),
                "How far the process, which plays all clients, grew above the loaded model at most.",
                "above the loaded model",
            )
        )
    return numbers


def _sent(request: Request, last: Round) -> str:
    numbers = np.array([last.scalars_up + last.scalars_down], np.float64)
    rounds = np.array([last.round], np.float64)
    sent = float(bytes_sent(request.config, request.allocation, rounds, reports=None, numbers=numbers)[0])
    return f"{numbers[0]:,.0f} numbers" if np.isnan(sent) else size(sent)


def _measured_at_the_end(run: Path) -> float | None:
    found: Any = jobs.summary_of(run) or {}
    for key in ("memory", "measured", "bytes"):
        found = found.get(key) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else None


def _curves(log: LiveLog, config: dict[str, Any], asked: int) -> None:
    if not log.evaluations:
        return
    target = config.get("target")
    shared = {"rounds_asked": asked, "resumed_after": log.resumed_after, "palette": components.palette()}
    evaluated = [judged.round for judged in log.evaluations]
    left, right = st.columns(2, gap="medium")
    with left:
        components.figure(
            progress_figure(
                (evaluated, [judged.accuracy for judged in log.evaluations]),
                title="Accuracy",
                share=True,
                target=target if isinstance(target, float) else None,
                **shared,
            ),
            key="live_accuracy",
            name="zorba-accuracy",
            alt=f"Accuracy after {log.rounds_done} of {asked} rounds: from {log.evaluations[0].accuracy:.1%} to "
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
            alt=f"Loss after {log.rounds_done} of {asked} rounds: from {log.evaluations[0].loss:.3f} to "
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


def _evaluation_cost(log: LiveLog, run: Path, config: dict[str, Any]) -> tuple[float, int]:
    """(seconds of an evaluation, rounds between two), as far as this process' first stretch tells."""
    every = max(1, int(config.get("eval_every") or 1))
    if log.resumed_after or not log.rounds or not log.evaluations:
        return 0.0, every
    try:
        began = (run / ENVIRONMENT).stat().st_mtime
        latest = (run / TRAJECTORY).stat().st_mtime
    except OSError:
        return 0.0, every
    return max(0.0, latest - began - log.rounds[-1].seconds) / len(log.evaluations), every


def _vram(run: Path, request: Request) -> tuple[float, float] | None:
    """GiB of all clients and of the largest, by the paper's model; None for a model whose size is not known here."""
    config = request.config
    known = st.session_state.setdefault("live_vram", {})
    if str(run) not in known:
        try:
            spec = model_spec(resolve_model(str(config["model"])))
            workload = Workload(int(config["batch_size"]), int(config["seq_len"]), str(config.get("dtype", "float32")))
            bytes_N = psi_client_bytes(spec, workload, request.allocation.blocks_held_N)
            known[str(run)] = (float(bytes_N.sum()) / GIB, float(bytes_N.max()) / GIB)
        except (ZorbaError, KeyError, TypeError, ValueError):
            known[str(run)] = None
    return known[str(run)]
