"""Rehearse the plan here: the same blocks on a small model with as many of them, a few minutes, in its own process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.screens.start.data import ChosenData
from app.screens.start.model import ChosenModel
from app.screens.train.processes import room_for_one_more, start_training
from app.screens.train.words import ERROR, duration
from app.shared import components, run_seconds
from zorba_core.allocation import Allocation
from zorba_core.errors import ZorbaError
from zorba_core.planning.engine_memory import Load
from zorba_core.runs.fleet_answer import FleetAnswer, sample_of_plan
from zorba_core.runs.rehearsal import MOST_BLOCKS, rehearsal_name
from zorba_core.runs.run_estimate import RunEstimate

MOST_CLIENTS = 24
SECONDS = 110.0  # that a rehearsal may take
MOST_ROUNDS, LEAST_ROUNDS = 60, 10
MOST_LENGTH = 64  # positions of the small model
_EVALUATIONS = 6
NOBODY = "No card can take part"


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A run of ``zorba train`` that stands for the plan."""

    allocation: Allocation
    options: dict[str, Any]
    estimate: RunEstimate
    title: str
    sampled: bool


def rehearsal(answered: FleetAnswer, model: ChosenModel, data: ChosenData, runs_folder: Path) -> Rehearsal | None:
    """None where nobody can take part, or the model has more blocks than a rehearsal model."""
    if answered.allocation is None or answered.shape.num_blocks > MOST_BLOCKS:
        return None
    A_MN = _columns(answered, data.num_clients)
    name = rehearsal_name(answered.shape.num_blocks)
    load: Load = answered.load
    options: dict[str, Any] = {
        "method": "zorba",
        "model": name,
        **data.options,
        "batch_size": min(load.batch_size, 32),
        "seq_len": min(load.seq_len, MOST_LENGTH),
        "perturbations": min(load.num_perturbations, 32),
        "lr": 1e-2,
    }
    once = run_seconds.estimate(name, A_MN, {**options, "rounds": 1, "eval_every": 1}, data.task, runs_folder)
    spare = SECONDS - once.start - once.pace * _EVALUATIONS * once.evaluation
    rounds = int(np.clip(spare / (once.pace * once.round), LEAST_ROUNDS, MOST_ROUNDS))
    rounds -= rounds % 5 if rounds > LEAST_ROUNDS else 0
    options |= {"rounds": rounds, "eval_every": max(1, rounds // _EVALUATIONS)}
    estimate = run_seconds.estimate(name, A_MN, options, data.task, runs_folder)
    return Rehearsal(
        Allocation(A_MN),
        {key: value for key, value in options.items() if value not in (None, "")},
        estimate,
        f"Rehearsal of {model.title}: {data.title}, {A_MN.shape[1]} clients",
        A_MN.shape[1] < len(answered.able),
    )


def _columns(answered: FleetAnswer, num_clients: int | None) -> NDArray[np.bool_]:
    """As many clients as the rows name, where they name any."""
    return sample_of_plan(answered, MOST_CLIENTS if num_clients is None else num_clients)


def button(answered: FleetAnswer, chosen: Rehearsal | None, data: ChosenData | None, runs_folder: Path) -> None:
    """The button with what it will take, or why it cannot be pressed."""
    reason = _why_not(answered, chosen, data, runs_folder)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if st.button(
            "Rehearse here",
            key="start_rehearse",
            type="primary",
            icon=":material/play_arrow:",
            disabled=reason is not None,
            help=reason or "Trains the plan's blocks on a small model with as many blocks, in a process of its own.",
        ):
            _begin(chosen, runs_folder)
        if chosen is not None:
            st.caption(in_words(chosen))
        if reason is not None:
            st.caption(reason)


def _why_not(answered: FleetAnswer, chosen: Rehearsal | None, data: ChosenData | None, runs_folder: Path) -> str | None:
    """Why the rehearsal cannot start; None where it can."""
    if answered.allocation is None:
        return f"{NOBODY}: there is no plan to rehearse."
    if answered.shape.num_blocks > MOST_BLOCKS:
        return f"A rehearsal model has up to {MOST_BLOCKS} blocks, this one {answered.shape.num_blocks}."
    if data is None or chosen is None:
        return "To rehearse, say which rows."
    if data.num_clients not in (None, chosen.allocation.num_clients):
        return f"The rows name {data.num_clients} clients and fewer cards can take part."
    running, most = room_for_one_more(runs_folder)
    if running >= most:
        return f"{running} runs are in progress, one for each core. Stop one, or wait."
    return None


def in_words(chosen: Rehearsal) -> str:
    estimate = chosen.estimate
    sampled = ", drawn from all kinds" if chosen.sampled else ""
    return (
        f"**About {duration(estimate.total)}**: {chosen.options['rounds']} rounds of "
        f"{estimate.pace * estimate.round:.2g} s on {chosen.options['model']}, "
        f"{chosen.allocation.num_clients} clients{sampled}; first accuracy after {duration(estimate.first_accuracy)}."
    )


def _begin(chosen: Rehearsal, runs_folder: Path) -> None:
    try:
        job = start_training(runs_folder, chosen.allocation, chosen.options, title=chosen.title)
    except ZorbaError as error:
        components.problem("This was not started", components.sentence(error))
        return
    st.session_state.pop(ERROR, None)
    components.switch_page("screens/train/train.py", {"job": job.id})
