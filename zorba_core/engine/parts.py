"""The parts that a run chooses by name: a method, an estimator, a kind of direction. The import loads no torch.

A part is a record of facts with the place of its code (``"module:name"``), which a run imports when it needs it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry, imported
from zorba_core.vram import ModelSpec, Workload, psi_total_bytes

Exchange = Literal["scalars", "estimates", "weights"]


@dataclass(frozen=True)
class MethodFacts:
    """One method. Those that the paper compares follow its section V.

    A :class:`zorba_core.engine.methods.interface.Method` has the facts and the code in one object.
    """

    name: str
    title: str
    help: str  # one line
    default_directions: int  # Q of a round in the paper's experiments; 0: the method uses the gradient
    exchanges: Exchange
    allocates: bool = False  # whether it uses an allocation; if not, every client activates every block
    code: str = ""  # "module:class" of the Method; empty: this object is the Method

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
    low_rank: bool = False  # draws two vectors of signs for each matrix (zorba_core.engine.low_rank)

    def __post_init__(self) -> None:
        if self.low_rank and (self.norm is not None or not self.signs):
            raise InvalidInputError(
                f"direction {self.name}: a low-rank direction needs signs=True and no norm, because its norm is sqrt(d)"
            )


METHODS: Registry[MethodFacts] = Registry("method", "zorba.methods", MethodFacts)
ESTIMATORS: Registry[Estimator] = Registry("estimator", "zorba.estimators", Estimator)
DIRECTIONS: Registry[DirectionKind] = Registry("direction", "zorba.directions", DirectionKind)

_SCALARS, _FEDZO, _FEDIT = (
    f"zorba_core.engine.methods.{code}" for code in ("interface:ScalarMethod", "fedzo:FedZO", "fedit:FedIT")
)
for _method in (
    MethodFacts(
        "zorba", "ZorBA", "shared directions, allocated blocks, exchanges scalars", 10, "scalars", True, _SCALARS
    ),
    MethodFacts("decomfl", "DeComFL", "shared directions, all blocks, exchanges scalars", 1, "scalars", code=_SCALARS),
    MethodFacts(
        "fedzo",
        "FedZO",
        "each client's own directions, all blocks, exchanges full estimates",
        1,
        "estimates",
        code=_FEDZO,
    ),
    MethodFacts("fedit", "FedIT", "first-order, all blocks, exchanges the model", 0, "weights", code=_FEDIT),
):
    METHODS.register(_method)

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


def method_facts(name: str) -> MethodFacts:
    """The method of this name.

    Raises:
        InvalidInputError: the method is unknown.
    """
    return METHODS.get_part(name)


def method_of(settings: Any) -> Any:
    """The :class:`zorba_core.engine.methods.interface.Method` of a run's settings."""
    facts = METHODS[settings.method]
    return imported(facts.code)(**vars(facts)) if facts.code else facts


def estimator_of(settings: Any) -> Callable[..., Any]:
    """The estimator of a run's :class:`zorba_core.engine.settings.Settings`, with their ``mu`` and ``inactive``."""
    estimator = ESTIMATORS.get_part(settings.estimator)
    return functools.partial(imported(estimator.run), mu=settings.mu, inactive=settings.inactive)
