"""The measures of an allocation that an experiment's table holds."""

from __future__ import annotations

from zorba_core.allocation import AllocationMetrics, coupled_noise, direction_coupling

METRIC_NAMES = ("lambda", "V", "E", "D", "inverse_N_eff", "inverse_T", "inverse_min_c")


def allocation_measures(allocation: AllocationMetrics) -> dict[str, float]:
    """Every number that might predict convergence, each the smaller the better by its own theory. ``T``, ``N_eff`` and
    ``min_c`` stand beside their inverses. Infinite where a block has no client."""
    minimum = allocation.min_popularity
    return {
        "lambda": allocation.bias_lambda,
        "V": allocation.mean_inverse_popularity,
        "E": coupled_noise(allocation.A_MN),
        "D": direction_coupling(allocation.A_MN),
        "N_eff": allocation.effective_clients,
        "T": allocation.total_blocks,
        "min_c": minimum,
        "inverse_N_eff": 1.0 / allocation.effective_clients,
        "inverse_T": 1.0 / allocation.total_blocks,
        "inverse_min_c": 1.0 / minimum if minimum else float("inf"),
    }
