"""The measures of an allocation that an experiment's table holds."""

from __future__ import annotations

from zorba_core.allocation import Allocation, find_measure

# By their names in the tables, which are aliases of the measures' own.
COLUMNS = ("lambda", "V", "E", "D", "N_eff", "T", "min_c")
# What might predict convergence, each the smaller the better by its own theory.
PREDICTORS = ("lambda", "V", "E", "D", "inverse_N_eff", "inverse_T", "inverse_min_c")


def allocation_measures(allocation: Allocation) -> dict[str, float]:
    """Every column, and the inverses among the predictors. Infinite where a block has no client."""
    measures = {name: find_measure(name).value(allocation) for name in COLUMNS}
    inverse = {f"inverse_{name}": 1.0 / measures[name] if measures[name] else float("inf") for name in COLUMNS[4:]}
    return measures | inverse


def column_of(name: str) -> str:
    """The column of the tables that holds a measure."""
    return next(column for column in COLUMNS if find_measure(column) is find_measure(name))
