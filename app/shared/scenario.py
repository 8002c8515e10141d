"""What the sidebar asks for. No Streamlit here; ``app.shared.study`` answers it.

Shapes: N clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from zorba_core.allocation import (
    SOLVERS,
    Solver,
)
from zorba_core.allocation.pareto import TauMode
from zorba_core.data.fleet_tables import fleet_from_frame
from zorba_core.data.gpu_catalogue import MIXES, mix_fleet
from zorba_core.errors import InvalidInputError
from zorba_core.fields import like, setting
from zorba_core.planning.fleets import (
    Fleet,
    lognormal_fleet,
    three_kinds_fleet,
    truncated_normal_fleet,
    two_kinds_fleet,
    uniform_fleet,
)
from zorba_core.planning.memory import (
    GIB,
    Workload,
    psi_block_bytes,
    psi_model_bytes,
)
from zorba_core.planning.models import PRESETS, ModelSpec, model_spec

FLEET_KINDS = {
    "uniform": "Uniform, as in the paper",
    "normal": "Bell curve (truncated normal)",
    "lognormal": "Many small, few large (lognormal)",
    "two-kinds": "Two kinds of GPU",
    "three-kinds": "Three kinds of GPU",
    "steam": "Desktop cards (Steam survey)",
    "jetson": "Edge devices (Jetson)",
    "cloud": "Cloud GPUs",
    "mig": "Shares of one GPU (MIG)",
    "table": "My own clients",
}
# Drawn between what the model and one block need and what it needs with all blocks: they grow with the workload.
SCALED_KINDS = ("uniform", "normal", "lognormal")

# A sweep over totals needs fewer points than one over random reductions, and each may take a proof.
MAX_TOTALS = 200


_EPSILONS = (
    "How many VRAM reductions ε are tried. Each gives one point of the plot. (At most 200 for a limit on the total, 16 "
    "for *exact*.)"
)
_TAU_MODES = ("vector", "client", "total")
_FRACTION = "0: one block, 1: all blocks."
_SPREAD = "Standard deviation, as a share of the range from one block to all blocks."
_SIGMA = "Standard deviation of the logarithm of the VRAM: larger is more uneven."
_CARD = "The part of each card's memory that its owner lets you use; the rest is for the system and for other programs."


def _number(
    default: float, low: float, high: float, key: str, label: str, help: str = "", step: float = 1, **more: Any
) -> Any:
    return setting(default, help, label=label, at_least=low, at_most=high, key=key, step=step, **more)


@dataclass(frozen=True)
class Scenario:
    """Every choice that decides the trade-off, and nothing else. Fields that a fleet kind does not use are ignored."""

    fleet_kind: str = setting("uniform", "", label="Fleet", choices=lambda: FLEET_KINDS, key="fleet")
    model: str = setting("opt-125m", "", label="Model", choices=lambda: PRESETS, key="model")
    batch_size: int = like(Workload, "batch_size", label="Batch B", at_most=4096, key="batch")
    seq_len: int = like(Workload, "seq_len", label="Length L", at_most=65536, step=16, key="seq")
    dtype: str = like(Workload, "dtype", label="Number format", key="dtype")
    num_clients: int = _number(50, 1, 2_000, "clients", "Clients N", "How many clients take part.")
    seed: int = _number(0, 0, 2**31 - 1, "seed", "Seed", "The same seed draws the same fleet and the same reductions.")
    num_epsilons: int = _number(1000, 1, 5_000, "vectors", "Points E", _EPSILONS, 100)
    tau_mode: str = setting("vector", "", label="VRAM is saved by", choices=lambda: _TAU_MODES, key="tau")
    solver: str = setting(
        "balanced", "Who finds the allocation.", label="Solver", choices=lambda: SOLVERS, key="solver"
    )
    leave_out_small: bool = setting(False, "", label="Leave out the too small", key="leave_out")
    mean_fraction: float = _number(0.5, 0.0, 1.0, "mean", "Mean", _FRACTION, 0.05)
    spread: float = _number(0.2, 0.01, 2.0, "spread", "Spread", _SPREAD, 0.05)
    median_fraction: float = _number(0.25, 0.0, 1.0, "median", "Median", _FRACTION, 0.05)
    sigma: float = _number(0.6, 0.05, 3.0, "sigma", "Sigma", _SIGMA, 0.05)
    small_gib: float = _number(1.0, 0.1, 1024.0, "small", "Small (GiB)", step=0.5)
    medium_gib: float = _number(1.5, 0.1, 1024.0, "medium", "Medium (GiB)", step=0.5)
    large_gib: float = _number(2.0, 0.1, 1024.0, "large", "Large (GiB)", step=0.5)
    medium_fraction: float = _number(0.3, 0.0, 1.0, "medium_share", "Share of medium GPUs", step=0.05, percent=True)
    large_fraction: float = _number(0.3, 0.0, 1.0, "share", "Share of large GPUs", step=0.05, percent=True)
    card_share: float = _number(0.9, 0.05, 1.0, "card", "Share of each card", _CARD, 0.05, percent=True)
    table: tuple[tuple[object, object], ...] = ()  # rows (client, vram_gib), as typed

    @property
    def workload(self) -> Workload:
        return Workload(self.batch_size, self.seq_len, self.dtype)

    @property
    def model_spec(self) -> ModelSpec:
        return model_spec(self.model)

    @property
    def solved_by(self) -> Solver:
        """
        Raises:
            InvalidInputError: no such solver is installed here.
        """
        return SOLVERS.get_part(self.solver)

    @property
    def by_total(self) -> bool:
        """Whether budgets stay whole and the total of activated blocks is limited. A proof has no other way, and a
        solver that honours no total does not have this one."""
        return self.solved_by.honours_total and (self.solved_by.proves or self.tau_mode == "total")

    @property
    def num_reductions(self) -> int:
        """Points of a sweep over reductions."""
        return min(self.num_epsilons, self.solved_by.most_points or self.num_epsilons)

    @property
    def reductions(self) -> TauMode:
        """How reductions are drawn in a sweep over them."""
        return "client" if self.tau_mode == "client" else "vector"

    @property
    def num_totals(self) -> int:
        return min(self.num_epsilons, self.solved_by.most_points or MAX_TOTALS)

    def fleet(self) -> Fleet:
        """Every client asked for, whether or not it can hold a block.

        Raises:
            InvalidInputError: a table that is no fleet, or shares that do not add up.
        """
        drawn = (self.model_spec, self.workload, self.num_clients, self.seed)
        kinds = (self.num_clients, self.large_fraction, self.seed)
        if self.fleet_kind == "uniform":
            return uniform_fleet(*drawn)
        if self.fleet_kind == "normal":
            return truncated_normal_fleet(*drawn, mean_fraction=self.mean_fraction, spread=self.spread)
        if self.fleet_kind == "lognormal":
            return lognormal_fleet(*drawn, median_fraction=self.median_fraction, sigma=self.sigma)
        if self.fleet_kind == "two-kinds":
            return two_kinds_fleet(self.small_gib, self.large_gib, *kinds)
        if self.fleet_kind == "three-kinds":
            sizes = (self.small_gib, self.medium_gib, self.large_gib)
            return three_kinds_fleet(
                *sizes, self.num_clients, self.medium_fraction, self.large_fraction, seed=self.seed
            )
        if self.fleet_kind in MIXES:
            return mix_fleet(self.fleet_kind, self.num_clients, self.seed, self.card_share)
        if self.fleet_kind == "table":
            return fleet_from_frame(pd.DataFrame(list(self.table), columns=["client", "vram_gib"], dtype=object))
        raise InvalidInputError(f"unknown fleet {self.fleet_kind!r}; choose one of {', '.join(FLEET_KINDS)}")


def block_gib(scenario: Scenario) -> tuple[float, float]:
    """(parameters, one activated block) in GiB: what a client needs before it can train anything."""
    return (
        psi_model_bytes(scenario.model_spec, scenario.workload) / GIB,
        psi_block_bytes(scenario.model_spec, scenario.workload) / GIB,
    )
