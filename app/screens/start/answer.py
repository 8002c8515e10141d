"""The answer: who takes part, memory, seconds, bytes and loss, each with where the number comes from.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.screens.start.model import ChosenModel
from app.screens.train.words import size
from app.shared import components, engine_costs
from app.shared.components import Number
from app.shared.folders import experiments_folder
from app.shared.links import choice, choose, keep, linked, linked_switch, several, switched
from zorba_core.data.inventory import CardKind, fleet_of_cards
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.memory import GIB
from zorba_core.runs.fleet_answer import BY_ENGINE, BY_PAPER, FleetAnswer, answer, remedies
from zorba_core.runs.fleet_plan import ClientPlan, alike
from zorba_core.study.expected_loss import LossDifference, rehearsed

MOST_CARDS = 5_000
OUT, STREAMS, BUDGETS = "my_out", "my_streams", "my_budgets"
_BUDGETS = {BY_PAPER: "by the paper", BY_ENGINE: "all"}
_SLOW = 1.3  # leaving a kind out is offered where a round is then shorter by this factor
_SETTINGS = {"batch_size": ("my_batch", "Batch"), "seq_len": ("my_length", "Length"), "dtype": ("my_dtype", "Weights")}


def chosen_kinds(kinds: Sequence[CardKind]) -> list[CardKind]:
    """The kinds that the reader has not left out."""
    out = several(OUT, [card.kind for card in kinds], [])
    return [card for card in kinds if card.kind not in out]


@st.cache_data(max_entries=64, show_spinner=False)
def _solved(
    kinds: tuple[CardKind, ...], _model: ChosenModel, source: str, load: Load, budgets_by: str, streams: bool
) -> FleetAnswer:
    del source  # part of the cache's key: the model itself is not hashed
    return answer(
        fleet_of_cards(kinds),
        _model.spec,
        _model.shape,
        load,
        engine_costs.calibration(),
        budgets_by=budgets_by,
        streams=streams,
    )


def solve(kinds: Sequence[CardKind], model: ChosenModel, load: Load) -> FleetAnswer:
    """
    Raises:
        InvalidInputError: more cards than a page plans.
    """
    count = sum(card.count for card in kinds)
    if count > MOST_CARDS:
        raise InvalidInputError(
            f"{count:,} cards; this page plans up to {MOST_CARDS:,}, `zorba plan --fleet FILE` as many as you like"
        )
    key = f"{model.source}|{model.shape}"
    return _solved(tuple(kinds), model, key, load, _budgets_by(), _streams())


def _budgets_by() -> str:
    return choice(BUDGETS, list(_BUDGETS))


def _streams() -> bool:
    return switched(STREAMS, True)


def headline(answered: FleetAnswer, model: ChosenModel) -> None:
    """One sentence, then numbers."""
    able, everyone = len(answered.able), len(answered.plans)
    modes = [plan.mode for plan in answered.plans]
    held, streamed, out = (modes.count(mode) for mode in ("in-memory", "streamed", "cannot"))
    parts = []
    if held:
        parts.append(f"{held} hold{'s' if held == 1 else ''} {components.plain(model.title)} in memory")
    if streamed:
        parts.append(f"{streamed} read{'s' if streamed == 1 else ''} it block by block")
    if out:
        parts.append(f"{out} {'is' if out == 1 else 'are'} too small")
    st.markdown(f"## {able} of {everyone} cards can train {components.plain(model.title)}")
    st.markdown(components.sentence(", ".join(parts)))
    if answered.allocation is not None:
        components.numbers(_numbers(answered))


def _numbers(answered: FleetAnswer) -> list[Number]:
    able, slowest, sent = answered.able, answered.slowest, answered.sent
    peaks = [plan.peak.peak / GIB for plan in able]
    shown = [
        Number(
            "Seconds a round",
            f"{answered.seconds:.3g} s",
            f"Of the slowest card, for whom all wait: most of it goes to {slowest.seconds.slowest_part}. Counted work "
            f"at rates of {engine_costs.whose_rates()}, times each card's relative speed: a GPU is faster than that "
            "CPU, so give its speed (`~ 20`) to have its seconds. Predicted rounds took 0.7 to 1.2 times as long when "
            "measured.",
            _waits_for(answered),
        ),
        Number(
            "Memory of a card",
            f"{max(peaks):.2f} GiB",
            "Counted from the order of the engine's work, within 10 % of measured peaks; of tensors alone, without the "
            "process itself.",
            f"counted; at least {min(peaks):.2f}",
        ),
        Number(
            "Sent a round",
            size(sent.total("wire_bytes")),
            "Counted from the messages' own layout, all clients together, both ways. Numbers and block ids; no weight "
            "ever leaves a client.",
            f"counted; {size(sent.total('wire_bytes') / len(able))} a card",
        ),
    ]
    loss = loss_difference(answered)
    if loss is not None:
        shown.append(
            Number(
                "Loss, against every block",
                f"{loss.mean:+.3f}",
                f"How much higher the loss ended than with every client training everything: the mean of the "
                f"{loss.num_runs} stored rehearsals ({loss.about}) whose V, {loss.v_low:.3f} to {loss.v_high:.3f}, is "
                f"nearest to this plan's {answered.allocation.mean_inverse_popularity:.3f}; four fifths of them lie "
                f"between the two numbers below. Training everything lowered it by {loss.learned:.2f}. Evidence about "
                "that model, not a promise about another: rehearse.",
                f"measured; {loss.low:+.3f} to {loss.high:+.3f}",
            )
        )
    return shown


def _waits_for(answered: FleetAnswer) -> str:
    """Whom a round waits for; cards of one duration whose speeds nobody has given are not told apart."""
    if alike(answered.able) and all(plan.relative_speed == 1 for plan in answered.able):
        return "no speeds given: as one CPU"
    return f"waits for {components.plain(answered.slowest.client[:40])}"


def loss_difference(answered: FleetAnswer) -> LossDifference | None:
    """None where every client trains everything, and where nothing was rehearsed."""
    if answered.allocation is None or answered.allocation.A_MN.all():
        return None
    try:
        return rehearsed(experiments_folder()).at(answered.allocation.mean_inverse_popularity)
    except MissingDataError:
        return None


def by_kind(kinds: Sequence[CardKind], answered: FleetAnswer) -> list[list[ClientPlan]]:
    """The plans of each kind's cards, in order."""
    ends = np.cumsum([card.count for card in kinds])
    return [list(answered.plans[end - card.count : end]) for card, end in zip(kinds, ends, strict=True)]


