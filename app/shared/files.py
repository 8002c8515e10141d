"""The files that the pages offer.

Shapes: M blocks, N clients, E points of the sweep.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd

from app.shared.study import Study
from zorba_core.allocation import Allocation, Solution
from zorba_core.files import to_json


def points_csv(study: Study) -> bytes:
    """Every swept point, the front marked; columns as in `zorba pareto --json`, and the numbers that Λ hides."""
    front = study.front
    table = {
        "allocation_id": np.arange(len(front)),
        "tau": front.tau_E,
        "total_blocks": front.total_blocks_E,
        "vram_ratio": front.vram_ratio_E,
        "lambda": front.bias_lambda_E,
        "mean_inverse_popularity": front.mean_inverse_popularity_E,
        "effective_clients": front.effective_clients_E,
        "min_popularity": front.min_popularity_E,
        "on_front": front.on_front_E,
    }
    return pd.DataFrame(table).to_csv(index=False).encode()


def allocation_json(study: Study, solution: Solution) -> bytes:
    """Block ids of each client, the metrics and the workload; keys as in `zorba allocate --json`."""
    content = {**solution.describe(), "clients": study.fleet.names, **on_the_fleet(study, solution.allocation)}
    return to_json(content, indent=1).encode()


def on_the_fleet(study: Study, allocation: Allocation) -> dict[str, Any]:
    """What an allocation takes of the clients' VRAM, and the workload by which it does."""
    scenario = study.scenario
    used_N = study.used_N_gib(allocation.blocks_held_N)
    return {
        "vram_gib": {"total": used_N.sum(), "per_client": used_N},
        "model": scenario.model,
        "batch_size": scenario.batch_size,
        "seq_len": scenario.seq_len,
        "dtype": scenario.dtype,
    }


def allocation_npz(study: Study, solution: Solution) -> bytes:
    """A_MN, budget_N and capacity_N_bytes; `zorba_core.allocation_from_file` reads the matrix back."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        A_MN=solution.allocation.A_MN,
        budget_N=solution.problem.budget_N,
        capacity_N_bytes=study.fleet.capacity_N_bytes,
    )
    return buffer.getvalue()
