"""Clients of a reader's own: rows as typed, and what a table that someone drops in means.

Everything that comes in is data from outside. No Streamlit here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from app.shared.scenario import Scenario
from app.shared.scenario_fields import MAX_ROWS
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet

Row = tuple[object, object]
EXAMPLE_ROWS: tuple[Row, ...] = tuple(
    (f"client-{n}", gib) for n, gib in enumerate([0.7, 0.7, 0.8, 0.8, 1.0, 1.0, 1.2, 1.2, 1.5, 1.5, 1.9, 1.9])
)
MAX_BYTES = 5_000_000
_COLUMNS = {"client": 0, "vram_gib": 1}


def rows_of(fleet: Fleet) -> tuple[Row, ...]:
    """Names and GiB, rounded up so that nobody loses a block to rounding."""
    gib_N = np.ceil(fleet.capacity_N_gib * 1e4) / 1e4
    return tuple(zip(fleet.names, gib_N.tolist(), strict=True))[:MAX_ROWS]


def with_uploaded_fleet(content: bytes, scenario: Scenario) -> Scenario:
    """The scenario with the clients of a fleet's table.

    Raises:
        InvalidInputError: too large, too many clients, or no fleet; says which row and value.
    """
    if len(content) > MAX_BYTES:
        raise InvalidInputError(f"the file has {len(content) / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB is read")
    fleet = Fleet.from_csv(content, scenario.model)
    if fleet.num_clients > MAX_ROWS:
        raise InvalidInputError(
            f"the table has {fleet.num_clients:,} rows; the dashboard takes up to {MAX_ROWS:,} clients, "
            "`zorba pareto --fleet FILE` up to a million"
        )
    rows = tuple(zip(fleet.names, fleet.capacity_N_gib.tolist(), strict=True))
    return scenario.replace(fleet_kind="table", table=rows)


def edited_rows(rows: tuple[Row, ...], edits: dict[str, Any]) -> tuple[Row, ...]:
    """``rows`` after what the table editor reports: cells changed, rows added and deleted."""
    table = [list(row) for row in rows]
    for index, cells in edits.get("edited_rows", {}).items():
        for column, value in cells.items():
            table[int(index)][_COLUMNS[column]] = value
    deleted = set(edits.get("deleted_rows", ()))
    remaining = [tuple(row) for index, row in enumerate(table) if index not in deleted]
    added = [tuple(row.get(column) for column in _COLUMNS) for row in edits.get("added_rows", ())]
    return tuple(row for row in (*remaining, *added) if row != (None, None))