def table(kinds: Sequence[CardKind], answered: FleetAnswer) -> None:
    """A row for each kind of card."""
    num_blocks = answered.shape.num_blocks
    rows = []
    for card, plans in zip(kinds, by_kind(kinds, answered), strict=True):
        plan = max(plans, key=lambda plan: plan.seconds_per_round or 0)
        active = [one.active_blocks for one in plans]
        trains = (
            "" if not plan.fits else str(max(active)) if min(active) == max(active) else f"{min(active)}–{max(active)}"
        )
        holds = {
            "in-memory": "in memory",
            "streamed": f"block by block, {plan.resident_blocks} of {num_blocks} kept",
            "cannot": "stays out",
        }[plan.mode]
        rows.append(
            {
                "kind": card.kind,
                "count": card.count,
                "gib": card.gib,
                "holds": holds,
                "needs": plan.peak.peak / GIB,
                "trains": trains,
                "seconds": np.nan if plan.seconds_per_round is None else plan.seconds_per_round,
                "would": plan.would_fit,
            }
        )
    left_out = any(row["would"] for row in rows)
    st.dataframe(
        pd.DataFrame(rows if left_out else [{k: v for k, v in row.items() if k != "would"} for row in rows]),
        hide_index=True,
        width="stretch",
        column_config={
            "kind": st.column_config.TextColumn("Card", width="medium"),
            "count": st.column_config.NumberColumn("Cards", format="%d", width="small"),
            "gib": st.column_config.NumberColumn("Has (GiB)", format="%.2f", width="small"),
            "holds": st.column_config.TextColumn("Holds the model", width="medium"),
            "needs": st.column_config.NumberColumn("Needs (GiB), counted", format="%.2f"),
            "trains": st.column_config.TextColumn(f"Blocks it trains, of {num_blocks}"),
            "seconds": st.column_config.NumberColumn("Seconds a round, measured rates", format="%.3g"),
            "would": st.column_config.TextColumn("Would take part with", width="large"),
        },
        alt="A row for each kind of card: how many, their memory, how they hold the model, what that needs, how many "
        "blocks they train and the seconds of a round.",
    )


