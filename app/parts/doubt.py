"""What training did: late loss of the stored runs against the Λ of their allocation, from the reproduction's tables."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from zorba_core.data.task import get_task
from zorba_core.installed import artifacts

# The newest first; one without three seeds of enough allocations is not finished, and the next one counts.
TABLES = tuple(artifacts() / "experiments" / f"{name}.parquet" for name in ("allocations-sst2", "lambda"))
CLAIM = "lambda/ranks"
_FEWEST_SEEDS, _FEWEST_POINTS = 3, 8
_LATE = 1 / 3  # share of the rounds that count as late
_ANSWERS = {"undecided": "cannot tell yet", "in shape": "yes, somewhat", "not seen on our models": "not seen"}


@lru_cache(maxsize=1)
def measured() -> dict[str, Any]:
    """Points (Λ, mean late loss over seeds, 95 % interval), and the sentences above and below them. No points where the
    table is missing.

    Only allocations with the same total of blocks count, since more blocks lower both Λ and the loss.
    """
    table = next(filter(_is_finished, map(_rows, filter(Path.is_file, TABLES))), None)
    if table is None:
        return {"points": [], "title": "", "source": ""}
    late = table.loc[table["round"] > (1 - _LATE) * table["rounds"]]
    loss = late.groupby(["arm", "seed"])["loss"].mean().groupby("arm").agg(["mean", "sem", "count"])
    half = loss["sem"] * stats.t.ppf(0.975, loss["count"] - 1)
    lambda_of = table.drop_duplicates("arm").set_index("arm")["lambda"]
    points = pd.DataFrame(
        {"lambda": lambda_of, "loss": loss["mean"], "low": loss["mean"] - half, "high": loss["mean"] + half}
    )
    first, seeds = table.iloc[0], table["seed"].nunique()
    source = (
        f"{first['base']} on {get_task(first['task']).title}, {first['num_clients']} clients, "
        f"{len(points)} allocations of {first['T']:.0f} blocks, {seeds} seeds; late held-out loss, 95 % intervals. "
        "Your Λ has another fleet."
    )
    return {
        "points": points.loc[np.isfinite(points).all(axis=1)].to_dict("records"),
        "title": f"Measured: {_answer()}.",
        "source": source,
    }


def _rows(path: Path) -> pd.DataFrame:
    """The rows of measured runs with the most frequent total of blocks."""
    table = pd.read_parquet(path)
    table = table.loc[(table["role"] == "measure") & (table["placebo_of"] == "")]
    totals = table.drop_duplicates("arm")["T"].mode()
    return table.loc[table["T"] == totals.iloc[0]] if len(totals) else table


def _is_finished(table: pd.DataFrame) -> bool:
    seeds = table.groupby("arm")["seed"].nunique()
    return sum(count >= _FEWEST_SEEDS for count in seeds.tolist()) >= _FEWEST_POINTS


def _answer() -> str:
    """The verdict of the claim, in words."""
    claims = json.loads((artifacts() / "claims.json").read_text(encoding="utf-8"))
    rows = claims["claims"] if isinstance(claims, dict) else claims
    verdict = next((row["verdict"] for row in rows if row["id"] == CLAIM), "undecided")
    return _ANSWERS.get(verdict, "cannot tell yet")
