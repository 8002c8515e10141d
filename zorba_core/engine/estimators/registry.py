"""The ways to get rho[n, q], by the name that settings know them by. Listing them loads no torch.

An estimator is one function in a file and one :class:`Estimator` registered in ``ESTIMATORS``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zorba_core.registry import Registry, imported, instance_of

if TYPE_CHECKING:
    from zorba_core.engine.estimators.reference import Estimate
    from zorba_core.engine.settings import TrainSettings


@dataclass(frozen=True)
class Estimator:
    """One way to get the clients' scalars.

    ``run(network, batches_N, A_MN, seeds_Q, directions, *, mu, inactive)`` gives an
    :class:`zorba_core.engine.estimators.reference.Estimate` and leaves the network's weights as they were, bit for bit.
    It is a function, or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    run: Callable[..., Estimate] | str
    exact: bool = False  # directional derivatives by forward-mode differentiation: mu plays no part
    cohort: bool = False  # all clients in one pass a direction; takes max_rows, the most rows through a block at once


ESTIMATORS: Registry[Estimator] = Registry(
    "estimator", "zorba.estimators", accepts=instance_of(Estimator), home=lambda: _register_own()
)


def _register_own() -> None:
    here = __name__.rpartition(".")[0]
    for part in (
        Estimator(
            "cohort", "Cohort", "finite differences, all clients in one pass", f"{here}.cohort:estimate_cohort",
            cohort=True,
        ),
        Estimator("reference", "Reference", "finite differences, one client after another", f"{here}.reference:estimate"),
        Estimator(
            "jvp", "Forward mode", "exact directional derivatives, one client after another", f"{here}.jvp:estimate_jvp",
            exact=True,
        ),
    ):  # fmt: skip
        ESTIMATORS.register(part)


def estimator_of(settings: TrainSettings) -> Callable[..., Estimate]:
    """The estimator that a run uses, its finite difference and its reading of inactive blocks filled in."""
    estimator = ESTIMATORS.get_part(settings.estimator)
    options = {"mu": settings.mu, "inactive": settings.inactive}
    if estimator.cohort:
        options["max_rows"] = settings.max_rows
    return functools.partial(imported(estimator.run), **options)
