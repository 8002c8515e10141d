"""The numbers of a run in progress: learning, pace, bytes, VRAM by the model, memory as measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app.screens.train import jobs
from app.screens.train.jobs import Job, State
from app.screens.train.process_identity import resident_bytes
from app.screens.train.run_log import LiveLog, Round
from app.screens.train.words import mib, size
from app.shared.components import Number, capitalised
from zorba_core.errors import ZorbaError
from zorba_core.runs import ENVIRONMENT, TRAJECTORY, Request
from zorba_core.runs.models import resolve_model
from zorba_core.study.comparison import metric_of
from zorba_core.study.comparison.sent import bytes_sent
from zorba_core.vram import GIB, Workload, model_spec, psi_client_bytes


def numbers(job: Job, state: State, request: Request, log: LiveLog) -> list[Number]:
    """The headline numbers of a run, those that are known so far."""
    shown = []
    if log.evaluations:
        first, last = log.evaluations[0], log.evaluations[-1]
        shown.append(
            Number(
                capitalised(metric_of(request)),
                f"{last.accuracy:.1%}",
                "On rows that no client trains on, at the last evaluation.",
                f"started at {first.accuracy:.1%}",
            )
        )
        shown.append(
            Number("Loss", f"{last.loss:.3f}", "Cross-entropy on the same rows.", f"started at {first.loss:.3f}")
        )
    if log.rounds:
        last_round = log.rounds[-1]
        shown.append(
            Number(
                "Seconds a round",
                f"{last_round.seconds / last_round.round:.2g}",
                "Mean over the rounds done; evaluations are not counted.",
                f"{last_round.forward_passes:,} forward passes",
            )
        )
        shown.append(
            Number(
                "Sent",
                _sent(request, last_round),
                "Both ways, all clients together, as messages on the wire.",
                f"{last_round.scalars_up:,} numbers up",
            )
        )
    vram = _vram(state.run, request)
    if vram is not None:
        shown.append(
            Number(
                "VRAM by the paper's model",
                f"{vram[0]:.2g} GiB",
                "What all clients would need together, by the paper's VRAM model, for this batch and length.",
                f"largest client {vram[1]:.2g} GiB",
            )
        )
    resident = resident_bytes(job.pid) if state.alive else None
    if resident is not None:
        shown.append(
            Number(
                "Memory now, measured",
                mib(resident),
                "Of the process now: it plays all clients, Python and its libraries included.",
                "with Python and libraries",
            )
        )
    elif (grown := measured_bytes(jobs.summary_of(state.run))) is not None:
        shown.append(
            Number(
                "Memory above the model, measured",
                mib(grown),
                "How far the process, which plays all clients, grew above the loaded model at most.",
                "at most, in all rounds",
            )
        )
    return shown


def evaluation_cost(log: LiveLog, run: Path, config: dict[str, Any]) -> tuple[float, int]:
    """(seconds of an evaluation, rounds between two), measured in this process' first rounds."""
    every = max(1, int(config.get("eval_every") or 1))
    if log.resumed_after or not log.rounds or not log.evaluations:
        return 0.0, every
    try:
        began = (run / ENVIRONMENT).stat().st_mtime
        latest = (run / TRAJECTORY).stat().st_mtime
    except OSError:
        return 0.0, every
    return max(0.0, latest - began - log.rounds[-1].seconds) / len(log.evaluations), every


def _sent(request: Request, last: Round) -> str:
    numbers = np.array([last.scalars_up + last.scalars_down], np.float64)
    rounds = np.array([last.round], np.float64)
    sent = float(bytes_sent(request.config, request.allocation, rounds, reports=None, numbers=numbers)[0])
    return f"{numbers[0]:,.0f} numbers" if np.isnan(sent) else size(sent)


def measured_bytes(summary: Any) -> float | None:
    """How far the process, which plays all clients, grew above the model at most, by a run's summary."""
    for key in ("memory", "measured", "bytes"):
        summary = summary.get(key) if isinstance(summary, dict) else None
    return float(summary) if isinstance(summary, int | float) else None


def _vram(run: Path, request: Request) -> tuple[float, float] | None:
    """GiB of all clients and of the largest, by the paper's model; None for a model whose size is not known here."""
    config = request.config
    known = st.session_state.setdefault("live_vram", {})
    if str(run) not in known:
        try:
            spec = model_spec(resolve_model(str(config["model"])))
            workload = Workload(
                batch_size=int(config["batch_size"]),
                seq_len=int(config["seq_len"]),
                dtype=str(config.get("dtype", "float32")),
            )
            bytes_N = psi_client_bytes(spec, workload, request.allocation.blocks_held_N)
            known[str(run)] = (float(bytes_N.sum()) / GIB, float(bytes_N.max()) / GIB)
        except (ZorbaError, KeyError, TypeError, ValueError):
            known[str(run)] = None
    return known[str(run)]
