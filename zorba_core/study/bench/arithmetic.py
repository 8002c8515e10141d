"""What a round is made of, by itself: noise, and matrix products of each precision.

Shapes: N clients, Q directions.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from zorba_core.engine import noise
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.network import BlockNetwork
from zorba_core.study.bench.common import LABEL_IDS, BenchSettings, Report, client_batches, take_turns

_FEW_CLIENTS, _FEW_DIRECTIONS = 10, 4


def time_noise(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Parameters a second: drawn alone, and drawn, scaled and added to the weights, beside an addition alone."""
    device = torch.device(settings.device)
    results = {}
    for name, size in (("one block", network.sizes_M[0]), ("one block of OPT-125M", 7_087_872)):
        weights, other = torch.zeros(size, device=device), torch.ones(size, device=device)
        signs, normals = Directions("rademacher", [size], device=device), Directions("gaussian", [size], device=device)
        contestants = {
            "signs drawn": lambda size=size: noise.signs(1, 0, 0, size, device),
            "normals drawn": lambda size=size: noise.normals(1, 0, 0, size, device),
            "w + mu v, rademacher": lambda weights=weights, signs=signs: signs.add_to(weights, 1, 0, 1e-3),
            "w + mu v, gaussian": lambda weights=weights, normals=normals: normals.add_to(weights, 1, 0, 1e-3),
            "w + x": lambda weights=weights, other=other: torch.add(weights, other),
            "torch.randn": lambda size=size: torch.randn(size, device=device),
        }
        # As many calls a turn as make some millions of numbers, as a pass over all blocks does.
        calls = max(1, 2**22 // size)
        times = take_turns(
            {key: lambda run=run, calls=calls: _call(run, calls) for key, run in contestants.items()},
            replace(settings, repeats=3 * settings.repeats),
        )
        rates = {key: calls * size / statistics.median(values) for key, values in times.items()}
        results[name] = {"parameters": size, "parameters_per_second": rates}
        report(f"noise, {name}: " + ", ".join(f"{key} {rate / 1e9:.2f} G/s" for key, rate in rates.items()))
    return results


def _call(run: Callable[[], Any], calls: int) -> None:
    for _ in range(calls):
        run()  # the result is dropped at once, as in a pass: kept results would be timed finding memory


def time_precisions(model: nn.Module, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """The same estimate with products of each precision: its time, and rho's error at mu, 3 mu and 10 mu."""
    few = replace(settings, num_clients=min(_FEW_CLIENTS, settings.num_clients), precision="")
    network = BlockNetwork(copy.deepcopy(model), LABEL_IDS, device=few.device)
    batches_N = client_batches(few, model.config.vocab_size)
    A_MN = np.ones((network.num_blocks, few.num_clients), dtype=bool)
    directions = Directions(few.direction, network.shapes_M, device=few.device)

    def run(precision: str) -> None:
        with network.at_precision(precision):
            estimate_cohort(network, batches_N, A_MN, range(2), directions, mu=few.mu)

    times = take_turns({name: lambda name=name: run(name) for name in few.precisions}, few)
    middle = {name: statistics.median(values) for name, values in times.items()}
    errors = rho_errors(model, network, few, [few.mu, 3 * few.mu, 10 * few.mu], few.num_clients)
    for name in few.precisions[1:]:
        at = ", ".join(f"{row['relative_to_float64']:.3f} at mu {row['mu']:g}" for row in errors[name])
        report(f"precision {name}: {middle['highest'] / middle[name]:.2f} x as fast as highest; error of rho {at}")
    return {
        name: {"seconds": times[name], "speed_over_highest": middle["highest"] / middle[name], "rho": errors[name]}
        for name in few.precisions
    }


def rho_errors(
    model: nn.Module, network: BlockNetwork, settings: BenchSettings, mus: Sequence[float], num_clients: int
) -> dict[str, list[dict[str, float]]]:
    """By precision and mu: how far rho is, in parts of its size, from rho in float64 (rounding alone) and from the
    exact derivative (with what a finite mu adds), and its correlation with the latter."""
    batches_N = client_batches(settings, model.config.vocab_size)[:num_clients]
    A_MN = np.ones((network.num_blocks, len(batches_N)), dtype=bool)
    seeds_Q = range(_FEW_DIRECTIONS)

    def estimated(of: BlockNetwork, mu: float) -> np.ndarray:
        directions = Directions(settings.direction, of.shapes_M, dtype=of.dtype, device=settings.device)
        return estimate_cohort(of, batches_N, A_MN, seeds_Q, directions, mu=mu).rho_NQ

    def error(found_NQ: np.ndarray, wanted_NQ: np.ndarray) -> float:
        return float(np.linalg.norm(found_NQ - wanted_NQ) / np.linalg.norm(wanted_NQ))

    exactly = BlockNetwork(copy.deepcopy(model), LABEL_IDS, dtype=torch.float64, device=settings.device)
    directions = Directions(settings.direction, exactly.shapes_M, dtype=torch.float64, device=settings.device)
    derivative_NQ = estimate_exact(exactly, batches_N, A_MN, seeds_Q, directions).rho_NQ
    differences = [estimated(exactly, mu) for mu in mus]
    del exactly
    errors: dict[str, list[dict[str, float]]] = {}
    for name in settings.precisions:
        with network.at_precision(name):
            estimates = [estimated(network, mu) for mu in mus]
        errors[name] = [
            {
                "mu": mu,
                "relative_to_float64": error(found_NQ, wanted_NQ),
                "relative_to_derivative": error(found_NQ, derivative_NQ),
                "correlation_with_derivative": float(np.corrcoef(found_NQ.ravel(), derivative_NQ.ravel())[0, 1]),
            }
            for mu, found_NQ, wanted_NQ in zip(mus, estimates, differences, strict=True)
        ]
    return errors
