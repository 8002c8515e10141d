"""What was measured of a run's gradients (``--diagnostics``): who learns what, and how far V and E hold."""

from __future__ import annotations

import streamlit as st

from app.shared import components
from app.shared.escape import as_code
from zorba_core.allocation.measures import coupled_noise
from zorba_core.errors import ZorbaError
from zorba_core.plots import client_order, gradients_figure, measures_figure
from zorba_core.runs.diagnostics import measured_rounds, read_measured_of
from zorba_core.study.comparison import Record


def draw(record: Record) -> None:
    """Nothing for a run that did not measure."""
    allocation, title = record.allocation, "##### What the gradients were"
    if record.path is None or allocation is None:
        return
    done = int(record.metrics["round"].max()) if len(record.metrics) else 0
    try:
        measured = read_measured_of(
            record.path, record.config, record.summary, done, allocation.num_blocks, allocation.num_clients
        )
    except ZorbaError as error:
        st.markdown(title)
        st.warning(components.plain(f"{error}"), icon=":material/broken_image:")
        return
    if not measured:
        return
    st.markdown(title)
    every = record.config.get("diagnostics")
    lost = set(measured_rounds(every, measured[-1].round)) - {row.round for row in measured} if every else set()
    if lost:
        st.caption(
            f"Asked for after every {every} rounds. {len(lost)} of these measurements are lost, the first after "
            f"{min(lost)} rounds."
        )
    by_round = {row.round: row for row in measured}
    chosen = max(by_round)
    if len(by_round) > 1:
        chosen = st.select_slider(
            "After so many rounds", list(by_round), value=chosen, key=f"measured_{record.name}", width=420
        )
    shown = by_round[chosen]
    components.figure(
        gradients_figure(
            shown,
            order_N=client_order(allocation.A_MN, allocation.blocks_held_N, "blocks"),
            palette=components.palette(),
        ),
        key="run_gradients",
        name=f"{record.name}-gradients",
        alt=f"Norm of each client's gradient of each block after {chosen} rounds; the block with most of the energy is "
        f"block {int(shown.energy_M.argmax())}.",
    )
    st.caption(
        "Measured by a backward pass, which only a simulation has, on the rows of the round to come. Bars: share of "
        "the energy $G_m$, the squared mean gradient, which is what training can use. Diamonds: share of the noise "
        "$s_m^2$, which it has to average away."
    )
    v, e = allocation.mean_inverse_popularity, coupled_noise(allocation.A_MN)
    if len(by_round) > 1:
        components.figure(
            measures_figure(measured, v=v, e=e, palette=components.palette()),
            key="run_measures",
            name=f"{record.name}-v-and-e",
            alt=f"V and E as measured over rounds; the formulas say {v:.3g} and {e:.3g}.",
        )
    st.caption(
        f"V measured {shown.v:.3f}, by its formula {v:.3f}; E measured {shown.e:.3f}, by its formula {e:.3f} (dashed). "
        "The formulas hold where noise is independent and equal in all blocks. In Python: "
        f"{as_code('zorba_core.runs.read_run(folder).diagnostics')}."
    )
