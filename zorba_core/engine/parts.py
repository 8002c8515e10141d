"""The parts that a run chooses by name: a method, an average, an estimator, a kind of direction. The import loads no
torch.

A method is an object of a class (:mod:`zorba_core.engine.methods`), whose module loads no torch. The other parts are
records with a function, or with the place of one (``"module:name"``), which a run imports when it needs it.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from zorba_core.engine.averages import median, per_block, trimmed
from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry, imported
from zorba_core.vram import ModelSpec, Workload, psi_total_bytes

Exchange = Literal["scalars", "estimates", "weights"]


class MethodDescription:
    """What lists, options and tables show of a method: class attributes of
    :class:`zorba_core.engine.methods.interface.Method`. The paper compares such methods in its section V."""

    name: str
    title: str
    help: str  # one line
    default_directions: int  # Q of a round in the paper's experiments; 0: the method uses the gradient
    exchanges: Exchange = "scalars"
    allocates: bool = False  # whether it uses an allocation; if not, every client activates every block

    @property
    def first_order(self) -> bool:
        return self.default_directions == 0

    @property
    def federates(self) -> bool:
        """Whether its clients can be separate processes, which exchange scalars and never weights."""
        return self.exchanges == "scalars"

    def total_bytes(
        self, model: ModelSpec, workload: Workload, num_clients: int, total_blocks: int | None = None
    ) -> int:
        """VRAM of all clients, as in Table II: parameters and activations, and FedIT's gradients (one more copy of d).

        Args:
            total_blocks: the sum of the activation matrix, for a method that allocates. Others activate all M*N blocks.

        Raises:
            InvalidInputError: ``total_blocks`` is missing for a method that allocates, outside [max(M, N), M*N], or not
                M*N for another method.
        """
        most, least = model.num_blocks * num_clients, max(model.num_blocks, num_clients)
        if self.allocates and total_blocks is None:
            raise InvalidInputError(
                f"{self.title}'s VRAM depends on the allocation: give the total of activated blocks (--total-blocks)"
            )
        if not self.allocates and total_blocks not in (None, most):
            raise InvalidInputError(
                f"{self.name} activates all {most} blocks; leave total blocks out, or use method zorba"
            )
        blocks = most if total_blocks is None else total_blocks
        needed = psi_total_bytes(model, workload, num_clients, blocks, copies=2 if self.first_order else 1)
        if not least <= blocks <= most:
            raise InvalidInputError(
                f"total blocks is {blocks}; with {model.num_blocks} blocks and {num_clients} clients it must be from "
                f"{least} (each block and each client once) to {most}"
            )
        return needed


@dataclass(frozen=True)
class Estimator:
    """One way to compute the clients' scalars rho[n, q].

    ``run(network, batches_N, A_MN, seeds_Q, directions, *, mu, inactive)`` returns an
    :class:`zorba_core.engine.estimators.reference.Estimate`; the network's weights have the same bits afterwards.
    ``run`` is a function, or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    run: Callable[..., Any] | str
    exact: bool = False  # computes directional derivatives by backpropagation, and ignores mu


@dataclass(frozen=True)
class DirectionKind:
    """How random directions are drawn and scaled, for :class:`zorba_core.engine.directions.Directions`.

    ``draw(seed, block, start, stop, device)`` returns elements start..stop-1 of the block's numbers, float32. Each must
    depend only on seed, block and index, so that any part can be drawn without the rest. ``draw`` is a function, or
    "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    draw: Callable[..., Any] | str
    # Norm of a scaled direction as a function of the number of parameters d; None: not scaled. A kind with a norm must
    # draw multiples of noise.NORMAL_STEP, so that sums of squares are exact.
    norm: Callable[[int], float] | None = None
    signs: bool = False  # every number is -1 or +1, so products with it are exact
    low_rank: bool = False  # two vectors of signs for each matrix (zorba_core.engine.low_rank): signs, and no norm


@dataclass(frozen=True)
class Average:
    """One way to average the clients' scalars for each block.

    ``run(rho_NQ, counted_MN, trim)`` returns the average over the clients of each block, (M, Q), float64, without the
    factor 1/Q; zeros for a block without clients. ``counted_MN``: the clients that activate the block and reported.
    :func:`zorba_core.engine.averages.per_block` makes it of a function for one block. ``run`` is a function, or
    "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    run: Callable[..., Any] | str


def _register_own_methods() -> None:
    # By name: the methods' classes are typed with the settings, which take the names of the methods from here.
    importlib.import_module("zorba_core.engine.methods")


METHODS: Registry[MethodDescription] = Registry(
    "method", "zorba.methods", MethodDescription, home=_register_own_methods
)
AVERAGES: Registry[Average] = Registry("average", "zorba.averages", Average)
ESTIMATORS: Registry[Estimator] = Registry("estimator", "zorba.estimators", Estimator)
DIRECTIONS: Registry[DirectionKind] = Registry("direction", "zorba.directions", DirectionKind)

for _average in (
    Average("mean", "Mean", "the paper's average", "zorba_core.engine.methods.zorba:mean"),
    Average("trimmed", "Trimmed mean", "without a share trim at each end", per_block(trimmed)),
    Average("median", "Median", "the middle value", per_block(median)),
):
    AVERAGES.register(_average)

_ESTIMATORS = "zorba_core.engine.estimators"
for _estimator in (
    Estimator(
        "cohort", "Cohort", "finite differences, all clients in one pass", f"{_ESTIMATORS}.cohort:estimate_cohort"
    ),
    Estimator(
        "reference", "Reference", "finite differences, one client after another", f"{_ESTIMATORS}.reference:estimate"
    ),
    Estimator(
        "exact",
        "Exact",
        "exact directional derivatives, all clients in one backward pass: the fastest simulation",
        f"{_ESTIMATORS}.exact:estimate_exact",
        exact=True,
    ),
):
    ESTIMATORS.register(_estimator)

_NORMALS, _SIGNS = "zorba_core.engine.noise:normals", "zorba_core.engine.noise:signs"
for _kind in (
    DirectionKind("gaussian", "Gaussian", "independent standard normals, of norm sqrt(d) on average", _NORMALS),
    DirectionKind("sphere", "Sphere", "the Gaussian direction scaled to norm sqrt(d)", _NORMALS, math.sqrt),
    DirectionKind("rademacher", "Rademacher", "independent signs, of norm sqrt(d)", _SIGNS, signs=True),
    DirectionKind("unit-sphere", "Unit sphere", "the Gaussian direction scaled to norm 1", _NORMALS, lambda d: 1.0),
    DirectionKind(
        "low-rank", "Low rank", "a product of two vectors of signs for each matrix", _SIGNS, signs=True, low_rank=True
    ),
):
    DIRECTIONS.register(_kind)


def method_facts(name: str) -> MethodDescription:
    """The method of this name.

    Raises:
        InvalidInputError: the method is unknown.
    """
    return METHODS.get_part(name)


def average_of(settings: Any) -> Callable[..., Any]:
    """The average ``(rho_NQ, counted_MN) -> (M, Q)`` of a run's settings."""
    return functools.partial(imported(AVERAGES.get_part(settings.rule).run), trim=settings.trim)


def estimator_of(settings: Any) -> Callable[..., Any]:
    """The estimator of a run's :class:`zorba_core.engine.settings.Settings`, with their ``mu`` and ``inactive``."""
    estimator = ESTIMATORS.get_part(settings.estimator)
    return functools.partial(imported(estimator.run), mu=settings.mu, inactive=settings.inactive)
