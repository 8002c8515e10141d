"""A study seen along two axes: what it costs, what it buys, which points are worth having. No Streamlit here.

Shapes: E points of a sweep, F points of its front, T totals of a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.shared.scenario import Scenario
from app.shared.study import Study
from zorba_core.allocation import MEASURES as REGISTERED
from zorba_core.allocation import Allocation, Measure, Solution, non_dominated
from zorba_core.allocation import knee as knee_of
from zorba_core.allocation.scenarios import PAPER_SCENARIOS
from zorba_core.engine.methods.registry import method_facts
from zorba_core.vram import GIB, psi_block_bytes, psi_model_bytes

# Measures that the plot can show: those whose value every point of a sweep knows.
AXES = ("lambda", "mean_inverse_popularity", "effective_clients", "min_popularity")
MEASURES: Mapping[str, Measure] = {name: REGISTERED[name] for name in AXES}


@dataclass(frozen=True)
class Cost:
    """What an axis of costs shows."""

    label: str
    axis: str
    format: str  # of a value in words


# What may be drawn beside the methods.
EXTRAS = {"bound": "Lower bound", "paper": "SC1 to SC3", "baselines": "Full activation"}
COSTS: Mapping[str, Cost] = {
    "ratio": Cost("Share of all VRAM, by the paper", "VRAM used / available, by the paper's model", ".0%"),
    "gib": Cost("VRAM in GiB, by the paper", "VRAM of all clients together, by the paper's model (GiB)", ",.1f"),
    "blocks": Cost("Activated blocks", "activated blocks, all clients together", ",.0f"),
}


@dataclass(frozen=True, eq=False)
class View:
    """A study along two axes. ``on_front_E`` are the points that nothing beats on both, or on memory and Lambda where
    memory does not buy the measure."""

    study: Study
    cost: str
    measure: str

    @cached_property
    def x_E(self) -> NDArray[np.float64]:
        return costs_of(self.study, self.study.front.total_blocks_E, self.cost)

    @cached_property
    def y_E(self) -> NDArray[np.float64]:
        return self._values_E(self.measure)

    @property
    def decided_by(self) -> str:
        """The measure that the front is of."""
        return self.measure if MEASURES[self.measure].traded else "lambda"

    @cached_property
    def _lower_E(self) -> NDArray[np.float64]:
        """What the front minimises."""
        values_E = self._values_E(self.decided_by)
        return -values_E if MEASURES[self.decided_by].better == "higher" else values_E

    def _values_E(self, measure: str) -> NDArray[np.float64]:
        front = self.study.front
        values_E = front.bias_lambda_E if measure == "lambda" else getattr(front, f"{measure}_E").astype(float)
        return np.where(np.isnan(front.bias_lambda_E), np.nan, values_E)

    @cached_property
    def on_front_E(self) -> NDArray[np.bool_]:
        return non_dominated(self.x_E, self._lower_E)

    @cached_property
    def order_F(self) -> NDArray[np.int64]:
        """Indices of the front's points, cheapest first."""
        on_front = np.flatnonzero(self.on_front_E)
        return on_front[np.argsort(self.x_E[on_front], kind="stable")]

    @cached_property
    def knee(self) -> int | None:
        return knee_of(self.x_E, self._lower_E, self.on_front_E)

    def recommended(self, weight: float) -> int:
        """The front's point for a reader who gives ``weight`` in 0..1 to convergence and the rest to memory: the
        smallest weighted sum of both, each scaled to 0..1 over the front. At 0.5 that is the knee."""
        x, y = self.x_E[self.order_F], self._lower_E[self.order_F]
        if len(x) < 3:  # too short for a knee
            return int(self.order_F[min(int(weight * len(x)), len(x) - 1)])
        scaled_x, scaled_y = (x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)
        return int(self.order_F[((1 - weight) * scaled_x + weight * scaled_y).argmin()])

    def best_within(self, ratio: float) -> int | None:
        """The best point that uses at most ``ratio`` of the VRAM; None if nothing does."""
        within = np.flatnonzero(self.on_front_E & (self.study.front.vram_ratio_E <= ratio))
        return int(within[self._lower_E[within].argmin()]) if within.size else None


def value_of(solution: Solution, measure: str) -> float:
    """The measure of one allocation."""
    return float(REGISTERED[measure].value(solution.allocation))


def costs_of(study: Study, total_blocks: NDArray[np.number], cost: str) -> NDArray[np.float64]:
    """What so many activated blocks cost, in the unit of the axis."""
    blocks = np.asarray(total_blocks, float)
    if cost == "blocks":
        return blocks
    model, workload = study.scenario.model_spec, study.scenario.workload
    parameters = study.fleet.num_clients * psi_model_bytes(model, workload)
    gib = (parameters + blocks * psi_block_bytes(model, workload)) / GIB
    return gib / study.capacity_gib if cost == "ratio" else gib


def bound(study: Study, cost: str, measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """(x_T, y_T) of a curve that no allocation of this fleet lies below; None for a measure without one."""
    if measure not in ("lambda", "mean_inverse_popularity"):
        return None
    y_T = study.lambda_bound_T if measure == "lambda" else study.v_bound_T
    return costs_of(study, study.bound_totals_T, cost), y_T


@dataclass(frozen=True)
class Landmark:
    """A labelled point that is not of the sweep."""

    name: str
    x: float
    y: float
    help: str


def is_papers_fleet(scenario: Scenario) -> bool:
    """50 clients drawn uniformly for OPT-125M, as in the paper's figure 4."""
    return (scenario.fleet_kind, scenario.model, scenario.num_clients) == ("uniform", "opt-125m", 50)


def paper_scenarios(study: Study, cost: str, measure: str) -> list[Landmark]:
    """SC1 to SC3 as printed: a VRAM ratio and a Lambda each. They are of the paper's own fleet alone."""
    if measure != "lambda" or not is_papers_fleet(study.scenario):
        return []
    model, workload = study.scenario.model_spec, study.scenario.workload
    parameters = study.fleet.num_clients * psi_model_bytes(model, workload)
    marks = []
    for name, (ratio, bias) in PAPER_SCENARIOS.items():
        blocks = (ratio * study.capacity_gib * GIB - parameters) / psi_block_bytes(model, workload)
        x = float(costs_of(study, np.array(blocks), cost))
        marks.append(Landmark(name, x, bias, f"{name} of the paper: {ratio:.0%} of VRAM, Λ = {bias:.2f}"))
    return marks


def baselines(study: Study, cost: str, measure: str) -> list[Landmark]:
    """FedZO, DeComFL and FedIT: every client activates every block, whatever its VRAM."""
    scenario, clients = study.scenario, study.fleet.num_clients
    num_blocks = scenario.model_spec.num_blocks
    fits_N = study.fleet.budget_N >= num_blocks
    if not fits_N.all():  # a fleet that cannot do it has no such point
        return []
    y = MEASURES[measure].value(Allocation(np.ones((num_blocks, clients), bool)))
    marks = []
    for name, method in (("FedZO, DeComFL", "fedzo"), ("FedIT", "fedit")):
        gib = method_facts(method).total_bytes(scenario.model_spec, scenario.workload, clients) / GIB
        x = {"ratio": gib / study.capacity_gib, "gib": gib, "blocks": clients * num_blocks}[cost]
        words = f"{name}: all {num_blocks} blocks on every client, {gib / study.capacity_gib:.0%} of the VRAM there is"
        marks.append(Landmark(name, float(x), float(y), words))
    return marks[:1] if cost == "blocks" else marks
