"""A matrix made by hand, as files. No Streamlit here.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app.shared.escape import in_figure
from app.shared.files import on_the_fleet
from app.shared.study import Study
from zorba_core.allocation import MEASURES, Allocation, Solution
from zorba_core.files import to_json
from zorba_core.plots import Palette, allocation_figure, client_order


def matrix_json(study: Study, allocation: Allocation) -> bytes:
    """Block ids of each client and every number; `zorba_core.allocation_from_file` reads it back."""
    content = {
        "num_blocks": allocation.num_blocks,
        "num_clients": allocation.num_clients,
        "blocks_per_client": allocation.blocks_per_client,
        "clients": study.fleet.names,
        "popularity": allocation.popularity_M,
        "least_popularity": allocation.least_popularity_N,
        **numbers(allocation),
        **on_the_fleet(study, allocation),
    }
    return to_json(content, indent=1).encode()


def numbers(allocation: Allocation) -> dict[str, float]:
    """Every metric by its name in files."""
    return {name: measure.value(allocation) for name, measure in MEASURES.items()}


def picture(study: Study, allocation: Allocation, palette: Palette) -> go.Figure:
    """The matrix with its margins, clients by VRAM."""
    return allocation_figure(
        allocation.A_MN,
        names=in_figure(study.fleet.names),
        used_N_gib=study.used_N_gib(allocation.blocks_held_N),
        capacity_N_gib=study.fleet.capacity_N_gib,
        parameters_gib=study.parameters_gib,
        order_N=client_order(allocation.A_MN, study.fleet.capacity_N_gib, "vram"),
        palette=palette,
    )


def clients_csv(study: Study, start: Solution, allocation: Allocation) -> bytes:
    """A row per client: what it has, what it holds and how much it weighs."""
    table = {
        "client": study.fleet.names,
        "vram_gib": study.fleet.capacity_N_gib,
        "used_gib": study.used_N_gib(allocation.blocks_held_N),
        "budget": start.problem.budget_N,
        "blocks_held": allocation.blocks_held_N,
        "least_popularity": allocation.least_popularity_N,
        "influence": allocation.influence_N,
        "blocks": [" ".join(map(str, blocks)) for blocks in allocation.blocks_per_client],
    }
    return pd.DataFrame(table).to_csv(index=False).encode()
