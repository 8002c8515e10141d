"""The paper's solver as it works: Dinic's matrix, then one block at a time while the sets L and F shrink.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from app.shared import components, selection, state
from app.shared.components import Number
from app.shared.escape import in_figure
from app.shared.guard import guarded
from app.shared.links import choose, keep, linked_number, number
from app.shared.scenario import Scenario
from app.shared.study import Study
from zorba_core.plots import client_order
from zorba_core.plots.greedy import candidate_sets_figure, greedy_figure
from zorba_core.study.greedy_steps import GreedyReplay, replay_greedy

STEP, _PLAYING = "step", "greedy_playing"
_MOST_STEPS = 99_999
L, F, C = r"$\mathcal{L}$", r"$\mathcal{F}$", r"$\mathcal{C}$"
SECONDS_A_STEP = 1.2


@st.cache_resource(max_entries=32, show_spinner="Running Dinic and Algorithm 1 …", show_time=True)
def _replay(scenario: Scenario, point: int) -> GreedyReplay:
    front = state.solved(scenario).front
    return replay_greedy(front.problem(point), seed=front.seed_of(point))


def show(study: Study, point: int) -> None:
    replay = _replay(study.scenario, point)
    st.markdown(
        f"The paper first gives every block **γ\\*** clients, by Dinic's maximum flow. Then Algorithm 1 hands out what "
        f"the budgets still allow. {L} are the blocks still at γ\\*, {F} the clients whose scarcest block is one of "
        f"them; each step takes the block of {L} that holds back most clients of {F} and gives it one more."
    )
    if not replay.steps:
        other = point_with_work(study, point)
        _nothing_to_do(study, other, replay)
        if other is not None:  # an empty stage shows nothing
            replay = _replay(study.scenario, other)
    _player(study, replay)


def _nothing_to_do(study: Study, other: int | None, replay: GreedyReplay) -> None:
    """``other``: a point near by that is shown instead, if there is one."""
    near = "" if other is None else f" Shown is a point near by, at {study.front.vram_ratio_E[other]:.0%} of all VRAM."
    st.info(
        f"Nothing to do at this point: its budgets add up to exactly {replay.gamma_star} clients for each block, so "
        f"Dinic's matrix is the result.{near}",
        icon=":material/check:",
    )
    if other is not None:
        st.button(
            "Select that point on all pages",
            on_click=selection.select,
            args=(study.scenario, other),
            icon=":material/footprint:",
            key="point_with_work",
        )


def point_with_work(study: Study, point: int) -> int | None:
    """The point of the front nearest in VRAM whose budgets leave Algorithm 1 at least half of the blocks to raise."""
    front = study.front
    candidates = [
        other
        for other in np.flatnonzero(front.on_front_E)
        if front.budget_EN[other].sum() % front.num_blocks >= front.num_blocks / 2
    ]
    if not candidates:
        return None
    return int(min(candidates, key=lambda other: abs(front.vram_ratio_E[other] - front.vram_ratio_E[point])))


def _player(study: Study, replay: GreedyReplay) -> None:
    """Buttons, slider and pictures; while it plays, this part alone runs again every second."""
    playing = st.session_state.get(_PLAYING, False)
    st.fragment(guarded(_stage), run_every=SECONDS_A_STEP if playing else None)(study, replay)


def _stage(study: Study, replay: GreedyReplay) -> None:
    last = len(replay.steps)
    step = _where(last)
    if st.session_state.get(_PLAYING):
        if step >= last:
            st.session_state[_PLAYING] = False
            st.rerun()
        step = _go(step + 1)
    if last:
        _controls(step, last)
    else:
        keep(STEP, None)
    st.markdown(f"## {_title(step, last)}\n\n{sentence(replay, step, study.fleet.names)}")
    _numbers(replay, step)
    matrix, sets = st.columns([0.7, 0.3], gap="medium")
    with matrix:
        components.figure(
            greedy_figure(
                replay,
                step,
                names=in_figure(study.fleet.names),
                order_N=client_order(replay.initial_MN, study.fleet.capacity_N_gib, "budget", budget_N=replay.budget_N),
                palette=components.palette(),
            ),
            key="greedy_plot",
            name=f"zorba-algorithm-1-step-{step}",
            alt=f"The matrix after {step} of {last} steps of Algorithm 1. " + sentence(replay, step, study.fleet.names),
        )
        st.caption(f"Clients by budget, largest first. Hatched bars: blocks of {L}, with the gain of each candidate.")
    with sets:
        st.markdown("**How the sets shrink**")
        components.figure(
            candidate_sets_figure(replay, step, palette=components.palette()),
            key="sets_plot",
            name="zorba-algorithm-1-sets",
            alt="Sizes of the sets L and F after every step.",
        )
        st.markdown(_set_text(replay, step))


def _where(last: int) -> int:
    """The step in view: the slider's, else the link's."""
    return _go(min(number(STEP, 0, _MOST_STEPS, 0), last))


def _go(step: int) -> int:
    choose(STEP, step)
    return step


def _stop_at(step: int) -> None:
    """A button's callback: the reader has taken over."""
    st.session_state[_PLAYING] = False
    _go(step)


