"""My fleet: my cards, my model, my data; one answer; rehearse it here; deploy it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.screens.start import answer, cards, data, deploy, rehearse
from app.screens.start import model as models
from app.shared import components, state
from app.shared.folders import runs_folder
from app.shared.scenario_fields import MAX_ROWS
from zorba_core.data.inventory import CardKind, fleet_of_cards
from zorba_core.planning.models import PRESETS
from zorba_core.runs.rehearsal import MOST_BLOCKS, rehearsal_name

_TO_TRADEOFF = (
    "The same fleet by the paper's model of VRAM, in which no card streams. Relative speeds stay here: there all cards "
    "are as fast as the machine that plans."
)


def page() -> None:
    st.title("Can my cards train this model?", anchor=False)
    # On a narrow screen the boxes stand above each other; the answer follows them.
    first, second, third = st.columns([0.4, 0.33, 0.27], gap="small")
    with first.container(border=True, height="stretch"):
        kinds = cards.ask()
    with second.container(border=True, height="stretch"):
        model = models.ask()
        load = models.load()
    with third.container(border=True, height="stretch"):
        rows = data.ask()
        answer.how_to_plan()
    if kinds is None or model is None:
        return
    taking = answer.chosen_kinds(kinds)
    if not taking:
        st.info("Every kind of card is left out.", icon=":material/person_off:")
        answer.take_back(kinds)
        return
    answered = answer.solve(taking, model, load)
    result = st.container()
    blocks = answered.shape.num_blocks
    chosen = data.task_of(rows, runs_folder(), rehearsal_name(min(blocks, MOST_BLOCKS)))
    with result:
        answer.headline(answered, model)
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            rehearse.button(
                answered,
                None if chosen is None else rehearse.rehearsal(answered, model, chosen, runs_folder()),
                chosen,
                runs_folder(),
            )
            deploy.section(taking, answered, model, chosen)
            _other_pages(taking, model, load)
        answer.ways_out(kinds, answered, model)
        answer.table(taking, answered)
    st.caption(
        f"*Counted*: from the order of the engine's work and the messages' layout. *Measured*: rates of "
        f"{_rates()}; rehearsals of this project's experiments."
    )


def _rates() -> str:
    from app.shared.engine_costs import whose_rates

    return whose_rates()


def _other_pages(kinds: list[CardKind], model: models.ChosenModel, load) -> None:
    """The same fleet on the pages of the paper's trade-off, which plan with the presets."""
    if model.source not in PRESETS or sum(card.count for card in kinds) > MAX_ROWS:
        return
    if st.button("Explore the trade-off", icon=":material/scatter_plot:", help=_TO_TRADEOFF):
        fleet = fleet_of_cards(kinds)
        rows = tuple(zip(fleet.names, fleet.capacity_N_gib.round(4).tolist(), strict=True))
        state.apply(
            replace(
                state.current(),
                fleet_kind="table",
                table=rows,
                model=model.source,
                batch_size=load.batch_size,
                seq_len=load.seq_len,
                dtype=load.dtype,
                leave_out_small=True,
            )
        )
        components.switch_page("screens/tradeoff/tradeoff.py")


page()
