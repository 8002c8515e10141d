"""Under the plot: the front as a table in step with it, files, all measures at once, and a look at the matrix.

Shapes: M blocks, N clients, F points of a front.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.shared import components, files, selection
from app.shared.components import Download, as_pdf
from app.shared.links import linked_switch
from app.shared.study import Study
from app.shared.tradeoff import AXES, MEASURES, View
from zorba_core.allocation import MEASURES as EVERY_MEASURE
from zorba_core.allocation import Solution
from zorba_core.plots import client_order, matrix_picture, parallel_figure

_PREVIEW_CLIENTS = 400  # more columns than this are thinner than a pixel


def front_table(view: View, point: int, drawn: go.Figure) -> None:
    """The front, cheapest first; a row selects its point, by mouse or by keyboard."""
    study, rows = view.study, view.order_F
    st.markdown("## The front, point by point")
    st.dataframe(
        _table(view),
        **selection.table_arguments(point, rows),
        on_select="rerun",
        selection_mode="single-row",
        hide_index=True,
        width="stretch",
        height=300,
        column_config={
            "VRAM": st.column_config.NumberColumn(format="percent", help="Share of all VRAM in use"),
            "GiB": st.column_config.NumberColumn(format="%.1f", help="VRAM in use, all clients together"),
            "blocks": _column("total_blocks"),
            "min": _column("min_popularity"),
            **{MEASURES[name].symbol: _column(name) for name in AXES},
        },
        alt="The points of the front, least VRAM first. Select a row to select the point.",
    )
    where = np.flatnonzero(rows == point)
    st.caption(
        f"{len(rows)} points, least VRAM first; "
        + (f"row {where[0] + 1} is selected." if where.size else "the selected point is not one of them.")
        + " Arrow keys move, Space selects."
    )
    name = f"zorba-points-{study.scenario.model}"
    components.downloads(
        [
            Download(
                f"All {len(study.front)} points",
                f"{name}.csv",
                lambda: files.points_csv(study),
                "Every swept point as CSV, the front marked.",
            ),
            Download(
                "Fleet",
                "fleet.csv",
                lambda: study.fleet.to_frame().to_csv(index=False).encode(),
                "Client names and VRAM; the Fleet page and `zorba --fleet` read it back.",
            ),
            *as_pdf(lambda: drawn, "zorba-trade-off"),
        ],
        key="front_files",
    )
    if linked_switch("All measures at once", False, key="parallel", help="A line for each point of the front."):
        _parallel(view, point)


def _column(name: str) -> st.column_config.NumberColumn:
    measure = EVERY_MEASURE[name]
    form = "%d" if measure.format.endswith(".0f") else f"%{measure.format}"
    return st.column_config.NumberColumn(format=form, help=f"{measure.title}: {measure.help}")


def preview(study: Study, solution: Solution) -> None:
    """Who trains what at the selected point, small, with the way to the whole picture."""
    allocation = solution.allocation
    A_MN = allocation.A_MN
    order_N = client_order(A_MN, study.fleet.capacity_N_gib, "vram")
    st.markdown("## Who trains what there")
    st.image(
        matrix_picture(A_MN[:, order_N][:, :_PREVIEW_CLIENTS], palette=components.palette()),
        width="stretch",
        output_format="PNG",
        alt=f"The activation matrix: {allocation.num_blocks} blocks by {allocation.num_clients} clients, each block "
        f"trained by {allocation.min_popularity} to {int(allocation.popularity_M.max())} of them.",
    )
    st.caption(f"Rows are blocks, columns are clients, largest VRAM first. {_in_words(solution)}")
    st.page_link(
        "screens/allocation/allocation.py",
        label="See it large, change it by hand",
        icon=":material/grid_on:",
        width="stretch",
    )
    name = f"zorba-allocation-{study.scenario.model}"
    components.downloads(
        [
            Download(
                "Allocation (JSON)",
                f"{name}.json",
                lambda: files.allocation_json(study, solution),
                "Block ids of each client, with the metrics and the scenario.",
            ),
            Download(
                "Matrix (NPZ)",
                f"{name}.npz",
                lambda: files.allocation_npz(study, solution),
                "NumPy arrays: A_MN (blocks by clients), budget_N, capacity_N_bytes.",
            ),
        ],
        key="allocation_files",
    )


def _table(view: View) -> pd.DataFrame:
    front, rows = view.study.front, view.order_F
    table = {
        "VRAM": front.vram_ratio_E[rows],
        "GiB": front.vram_ratio_E[rows] * view.study.capacity_gib,
        "blocks": front.total_blocks_E[rows],
        "Λ": front.bias_lambda_E[rows],
        "V": front.mean_inverse_popularity_E[rows],
        "min": front.min_popularity_E[rows],
        "N_eff": front.effective_clients_E[rows],
    }
    return pd.DataFrame(table)


def _parallel(view: View, point: int) -> None:
    front, rows = view.study.front, view.order_F
    columns = {
        "VRAM (GiB)": front.vram_ratio_E[rows] * view.study.capacity_gib,
        "Λ": front.bias_lambda_E[rows],
        "V": front.mean_inverse_popularity_E[rows],
        "least trained": front.min_popularity_E[rows],
        "effective clients": front.effective_clients_E[rows],
    }
    where = np.flatnonzero(rows == point)
    components.figure(
        parallel_figure(columns, selected=int(where[0]) if where.size else None, palette=components.palette()),
        key="parallel_plot",
        name="zorba-measures",
        alt=f"Parallel coordinates of the {len(rows)} points of the front over {len(columns)} measures; "
        f"{MEASURES[view.measure].label} and the others are in the table above.",
    )
    st.caption("Drag along an axis to keep only the points within; the selected point is the marked line.")


def _in_words(solution: Solution) -> str:
    allocation = solution.allocation
    least, most = allocation.min_popularity, int(allocation.popularity_M.max())
    held_N = allocation.blocks_held_N
    spread = f"exactly {least}" if least == most else f"{least} to {most}"
    held = f"{held_N.min()}" if held_N.min() == held_N.max() else f"{held_N.min()} to {held_N.max()}"
    bound = (
        "Proven optimal for Λ."
        if solution.optimal
        else f"No other matrix within these budgets has Λ below {solution.lower_bound:.3g}."
    )
    return f"Each block is trained by {spread} clients, each client trains {held}. {bound}"
