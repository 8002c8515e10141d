"""Tables of experiments whose numbers are known."""

from __future__ import annotations

import pandas as pd

from notebooks.reproduction.sweep import COLUMNS


def table_of(arms: dict[str, dict[int, list[float]]], *, column: str = "loss", role: str = "measure", **same):
    """Rows of runs by arm and seed with these values at rounds 0, 5, 10, ..."""
    rows = []
    for arm, by_seed in arms.items():
        for seed, values in by_seed.items():
            for step, value in enumerate(values):
                row = {"arm": arm, "seed": seed, "round": 5 * step, "rounds": 5 * (len(values) - 1), "role": role}
                row |= {column: value, "forward_passes": 50 * step, "status": "finished", "base": "tiny", "task": "toy"}
                row["config_sha256"] = f"{arm} {seed} {same}"
                rows.append({name: 0 if kind != "string" else "" for name, kind in COLUMNS.items()} | row | same)
    return pd.DataFrame(rows).astype(dict(COLUMNS))
