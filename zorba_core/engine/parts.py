"""What a run chooses by name: a method, an estimator, a kind of direction. Listing them loads no torch.

Each part is facts that name the code that computes (``"module:name"``), which is imported when a run needs it. What a
method's messages weigh is in :mod:`zorba_core.engine.communication`.
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
    """One method; of the four that the paper compares, as its section V describes it.

    A :class:`zorba_core.engine.methods.interface.Method` is the facts and the code in one object.
    """

    name: str
    title: str
    help: str  # one line
    default_directions: int  # Q of a round in the paper's experiments; 0: it takes the gradient itself
    exchanges: Exchange
    allocates: bool = False  # takes an allocation; without, every client activates every block
    code: str = ""  # "module:class" of the Method that computes it; empty: this object is one

    @property
    def first_order(self) -> bool:
        return self.default_directions == 0

    @property
    def federates(self) -> bool:
        """Whether its clients can be separate processes. They follow the server by scalars, never by weights."""
        return self.exchanges == "scalars"

    def total_bytes(
        self, model: ModelSpec, workload: Workload, num_clients: int, total_blocks: int | None = None
    ) -> int:
        """All clients together, as in Table II: parameters and activations, and FedIT's gradients (one more copy of d).

        ``total_blocks`` is the sum of the activation matrix and belongs to a method that allocates; the others activate
        all M*N blocks.

        Raises:
            InvalidInputError: ``total_blocks`` missing for a method that allocates, outside [max(M, N), M*N], or given
                for another method and not M*N.
        """
        most, least = model.num_blocks * num_clients, max(model.num_blocks, num_clients)
        if self.allocates and total_blocks is None:
            raise InvalidInputError(
                f"{self.title}'s VRAM depends on the allocation: give the total of activated blocks"
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
    """One way to get the clients' scalars rho[n, q].

    ``run(network, batches_N, A_MN, seeds_Q, directions, *, mu, inactive)`` gives an
    :class:`zorba_core.engine.estimators.reference.Estimate` and leaves the network's weights as they were, bit for bit.
    It is a function, or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    run: Callable[..., Any] | str
    exact: bool = False  # directional derivatives by backpropagation, whose memory they take: mu plays no part


@dataclass(frozen=True)
class DirectionKind:
    """How random directions are drawn and scaled; :class:`zorba_core.engine.directions.Directions` makes the vectors.

    ``draw(seed, block, start, stop, device)`` gives elements start..stop-1 of the block's numbers, float32. Each must
    depend on seed, block and its place alone, so that any part can be drawn without the rest. ``draw`` is a function,
    or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    draw: Callable[..., Any] | str
    # Length over all d parameters that a direction is scaled to, as a function of d; None: as drawn. A kind with a
    # norm draws whole multiples of noise.NORMAL_STEP, so that sums of squares are exact in any order.
    norm: Callable[[int], float] | None = None
    signs: bool = False  # every number is -1 or +1, so products with it are exact
    # Of a matrix the product of two vectors, of which numbers are drawn (zorba_core.engine.low_rank): signs alone.
    low_rank: bool = False

    def __post_init__(self) -> None:
        if self.low_rank and (self.norm is not None or not self.signs):
            raise InvalidInputError(
                f"direction {self.name}: a low-rank direction is made of signs, so its norm is sqrt(d); "
                "give signs=True and no norm"
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
        "low-rank", "Low rank", "of each matrix a product of two vectors of signs", _SIGNS, signs=True, low_rank=True
    ),
):
    DIRECTIONS.register(_kind)


def method_facts(name: str) -> MethodFacts:
    """
    Raises:
        InvalidInputError: no such method.
    """
    return METHODS.get_part(name)


def method_of(settings: Any) -> Any:
    """The :class:`zorba_core.engine.methods.interface.Method` of a run's settings."""
    facts = METHODS[settings.method]
    return imported(facts.code)(**vars(facts)) if facts.code else facts


def estimator_of(settings: Any) -> Callable[..., Any]:
    """The estimator of a run's :class:`zorba_core.engine.settings.Settings`, its finite difference and its reading
    of inactive blocks filled in."""
    estimator = ESTIMATORS.get_part(settings.estimator)
    return functools.partial(imported(estimator.run), mu=settings.mu, inactive=settings.inactive)