def _play(on: bool, last: int) -> None:
    st.session_state[_PLAYING] = on
    if on and number(STEP, 0, _MOST_STEPS, 0) >= last:
        _go(0)


def _controls(step: int, last: int) -> None:
    playing = st.session_state.get(_PLAYING, False)

    def jump(label: str, to: int, icon: str) -> None:
        st.button(
            label,
            key=f"step_{label.lower()}",
            icon=f":material/{icon}:",
            on_click=_stop_at,
            args=(to,),
            disabled=min(max(to, 0), last) == step,
        )

    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        jump("First", 0, "first_page")
        jump("Back", step - 1, "chevron_left")
        # The whole page must run again for the clock to start or stop.
        if st.button(
            "Pause" if playing else "Play",
            icon=":material/pause:" if playing else ":material/play_arrow:",
            type="primary",
            key="step_play",
        ):
            _play(not playing, last)
            st.rerun()
        jump("Next", step + 1, "chevron_right")
        jump("Last", last, "last_page")
        linked_number(st.slider, "Steps done", 0, last, 0, key=STEP, width="stretch")


def _title(step: int, last: int) -> str:
    if step == 0:
        return "Before Algorithm 1: Dinic's matrix"
    return f"Step {step} of {last}" + (", the last" if step == last else "")


def sentence(replay: GreedyReplay, step: int, names: Sequence[str]) -> str:
    """What happened in a step (from 1; 0 is Dinic's matrix), in words."""
    num_blocks, num_clients = replay.initial_MN.shape
    if step == 0:
        idle = np.flatnonzero(~replay.initial_MN.any(axis=0))
        unserved = (
            f" Dinic leaves **{idle.size} client{'s' if idle.size > 1 else ''} with no block at all**, which the flow "
            "does not mind; Algorithm 1 will fix it, since only clients with room can take a block."
            if idle.size
            else ""
        )
        spare = int(replay.budget_N.sum()) - replay.gamma_star * num_blocks
        return (
            f"Every block has exactly γ* = {replay.gamma_star} of {num_clients} clients. "
            f"{spare} place{'' if spare == 1 else 's'} are left in the budgets.{unserved}"
        )
    current = replay.steps[step - 1]
    before, after = replay.state(step - 1), replay.state(step)
    takers = replay.takers(step - 1)
    ties = sum(gain == current.gain for gain in before.gains.values()) - 1
    most = (
        f"as many as {ties} other candidate{'s' if ties > 1 else ''} (the first is taken)"
        if ties
        else "more than any other candidate"
    )
    freed = len(before.low_clients) - len(after.low_clients)
    left = (
        f"It was the last bottleneck of {freed} client{'s' if freed > 1 else ''}, who leave{'s' if freed == 1 else ''} "
        f"{F}."
        if freed
        else f"Everyone it held back is held back by another block as well, so nobody leaves {F} yet."
    )
    drawn = (
        "the only client with room that does not have it"
        if takers.size == 1
        else f"drawn from the {takers.size} clients with room that do not have it"
    )
    end = ""
    if step == len(replay.steps):
        why = f"No block of {L} is left that a client with room could take" if after.low_blocks else f"{L} is empty"
        end = f" {why}: this is the paper's allocation."
    return (
        f"**Block {current.block}** holds back {current.gain} client{'' if current.gain == 1 else 's'} of {F}, {most}. "
        f"**{components.plain(names[current.client])}**, {drawn}, takes it: its popularity rises from "
        f"{replay.gamma_star} to {replay.gamma_star + 1}. {left}{end}"
    )


def _numbers(replay: GreedyReplay, step: int) -> None:
    state_now = replay.state(step)
    num_blocks, num_clients = replay.initial_MN.shape
    now = state_now.allocation
    components.numbers(
        [
            Number(
                f"{L}, blocks at γ*",
                f"{len(state_now.low_blocks)}",
                "Blocks that still have exactly γ* clients.",
                f"of {num_blocks}",
            ),
            Number(
                f"{F}, clients at γ*",
                f"{len(state_now.low_clients)}",
                f"Clients whose scarcest block is in {L}: Λ charges each of them $1/\\gamma_*^2$.",
                f"of {num_clients}",
            ),
            Number(
                f"{C}, candidates",
                f"{len(state_now.gains)}",
                f"Blocks of {L} that some client with room could still take.",
                f"of {len(state_now.low_blocks)}",
            ),
            Number(
                "Places left",
                f"{int(state_now.room_N.sum())}",
                "Blocks that the budgets still allow, over all clients.",
                f"of {int(replay.budget_N.sum())}",
            ),
            Number(
                "Λ",
                f"{now.bias_lambda:.4g}" if np.isfinite(now.bias_lambda) else "∞",
                r"$\Lambda = \sum_n 1/\underline{c}_n^2$; infinite while a client has no block.",
                f"V {now.mean_inverse_popularity:.4f}",
            ),
        ]
    )


def _set_text(replay: GreedyReplay, step: int) -> str:
    now = replay.state(step)
    blocks = ", ".join(map(str, now.low_blocks)) or "empty"
    gains = ", ".join(f"{block} ({gain})" for block, gain in now.gains.items()) or "empty"
    return f"{L} = {blocks}\n\n{C} with gains = {gains}"
