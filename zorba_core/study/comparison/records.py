"""Runs to compare, whether they are folders or rows of an experiment's tables."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from zorba_core.allocation import Allocation
from zorba_core.study.comparison.curves import target_reached
from zorba_core.study.comparison.sent import bytes_of_total
from zorba_core.study.experiments.measures import column_of, measure
from zorba_core.study.experiments.specs import EARLIER_NAMES

# Measures of an allocation among the outcomes.
ALLOCATED = ("lambda", "V", "effective_clients", "min_popularity", "total_blocks")


@dataclass(frozen=True, eq=False)
class Record:
    """One run as the page compares it.

    ``metrics`` has the columns of a run folder, as far as the source tells them, and two of its own: ``work`` (forward
    passes, a backward pass counting as two) and ``bytes`` (sent, both ways, all clients).
    """

    name: str  # unique on the page; stands in links
    config: dict[str, Any]
    environment: dict[str, Any]
    metrics: pd.DataFrame
    summary: dict[str, Any]
    status: str
    allocation: Allocation | None = None
    path: Path | None = None
    began: float | None = None  # seconds since the epoch
    arm: str | None = None  # of an experiment: what its runs are grouped by

    @functools.cached_property
    def evaluations(self) -> pd.DataFrame:
        return self.metrics.dropna(subset=["eval_accuracy"])

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The config as one level, by names such as ``allocation.solver``."""
        return flat(self.config)

    @property
    def finished(self) -> bool:
        return self.status not in ("unfinished", "running")

    @property
    def method(self) -> str:
        return str(self.config.get("method", "zorba"))

    @property
    def solver(self) -> str | None:
        allocation = self.config.get("allocation")
        name = allocation.get("solver") if isinstance(allocation, dict) else None
        return None if name is None else str(name)

    @property
    def vram_gib(self) -> float | None:
        vram = self.summary.get("vram_gib")
        total = vram.get("total") if isinstance(vram, dict) else None
        return float(total) if isinstance(total, int | float) else None

    @functools.cached_property
    def outcome(self) -> dict[str, float | None]:
        """The outcomes by which runs are compared. ``to_target``: rounds until the target was first reached."""
        accuracy, loss = self.evaluations["eval_accuracy"], self.metrics["eval_loss"].dropna()
        reached = target_reached(self)
        last = self.metrics.iloc[-1] if len(self.metrics) else None
        return {
            "best": float(accuracy.max()) if len(accuracy) else None,
            "final": float(accuracy.iloc[-1]) if len(accuracy) else None,
            "loss": float(loss.iloc[-1]) if len(loss) else None,
            "to_target": None if reached is None else float(reached["round"]),
            "rounds": None if last is None else float(last["round"]),
            "seconds": None if last is None else _number(last["seconds"]),
            "work": None if last is None else _number(last["work"]),
            "bytes": None if last is None else _number(last["bytes"]),
            "vram": self.vram_gib,
            **self._allocated,
        }

    @property
    def _allocated(self) -> dict[str, float | None]:
        """Measures of the allocation: of the matrix, or as far as an experiment's table has them."""
        if self.allocation is not None:
            return {name: measure(self.allocation, name) for name in ALLOCATED}
        stored = self.summary.get("allocation", {})
        return {key: stored.get(key) for key in ALLOCATED}


def flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level, ``allocation.solver`` and the like."""
    fields: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            fields |= flat(value, f"{prefix}{key}.")
        else:
            fields[f"{prefix}{key}"] = value
    return fields


class Listing(NamedTuple):
    """Records, newest first; one line for each entry that could not be read, with what to do about it; and what else is
    worth knowing."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def experiment_records(name: str, profile: str = "standard", root: str | os.PathLike[str] | None = None) -> Listing:
    """The runs of an experiment's tables (artifacts/experiments/<name>/<profile>), without trials of learning rates.

    Raises:
        InvalidInputError, MissingDataError: as ``zorba_core.study.experiments.read_results``.
    """
    from zorba_core.study.experiments.store import DEFAULT_ROOT, read_results

    results = read_results(name, profile, DEFAULT_ROOT if root is None else root)
    curves = {sha: rows for sha, rows in results.curves.groupby("sha256")}
    nothing = results.curves.iloc[:0]
    rows = results.runs[results.runs["role"] == "measure"].to_dict("records")
    names = _names(rows)
    records = tuple(
        _of_row(name, row, curves.get(row["sha256"], nothing)) for name, row in zip(names, rows, strict=True)
    )
    notes = list(results.left_out)
    if results.missing:
        notes.append(
            f"{name}: {results.missing} runs are still to be made: zorba experiment {name} --profile {profile}"
        )
    return Listing(records, (), tuple(notes))


def experiments_there(root: Path) -> list[tuple[str, str]]:
    """(experiment, profile) of each pair of tables below ``root``."""
    return sorted((file.parent.parent.name, file.parent.name) for file in root.glob("*/*/runs.parquet"))


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """``full-sst2-0``, and where runs would be called alike also what tells them apart, else a fingerprint."""
    form = "{arm}-{dataset}"
    for suffix in ("", "-alpha{alpha:g}", "-N{num_clients}", "-lr{lr:g}"):
        form += suffix
        names = [f"{form.format(**row)}-{row['seed']}" for row in rows]
        if len(set(names)) == len(names):
            return names
    return [f"{name}-{row['sha256'][:6]}" for name, row in zip(names, rows, strict=True)]


def _of_row(name: str, row: dict[str, Any], curve: pd.DataFrame) -> Record:
    try:
        request = json.loads(row["config"])["request"]
    except (ValueError, KeyError, TypeError):
        request = {}
    config = {
        **{key: value for key, value in request.items() if key != "settings"},
        **{EARLIER_NAMES.get(name, name): value for name, value in request.get("settings", {}).items()},
        "dataset": row["dataset"],
        "model": row["model"],
        "method": row["method"],
        "num_clients": row["num_clients"],
        "seed": int(row["seed"]),
        "target": _number(row["target"]),
    }
    metrics = pd.DataFrame(
        {
            "round": curve["round"].to_numpy(),
            "train_loss": np.nan,
            "eval_loss": curve["loss"].to_numpy(),
            "eval_accuracy": curve["accuracy"].to_numpy(),
            "seconds": curve["seconds"].to_numpy(),
            "work": curve["forward_passes"].to_numpy(),
            "bytes": bytes_of_total(
                row["method"],
                int(row["num_blocks"]),
                int(row["num_clients"]),
                curve["round"].to_numpy(np.float64),
                _number(row["sent_bytes"]),
            ),
        }
    )
    return Record(
        name=name,
        config=config,
        environment={
            key: row[key] for key in ("engine_version", "git_commit", "git_dirty", "machine", "base_weights_sha256")
        },
        metrics=metrics,
        summary={
            "vram_gib": {"total": _number(row["psi_gib"])},
            "allocation": {name: _number(row[column_of(name)]) for name in ALLOCATED},
        },
        status=str(row["status"]),
        arm=str(row["arm"]),
    )
