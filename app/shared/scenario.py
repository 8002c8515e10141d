"""What the sidebar asks for. No Streamlit here; ``app.shared.study`` answers it.

Shapes: N clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from zorba_core.allocation import (
    SOLVERS,
    Solver,
)
from zorba_core.allocation.front import TauMode
from zorba_core.checked import Checked, OneOf
from zorba_core.fleet import MIXES, Fleet
from zorba_core.vram import (
    DTYPE_BYTES,
    GIB,
    PRESETS,
    ModelSpec,
    Workload,
    model_spec,
    psi_block_bytes,
    psi_model_bytes,
)

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
# The solver whose points may each take a proof, and the one that takes no total.
PROVER, WITHOUT_TOTAL = "exact", "lexicographic"
MAX_PROOFS = 16


_EPSILONS = (
    "How many VRAM reductions ε are tried. Each gives one point of the plot. (At most 200 for a limit on the total, 16 "
    "for *exact*.)"
)
_TAU_MODES = ("vector", "client", "total")
_SEED = "The same seed draws the same fleet and the same reductions."
_FRACTION = "0: one block, 1: all blocks."
_SPREAD = "Standard deviation, as a share of the range from one block to all blocks."
_SIGMA = "Standard deviation of the logarithm of the VRAM: larger is more uneven."
_CARD = "The part of each card's memory that its owner lets you use; the rest is for the system and for other programs."


@dataclass(frozen=True)
class Control:
    """How a field is shown: its short name in addresses and widgets, its label, and the step of a number."""

    key: str
    label: str
    step: float = 1
    percent: bool = False  # a share, shown and linked in whole percents


def _number(default: float, low: float, high: float, help: str = "") -> Any:
    return Field(default, ge=low, le=high, description=help)


class Scenario(Checked):
    """Every choice that decides the trade-off, and nothing else. Fields that a fleet kind does not use are ignored."""

    fleet_kind: Annotated[str, OneOf(lambda: FLEET_KINDS), Control("fleet", "Fleet")] = "uniform"
    model: Annotated[str, OneOf(lambda: tuple(PRESETS)), Control("model", "Model")] = "opt-125m"
    batch_size: Annotated[int, Control("batch", "Batch B")] = _number(8, 1, 4096, "Sequences of a batch, B.")
    seq_len: Annotated[int, Control("seq", "Length L", 16)] = _number(128, 1, 65536, "Tokens of a sequence, L.")
    dtype: Annotated[str, OneOf(lambda: tuple(DTYPE_BYTES)), Control("dtype", "Number format")] = "float32"
    num_clients: Annotated[int, Control("clients", "Clients N")] = _number(50, 1, 2_000, "How many clients take part.")
    seed: Annotated[int, Control("seed", "Seed")] = _number(0, 0, 2**31 - 1, _SEED)
    num_epsilons: Annotated[int, Control("vectors", "Points E", 100)] = _number(1000, 1, 5_000, _EPSILONS)
    tau_mode: Annotated[str, OneOf(lambda: _TAU_MODES), Control("tau", "VRAM is saved by")] = "vector"
    solver: Annotated[str, OneOf(lambda: tuple(SOLVERS)), Control("solver", "Solver")] = "balanced"
    leave_out_small: Annotated[bool, Control("leave_out", "Leave out the too small")] = False
    mean_fraction: Annotated[float, Control("mean", "Mean", 0.05)] = _number(0.5, 0.0, 1.0, _FRACTION)
    spread: Annotated[float, Control("spread", "Spread", 0.05)] = _number(0.2, 0.01, 2.0, _SPREAD)
    median_fraction: Annotated[float, Control("median", "Median", 0.05)] = _number(0.25, 0.0, 1.0, _FRACTION)
    sigma: Annotated[float, Control("sigma", "Sigma", 0.05)] = _number(0.6, 0.05, 3.0, _SIGMA)
    small_gib: Annotated[float, Control("small", "Small (GiB)", 0.5)] = _number(1.0, 0.1, 1024.0)
    medium_gib: Annotated[float, Control("medium", "Medium (GiB)", 0.5)] = _number(1.5, 0.1, 1024.0)
    large_gib: Annotated[float, Control("large", "Large (GiB)", 0.5)] = _number(2.0, 0.1, 1024.0)
    medium_fraction: Annotated[float, Control("medium_share", "Share of medium GPUs", 0.05, True)] = _number(0.3, 0, 1)
    large_fraction: Annotated[float, Control("share", "Share of large GPUs", 0.05, True)] = _number(0.3, 0, 1)
    card_share: Annotated[float, Control("card", "Share of each card", 0.05, True)] = _number(0.9, 0.05, 1.0, _CARD)
    table: tuple[tuple[Any, Any], ...] = ()
    """Rows (client, vram_gib), as typed."""

    @property
    def workload(self) -> Workload:
        return Workload(batch_size=self.batch_size, seq_len=self.seq_len, dtype=self.dtype)

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
        return self.solver == PROVER or (self.tau_mode == "total" and self.solver != WITHOUT_TOTAL)

    @property
    def num_reductions(self) -> int:
        """Points of a sweep over reductions."""
        return min(self.num_epsilons, MAX_PROOFS) if self.solver == PROVER else self.num_epsilons

    @property
    def reductions(self) -> TauMode:
        """How reductions are drawn in a sweep over them."""
        return "client" if self.tau_mode == "client" else "vector"

    @property
    def num_totals(self) -> int:
        return min(self.num_epsilons, MAX_PROOFS if self.solver == PROVER else MAX_TOTALS)

    def fleet(self) -> Fleet:
        """Every client asked for, whether or not it can hold a block.

        Raises:
            InvalidInputError: a table that is no fleet, or shares that do not add up.
        """
        if self.fleet_kind == "table":
            rows = pd.DataFrame(list(self.table), columns=["client", "vram_gib"], dtype=object)
            return Fleet.from_frame(rows, self.model, workload=self.workload)
        two = {"small_gib": self.small_gib, "large_gib": self.large_gib, "large_share": self.large_fraction}
        three = {**two, "medium_gib": self.medium_gib, "medium_share": self.medium_fraction}
        draw, options = {
            "uniform": (Fleet.uniform, {}),
            "normal": (Fleet.truncated_normal, {"mean": self.mean_fraction, "spread": self.spread}),
            "lognormal": (Fleet.lognormal, {"median": self.median_fraction, "sigma": self.sigma}),
            "two-kinds": (Fleet.two_kinds, two),
            "three-kinds": (Fleet.three_kinds, three),
            **{mix: (Fleet.gpus, {"mix": mix, "share": self.card_share}) for mix in MIXES},
        }[self.fleet_kind]
        return draw(self.model, self.num_clients, seed=self.seed, workload=self.workload, **options)


def block_gib(scenario: Scenario) -> tuple[float, float]:
    """(parameters, one activated block) in GiB: what a client needs before it can train anything."""
    return (
        psi_model_bytes(scenario.model_spec, scenario.workload) / GIB,
        psi_block_bytes(scenario.model_spec, scenario.workload) / GIB,
    )
