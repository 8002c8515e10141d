"""The measures of an allocation that an experiment's table holds."""

from __future__ import annotations

from zorba_core.allocation import Allocation

# By the column of the tables, the number of an :class:`Allocation`.
_MEASURE_OF = {
    "lambda": "bias_lambda",
    "V": "mean_inverse_popularity",
    "E": "coupled_noise",
    "D": "direction_coupling",
    "N_eff": "effective_clients",
    "T": "total_blocks",
    "min_c": "min_popularity",
}
COLUMNS = tuple(_MEASURE_OF)
# What might predict convergence, each the smaller the better by its own theory.
PREDICTORS = ("lambda", "V", "E", "D", "inverse_N_eff", "inverse_T", "inverse_min_c")


def measure(allocation: Allocation, name: str) -> float:
    """The number of a column, or of this name."""
    return float(getattr(allocation, _MEASURE_OF.get(name, name)))


def allocation_measures(allocation: Allocation) -> dict[str, float]:
    """Every column, and the inverses among the predictors. Infinite where a block has no client."""
    measures = {name: measure(allocation, name) for name in COLUMNS}
    inverse = {f"inverse_{name}": 1.0 / measures[name] if measures[name] else float("inf") for name in COLUMNS[4:]}
    return measures | inverse


def column_of(name: str) -> str:
    """The column of the tables that holds a measure."""
    return next(column for column, measure in _MEASURE_OF.items() if name in (column, measure))