def ways_out(kinds: Sequence[CardKind], answered: FleetAnswer, model: ChosenModel) -> None:
    """Remedies as buttons: for cards that stay out, and for a kind for which all others wait."""
    out = several(OUT, [card.kind for card in kinds], [])
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for remedy in remedies(answered, _streams()):
            key, label = _SETTINGS[remedy.setting]
            value = "16 bits" if remedy.setting == "dtype" else str(remedy.value)
            st.button(
                f"{label} {value}: {remedy.brings_in} more, {remedy.gib:.2f} GiB",
                key=f"remedy_{remedy.setting}",
                on_click=choose,
                args=(key, remedy.value),
                icon=":material/healing:",
                help="What the smallest way to take part then needs, counted.",
            )
        slow = _slow_kind(kinds, answered, model)
        if slow is not None:
            card, seconds, times = slow
            st.button(
                f"Leave out {components.plain(card.kind)} ({card.count}): {times:.1f} times as fast",
                key="remedy_slow",
                on_click=choose,
                args=(OUT, [*out, card.kind]),
                icon=":material/person_remove:",
                help=f"A round then takes {seconds:.3g} s.",
            )
        take_back(kinds)


def take_back(kinds: Sequence[CardKind]) -> None:
    """The way back from kinds that were left out; the address keeps them."""
    out = several(OUT, [card.kind for card in kinds], [])
    keep(OUT, ",".join(out) or None)
    if out:
        st.button(
            f"Take back {components.plain(', '.join(out)[:60])}",
            key="remedy_back",
            on_click=choose,
            args=(OUT, []),
            icon=":material/undo:",
        )


def _slow_kind(
    kinds: Sequence[CardKind], answered: FleetAnswer, model: ChosenModel
) -> tuple[CardKind, float, float] | None:
    """The kind for which a round waits, where the others would be much faster without it."""
    kinds = chosen_kinds(kinds)
    slowest = answered.slowest
    if slowest is None or len(kinds) < 2:
        return None
    for card, plans in zip(kinds, by_kind(kinds, answered), strict=True):
        if any(plan.client == slowest.client for plan in plans):
            rest = solve([other for other in kinds if other is not card], model, answered.load)
            if rest.seconds is not None and answered.seconds / rest.seconds >= _SLOW:
                return card, rest.seconds, answered.seconds / rest.seconds
    return None


def how_to_plan() -> None:
    """What a card activates, and whether it may stream."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        linked(
            st.segmented_control,
            "Blocks a card trains",
            _BUDGETS,
            key=BUDGETS,
            required=True,
            help="The paper's model of VRAM charges activations for every block that a card trains. Forward passes "
            "keep none of them, so a card that holds the model may train every block: that costs seconds, not memory.",
        )
        linked_switch(
            "Small cards may stream",
            True,
            key=STREAMS,
            help="Streaming: a card with too little memory keeps the model in its files and reads each block when "
            "it is its turn.",
        )
